# SPDX-License-Identifier: Apache-2.0
"""The parser and the printer: examples, properties, and what hostile text can do to them."""

import itertools
import pickle
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode
from llm_planner.language.descent import MAX_DEPTH
from llm_planner.language.errors import PlanSyntaxError
from llm_planner.language.parser import MAX_STATEMENT_LENGTH, IncrementalParser, parse
from llm_planner.language.printer import to_text
from llm_planner.language.syntax import (
    And,
    Assign,
    Boolean,
    Call,
    Closing,
    Comparison,
    Fail,
    If,
    Loop,
    Name,
    Number,
    Opening,
    Or,
    Return,
    Text,
    Unclear,
    Variable,
)

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,7}", fullmatch=True).filter(
    lambda name: name not in ("True", "False", "fail", "unclear") and not name[1:].isdigit()
)
numbers = st.builds(Number, st.floats(-1e9, 1e9).map(lambda x: round(x, 6) + 0.0))
variables = st.builds(Variable, st.integers(1, 99))
atoms = st.one_of(
    st.builds(Name, names), st.builds(Text, st.text(max_size=8)), numbers, st.builds(Boolean, st.booleans()), variables
)
calls = st.deferred(lambda: st.builds(Call, names, st.lists(expressions, max_size=3).map(tuple)))
expressions = st.one_of(atoms, calls)
comparisons = st.one_of(
    expressions, st.builds(Comparison, expressions, st.sampled_from([">", "<", "==", "!="]), expressions)
)


def joined(kind, operands):
    return st.one_of(operands, st.builds(kind, st.lists(operands, min_size=2, max_size=3).map(tuple)))


conditions = joined(Or, joined(And, comparisons))
blocks = st.deferred(lambda: st.lists(statements, max_size=2).map(tuple))
statements = st.one_of(
    calls,
    st.builds(Assign, variables, calls),
    st.builds(Return, expressions),
    st.builds(Fail, st.text(max_size=8)),
    st.builds(Unclear, st.text(max_size=8)),
    st.builds(Loop, st.integers(1, 10**6), blocks),
    st.builds(If, conditions, blocks),
)
plans = st.lists(statements, max_size=4).map(tuple)


def outcome(pieces, parser=None):
    """Returns the statements and the error's position, as far as either goes."""
    parser, found = parser or IncrementalParser(), []
    try:
        for piece in pieces:
            found += parser.feed(piece)
        found += parser.finish()
    except PlanSyntaxError as error:
        return found, (error.position, error.problem)
    return found, None


