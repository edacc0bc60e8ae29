# SPDX-License-Identifier: Apache-2.0
"""The grammar, run by llguidance over single bytes."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.language.parser import IncrementalParser, parse
from llm_planner.language.printer import to_text
from llm_planner.planning.grammar import continued, lark_grammar
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.model import SilenceStep
from tests.language.test_closing import closed
from tests.planning.plans import PlanMaker

STOPS = (SilenceStep(after_s=5.0, skill="h"),)
TOKENIZER = LLTokenizer("byte")
MODELS = {name: RobotLibrary().get(name) for name in ("tello", "indy7")}
MATCHERS = {name: LLMatcher(TOKENIZER, lark_grammar(model)) for name, model in MODELS.items()}


def read(robot, text):
    """Returns a matcher that has eaten ``text`` and how many bytes of it were allowed."""
    matcher = MATCHERS[robot].deep_copy()
    return matcher, matcher.try_consume_tokens(list(text.encode()))


def is_accepted(robot, text):
    matcher, count = read(robot, text)
    return count == len(text.encode()) and matcher.is_accepting()


def allowed(matcher):
    mask = matcher.compute_bitmask()
    return [i for i in range(TOKENIZER.vocab_size) if mask[i // 8] >> (i % 8) & 1]


@pytest.mark.parametrize("robot", MODELS)
def test_llguidance_takes_the_grammar_without_a_warning(robot):
    assert LLMatcher.validate_grammar_with_warnings(lark_grammar(MODELS[robot])) == (False, [])


@pytest.mark.parametrize("robot", MODELS)
@given(rng=st.randoms(use_true_random=False))
def test_every_well_typed_plan_is_accepted_as_it_is_printed(robot, rng):
    text = to_text(PlanMaker(rng, MODELS[robot]).plan())
    _, count = read(robot, text)
    assert text.encode()[:count].decode(errors="replace") == text
    assert is_accepted(robot, text)


@pytest.mark.parametrize("robot", MODELS)
@given(rng=st.randoms(use_true_random=False), length=st.integers(1, 300))
def test_what_remains_of_a_plan_that_is_closed_in_its_midst_is_accepted_too(robot, rng, length):
    remains = to_text(closed(to_text(PlanMaker(rng, MODELS[robot]).plan())[:length]))
    assert remains == "" or is_accepted(robot, remains)


@pytest.mark.parametrize("robot", MODELS)
def test_the_examples_of_the_robot_model_are_accepted(robot):
    for example in MODELS[robot].examples:
        assert is_accepted(robot, example.plan), example.plan


# "|" stands before the first byte that a model cannot write
WRONG = [
    "f|ly(100);",
    "mf(19|);",
    "mf(50|1);",
    "mf(100|0);",
    "mf(|-20);",
    "mf(20.0|);",
    "mf(|);",
    "mf(|'20');",
    "mf(|cat);",
    "mf(|_1);",
    "mf(20|,20);",
    "mf(20)|tc(90);",
    "mf(20)| ;",
    "| mf(20);",
    "mf(| 20);",
    "tc(36|1);",
    "tp(|1);",
    "l(|hello);",
    "l('|');",
    "g(|5);",
    "g('a|\nb');",
    "iv(True|);",
    "_1=|mf(20);",
    "_|0=iv(a);",
    "?|mf(20){tp();}",
    "?iv(a)|>5{tp();}",
    "?od(a)==|True{tp();}",
    "?iv(a){|}",
    "|0{tp();}",
    "10|1{tp();}",
    "2{2{2{|2{tp();}}}}",
    "->mf|(20);",
    "->True;|tp();",
    "m|ove_forward(20);",
    "tp();|unclear('x');",
    "unclear('x');|tp();",
    "fail('x');|tp();",
    "?iv(a){|unclear('x');}",
]


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_cannot_be_written(text):
    allowed_part, _, rest = text.partition("|")
    _, count = read("tello", allowed_part + rest)
    assert count == len(allowed_part)


@pytest.mark.parametrize(
    "text",
    [
        "mf(100);",
        "->False;",
        "2{tp();}",
        "?iv(cat){g(cat);}",
        "_1=sa('a tool');",
        "tp();h();",
        "fail('no door');",
        "unclear('which door');",
        "?s(cat)==False{fail('no cat');}",
    ],
)
def test_a_model_can_end_after_a_complete_plan_and_only_there(text):
    eos = TOKENIZER.eos_token
    for end in range(len(text)):
        if to_text(parse_or_nothing(text[:end])) != text[:end] or end == 0:
            assert eos not in allowed(read("tello", text[:end])[0])
    assert eos in allowed(read("tello", text)[0])


def parse_or_nothing(text):
    try:
        return parse(text)
    except PlannerError:
        return ()


def written_by_chance(rng, robot, max_bytes=120):
    """Returns what a model without knowledge writes under the grammar, or None if it did not come to an end."""
    matcher, written = MATCHERS[robot].deep_copy(), []
    while len(written) < max_bytes:
        options = allowed(matcher)
        if TOKENIZER.eos_token in options and (rng.random() < 0.2 or len(options) == 1):
            return bytes(written).decode()
        printable = [i for i in options if 32 <= i < 127]
        closing = [i for i in printable if chr(i) in ");}'"]
        token = rng.choice(closing if closing and rng.random() < 0.4 else printable)
        matcher.consume_token(token)
        written.append(token)
    return None


def refusal(robot, text):
    gate = SafetyGate(MODELS[robot])
    try:
        for statement in parse(text):
            gate.admit(statement)
    except PlannerError as error:
        return error
    return None


@pytest.mark.parametrize("robot", MODELS)
def test_whatever_is_written_under_the_grammar_is_canonical_and_well_typed(robot):
    rng = random.Random(7)
    texts = [text for _ in range(150) if (text := written_by_chance(rng, robot))]
    assert len(texts) > 30
    for text in texts:
        assert to_text(parse(text)) == text
        error = refusal(robot, text)
        is_beyond_a_grammar = error and (
            error.code in (ErrorCode.GEOFENCE_VIOLATED, ErrorCode.PLAN_TOO_LONG)
            or "variable" in error.message
            or "after it has returned" in error.message
        )
        assert error is None or is_beyond_a_grammar, (text, error)


@pytest.mark.parametrize(
    ("names", "plan", "wrong"),
    [
        (("tp", "h"), "2{tp();}->True;", "?_1{tp();}"),
        (("od", "h"), "_1=od(a);?_1>0.5{h();}", "?od(a){h();}"),
        (("p", "h"), "?p('how many')>2{h();}", "?p('x')>'y'{h();}"),
        (("iv", "h"), "?iv(a)==True{h();}", "?iv(a)=='x'{h();}"),
    ],
)
def test_robots_with_few_skills(names, plan, wrong):
    tello = MODELS["tello"]
    model = replace(
        tello,
        skills={name: tello.skills[name] for name in names},
        silence=STOPS,
        stop_skill="h",
        reflex=None,
        urgent=None,
    )
    matcher = LLMatcher(TOKENIZER, lark_grammar(model))
    assert matcher.deep_copy().try_consume_tokens(list(plan.encode())) == len(plan)
    assert matcher.deep_copy().try_consume_tokens(list(wrong.encode())) < len(wrong)


def test_whole_number_arguments():
    tello = MODELS["tello"]
    whole = replace(tello.skills["mf"], arguments=(replace(tello.skills["mf"].arguments[0], is_integer=True),))
    model = replace(tello, skills={**tello.skills, "mf": whole})
    matcher = LLMatcher(TOKENIZER, lark_grammar(model))
    assert matcher.deep_copy().try_consume_tokens(list(b"mf(50.5);")) == len("mf(50")
    assert matcher.deep_copy().try_consume_tokens(list(b"mb(50.5);")) == len("mb(50.5);")


@pytest.mark.parametrize("robot", MODELS)
def test_what_follows_within_open_blocks_closes_them_and_may_go_on(robot):
    rng, model = random.Random(3), MODELS[robot]
    matchers = [LLMatcher(TOKENIZER, continued(lark_grammar(model), depth)) for depth in range(4)]
    for depth in range(4):
        assert LLMatcher.validate_grammar_with_warnings(continued(lark_grammar(model), depth)) == (False, [])
    num_cuts = 0
    for _ in range(120):
        text = to_text(PlanMaker(rng, model).plan())
        if not is_accepted(robot, text):
            continue
        parser, end = IncrementalParser(opens_blocks=True), 0
        for part in parser.feed(text):
            end += len(to_text(part))
            depth = cut_depth(text[:end])
            matcher = matchers[depth].deep_copy()
            rest = text[end:].encode()
            assert matcher.try_consume_tokens(list(rest)) == len(rest)
            assert matcher.is_accepting()
            num_cuts += depth > 0
    assert num_cuts > 100
    for depth, matcher in enumerate(matchers):
        assert matcher.is_accepting() is (depth == 0)
        closing = matcher.deep_copy()
        assert closing.try_consume_tokens(list(b"}}}}")) == depth
        assert closing.is_accepting()


def cut_depth(text):
    parser = IncrementalParser(opens_blocks=True)
    parser.feed(text)
    return parser.num_open_blocks


@pytest.mark.parametrize(("can_ask", "num_read"), [(True, 16), (False, 0)])
def test_a_plan_may_ask_back_or_not(can_ask, num_read):
    matcher = LLMatcher(TOKENIZER, lark_grammar(MODELS["tello"], can_ask=can_ask))
    assert matcher.try_consume_tokens(list(b"unclear('what');")) == num_read


@pytest.mark.parametrize(("text", "num_read"), [("mb(100);->True;", 15), ("->sss;", 2), ("->1;", 2), ("->'yes';", 2)])
def test_where_no_skill_measures_anything_only_a_truth_value_is_returned(text, num_read):
    """Of a model that takes a warning for a question, a name would be what comes next: ``->sssss``."""
    grammar = lark_grammar(MODELS["tello"], allowed=frozenset({"mb"}))
    assert LLMatcher(TOKENIZER, grammar).try_consume_tokens(list(text.encode())) == num_read