def first_ready(text):
    """Returns how many characters it takes until the first statement is executable."""
    parser = IncrementalParser()
    return next(i for i, character in enumerate(text, 1) if parser.feed(character))


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        ("", ()),
        ("mf(100);tc(-90.5);", (Call("mf", (Number(100.0),)), Call("tc", (Number(-90.5),)))),
        ("tp()", (Call("tp"),)),
        (" mf ( 100 ) ;\n\ttp ( ) ; ", (Call("mf", (Number(100.0),)), Call("tp"))),
        ("g(cat);g('ca t');g(\"c\")", tuple(Call("g", (a,)) for a in (Name("cat"), Text("ca t"), Text("c")))),
        (r"l('it\'s \\ \n \"');", (Call("l", (Text("it's \\ \n \""),)),)),
        ("l('a;b}c)d->e')", (Call("l", (Text("a;b}c)d->e"),)),)),
        ("_1=sa('x');g(_1)", (Assign(Variable(1), Call("sa", (Text("x"),))), Call("g", (Variable(1),)))),
        ("3{tp();2{tp()}}", (Loop(3, (Call("tp"), Loop(2, (Call("tp"),)))),)),
        ("2{tp();};tp();", (Loop(2, (Call("tp"),)), Call("tp"))),
        ("?s(a){g(a)}->False", (If(Call("s", (Name("a"),)), (Call("g", (Name("a"),)),)), Return(Boolean(False)))),
        ("?_1!=False{}", (If(Comparison(Variable(1), "!=", Boolean(False)), ()),)),
        ("?_1>-5{}", (If(Comparison(Variable(1), ">", Number(-5.0)), ()),)),
        ("?a|b&c|d{}", (If(Or((Name("a"), And((Name("b"), Name("c"))), Name("d"))), ()),)),
        ("g(sa('x'));", (Call("g", (Call("sa", (Text("x"),)),)),)),
        ("->_12;", (Return(Variable(12)),)),
        # an arrow after a call separates if a call follows, and returns otherwise
        (
            "pick(a)->place(a,b)->home()",
            (Call("pick", (Name("a"),)), Call("place", (Name("a"), Name("b"))), Call("home")),
        ),
        ("_1=sa(x)->g(_1)", (Assign(Variable(1), Call("sa", (Name("x"),))), Call("g", (Variable(1),)))),
        ("tp()->True", (Call("tp"), Return(Boolean(True)))),
        ("tp();->iv(a)", (Call("tp"), Return(Call("iv", (Name("a"),))))),
        ("2{tp()}->iv(a)", (Loop(2, (Call("tp"),)), Return(Call("iv", (Name("a"),))))),
        ("2{tp()->h()}", (Loop(2, (Call("tp"), Call("h"))),)),
    ],
)
def test_examples(text, plan):
    assert parse(text) == plan


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("mf(100", 6, "expected ',' or ')'"),
        ("mf(100)tc(90)", 7, "expected ';' or '->'"),
        ("mf 100", 3, "expected '('"),
        ("mf(1,)", 5, "expected a name"),
        ("mf(1.)", 5, "a number cannot go on"),
        ("mf(1.2.3)", 6, "a number cannot go on"),
        ("mf(1e5)", 4, "a number cannot go on"),
        ("mf(--5)", 3, "'-' cannot be followed by '-'"),
        ("mf(+5)", 3, "unexpected character '+'"),
        ("mf(" + "9" * 400 + ")", 3, "a number of 400 digits is too large"),
        ("0{tp()}", 0, "a loop count is a whole number from 1"),
        ("2.5{tp()}", 0, "a loop count"),
        ("-2{tp()}", 0, "a loop count"),
        ("2{tp()", 6, "expected ';' or '->' or '}'"),
        ("2 tp()", 2, "expected '{'"),
        ("}", 0, "expected a name"),
        ("tp());", 4, "expected ';'"),
        ("?{tp()}", 1, "expected a name"),
        ("?_1=5{}", 3, "expected '{'"),
        ("?_1>=5{}", 4, "expected a name or a variable or a number"),
        ("?!iv(a){}", 1, "'!' cannot be followed by 'i'"),
        ("?a&&b{}", 3, "expected a name"),
        ("_1=5;", 3, "expected a name"),
        ("_0=tp();", 0, "variables are _1, _2"),
        ("_01=tp();", 0, "variables are _1, _2"),
        ("True();", 0, "expected a name"),
        ("->", 2, "expected a name"),
        ("->1 2", 4, "expected ';'"),
        ("l('abc", 2, "the quoted text has no end"),
        (r"l('\x41')", 4, "unknown escape"),
        ("tür()", 1, "unexpected character 'ü'"),
        ("mf(\N{ARABIC-INDIC DIGIT ONE})", 3, "unexpected character"),
        ("```mf(1);```", 0, "unexpected character '`'"),
    ],
)
def test_errors_say_where_and_what(text, position, problem):
    with pytest.raises(PlanSyntaxError) as caught:
        parse(text)
    assert caught.value.code is ErrorCode.PLAN_SYNTAX
    assert caught.value.position == position
    assert problem in caught.value.problem
    assert pickle.loads(pickle.dumps(caught.value)).position == position


@pytest.mark.parametrize(
    ("text", "num_characters"),
    [
        ("mf(100);", 7),
        ("l(')');", 6),
        ("_1=iv(a);", 8),
        ("g(sa('x'));", 10),
        ("2{tp();tp();}tp();", 13),
        ("?iv(a)&iv(b){tp()}tp()", 18),
        ("->iv(a);", 8),
    ],
)
def test_a_statement_is_handed_out_at_its_last_character(text, num_characters):
    assert first_ready(text) == num_characters


@given(plans)
def test_printing_and_parsing_are_inverse(plan):
    text = to_text(plan)
    assert parse(text) == plan
    assert to_text(parse(text)) == text


WORDS = r"""mf( tc( iv(cat) 100 -5 3.5 ) ; , { } 3{ ? -> _1 = == != > < & | ' " \ True a é"""
fragments = st.sampled_from([*WORDS.split(), "\n", " "])
soup = st.one_of(st.lists(fragments, max_size=30).map("".join), st.text(max_size=60), plans.map(to_text))


@given(soup, st.randoms(use_true_random=False))
def test_any_split_gives_the_same_statements_and_the_same_error(text, rng):
    cuts = sorted(rng.choices(range(len(text) + 1), k=rng.randint(0, 5)))
    pieces = [text[i:j] for i, j in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert outcome([text]) == outcome(text) == outcome(pieces)


@given(soup)
def test_hostile_text_meets_nothing_but_a_syntax_error(text):
    found, error = outcome([text])
    assert error is None or 0 <= error[0] <= len(text)
    assert parse(to_text(tuple(found))) == tuple(found)


@settings(max_examples=30)
@given(plans, st.integers(0, 10_000), st.characters())
def test_one_changed_character_never_breaks_the_parser(plan, index, character):
    text = to_text(plan)
    if text:
        index %= len(text)
        outcome([text[:index] + character + text[index + 1 :]])


def test_nesting_is_bounded():
    assert parse("1{" * MAX_DEPTH + "}" * MAX_DEPTH)
    for opening in ("1{", "?a{", "f("):
        with pytest.raises(PlanSyntaxError, match="nested deeper than"):
            parse(opening * 100_000)


@pytest.mark.parametrize(
    "filler", ["l('" + "x" * 10_000, "mf(" + "1" * 10_000, "a" * 10_000, " " * 10_000, ";" * 10_000]
)
def test_a_statement_is_bounded_in_length(filler):
    with pytest.raises(PlanSyntaxError, match="longer than") as caught:
        parse(filler)
    assert caught.value.position <= MAX_STATEMENT_LENGTH + 1


def test_length_counts_from_the_last_executable_statement():
    text = "mf(100);" * 2_000
    assert len(parse(text)) == 2_000
    assert outcome([text])[0] == outcome(text)[0]


def test_an_error_stays():
    parser = IncrementalParser()
    assert parser.feed("tp();@tp();") == [Call("tp")]
    for _ in range(2):
        with pytest.raises(PlanSyntaxError):
            parser.feed("tp();")
    with pytest.raises(PlanSyntaxError):
        parser.finish()


def test_position_counts_characters_eaten():
    parser = IncrementalParser()
    parser.feed("mf(")
    parser.feed("10);")
    assert parser.position == 7
    parser.finish()
    assert parser.position == 7


def test_numbers_print_as_short_decimals():
    numbers_in = [100.0, 0.5, -3.25, 1e-7, 1e20, 0.1 + 0.2]
    rng = random.Random(1)
    numbers_in += [rng.uniform(-1e6, 1e6) for _ in range(100)]
    texts = [to_text(Return(Number(x)))[2:-1] for x in numbers_in]
    assert texts[:5] == ["100", "0.5", "-3.25", "0.0000001", "100000000000000000000"]
    assert [float(text) for text in texts] == numbers_in


def test_a_plan_can_say_that_it_cannot_be_achieved_or_is_not_understood():
    found, missing = parse("?s(cat)==False{fail('cat not found');}g(cat);")
    assert found.body == (Fail("cat not found"),)
    assert missing == Call("g", (Name("cat"),))
    assert parse("unclear('which box')") == (Unclear("which box"),)


@pytest.mark.parametrize("text", ["fail();", "fail(cat);", "fail('a','b');", "unclear(1);", "fail('a')->mf(20);"])
def test_an_ending_takes_one_quoted_text(text):
    with pytest.raises(PlanSyntaxError):
        parse(text)


def in_parts(statement):
    if not isinstance(statement, If):
        return [statement]
    return [Opening(statement.condition), *(part for inner in statement.body for part in in_parts(inner)), Closing()]


@given(plans, st.data())
def test_a_plan_in_parts_has_the_same_text_and_the_same_statements(plan, data):
    text = to_text(plan)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    parser, found = IncrementalParser(opens_blocks=True), []
    for start, end in itertools.pairwise([0, *cuts, len(text)]):
        found += parser.feed(text[start:end])
    found += parser.finish()
    assert found == [part for statement in plan for part in in_parts(statement)]
    assert "".join(map(to_text, found)) == text
    assert parser.num_open_blocks == 0


@given(plans, st.lists(st.tuples(st.integers(0, 400), st.sampled_from("{};?->'(x1")), min_size=1, max_size=3))
def test_in_parts_or_not_the_same_texts_are_refused_at_the_same_character(plan, changes):
    text = to_text(plan)
    for place, character in changes:
        text = text[: place % (len(text) + 1)] + character + text[place % (len(text) + 1) :]
    _, error = outcome([text])
    _, error_in_parts = outcome([text], IncrementalParser(opens_blocks=True))
    assert error_in_parts == error


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("?s(cat){", ["?s(cat){"]),
        ("?s(cat)==True&iv(x)|_1>3{g(cat)", ["?s(cat)==True&iv(x)|_1>3{", "g(cat);"]),
        ("?s(cat){?iv(x){tp()}->True}", ["?s(cat){", "?iv(x){", "tp();", "}", "->True;", "}"]),
        ("?a(){2{?b(){c();}}", ["?a(){", "2{?b(){c();}}"]),
        ("2{?b(){c();}}", ["2{?b(){c();}}"]),
        ("2{?b(){c();}", []),
        ("?s(cat", []),
    ],
)
def test_a_condition_is_handed_out_at_its_brace_but_for_those_in_loops(text, parts):
    assert [to_text(part) for part in IncrementalParser(opens_blocks=True).feed(text)] == parts


def test_an_open_block_is_no_plan_and_as_long_as_a_whole_one_may_be():
    parser = IncrementalParser(opens_blocks=True)
    parser.feed("?s(cat){g(cat);")
    assert (parser.num_open_blocks, parser.closed()) == (1, None)
    with pytest.raises(PlanSyntaxError):
        parser.finish()
    parser.restart()
    assert parser.num_open_blocks == 0
    parser.feed("?s(cat){")
    with pytest.raises(PlanSyntaxError, match="longer than"):
        parser.feed(" " * MAX_STATEMENT_LENGTH)
    parser.restart()
    assert len(parser.feed("?s(cat){" + "tp();" * 1000)) < 900  # the error comes with the next piece
