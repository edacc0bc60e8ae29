# SPDX-License-Identifier: Apache-2.0
"""Where a plan may be cut, what may follow there, and the same grammar in the notation of other servers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer
from llguidance.gbnf_to_lark import gbnf_to_lark

from llm_planner.backends.openai.dialect import DIALECTS, find_dialect
from llm_planner.backends.openai.gbnf import to_gbnf
from llm_planner.backends.openai.output_tokens import OutputTokens
from llm_planner.backends.openai.statement_ends import StatementEnds
from llm_planner.engine.tokenizer import load_tokenizer
from llm_planner.planning.grammar import continued, lark_grammar
from tests.backends.openai.builders import LIBRARY, TOKENIZER
from tests.engine.builders import sentencepiece_tokenizer

PLANS = {
    "tello": ("mf(100);", "3{mf(20);?iv(cat)==True{tp();}}l('a;b}');", "_1=s('red cat');->_1;", "->'it\\'s done';"),
    "indy7": ("pick(cup);place(cup,'blue box');", "2{home();}->True;"),
}
NO_PLANS = {"tello": ("mf(7);", "mf(100)", "fly();", "3{mf(20);", "mf(100);}"), "indy7": ("pick();", "wait(61);")}
LLG = LLTokenizer(TOKENIZER.json_text, n_vocab=TOKENIZER.vocab_size, eos_token=sorted(TOKENIZER.eos_token_ids))


def accepts(grammar: str, text: str) -> bool:
    matcher = LLMatcher(LLG, LLMatcher.grammar_from_lark(grammar), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    ids = TOKENIZER.encode(text)
    return matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()


def cuts_of(text: str) -> list[str]:
    """Returns the heads of a plan behind which it may be cut."""
    ends = StatementEnds()
    return [text[: i + 1] for i, c in enumerate(text) if ends.feed(c.encode())]


def test_cuts():
    text = "mf(10);3{tc(90);?iv(a)>0{l('a;}\\'b');}}_1=s(cat);->_1;"
    tails = ["mf(10);", "3{tc(90);?iv(a)>0{l('a;}\\'b');}}", "_1=s(cat);", "->_1;"]
    assert cuts_of(text) == ["".join(tails[: i + 1]) for i in range(4)]


def test_text_that_is_no_plan_is_not_cut():
    ends = StatementEnds()
    assert not ends.feed(b"mf(10)@;")
    assert not ends.feed(b"mf(10);")


@settings(max_examples=30)
@given(st.data())
def test_pieces_do_not_matter(data):
    text = "l('caf\u00e9;');3{mf(20);}->1;"
    raw = text.encode()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(raw)))))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert StatementEnds(pieces).is_at_end
    assert not StatementEnds([*pieces, b"mf("]).is_at_end


@pytest.mark.parametrize("robot", PLANS)
@pytest.mark.parametrize("notation", ["lark", "gbnf"])
def test_a_plan_may_go_on_wherever_it_is_cut(robot, notation):
    lark = lark_grammar(LIBRARY.get(robot))
    whole, rest = lark, continued(lark)
    if notation == "gbnf":
        whole, rest = gbnf_to_lark(to_gbnf(whole)), gbnf_to_lark(to_gbnf(rest))
    for text in PLANS[robot]:
        assert accepts(whole, text), text
        assert all(accepts(rest, text.removeprefix(head)) for head in cuts_of(text))
    assert not accepts(whole, "")
    assert not any(accepts(whole, text) or accepts(rest, text) for text in NO_PLANS[robot])


def test_what_gbnf_cannot_say():
    with pytest.raises(ValueError, match="GBNF"):
        to_gbnf("start: %json { }")


@pytest.mark.parametrize(("owned_by", "expected"), [("vllm", "vllm"), ("llamacpp", "llamacpp"), ("unknown", "other")])
def test_a_server_is_known_by_what_it_says(owned_by, expected):
    assert find_dialect("auto", owned_by).name == expected
    assert find_dialect("sglang", owned_by) is DIALECTS["sglang"]


@settings(max_examples=30)
@given(st.text(max_size=12))
def test_no_byte_of_an_answer_is_lost(text):
    tokens = OutputTokens(TOKENIZER)
    ids = tokens.of_text(text)
    assert b"".join(map(tokens.token_bytes, ids)) == text.encode(errors="replace")
    assert all(token_id < TOKENIZER.vocab_size for token_id in tokens.for_model(ids))


def test_half_a_surrogate_pair_is_replaced():
    tokens = OutputTokens(TOKENIZER)
    assert b"".join(map(tokens.token_bytes, tokens.of_text("a\ud83d"))) == b"a?"


class Spelling:
    """A tokenizer that spells texts in its own way, as sentencepiece does at the start of a text."""

    eos_token_ids = frozenset({0})

    def encode(self, text, *, allow_special=False):
        return [1, *text.encode()]

    def token_bytes(self, token_id):
        return b" " if token_id == 1 else bytes([token_id])


def test_text_that_the_tokenizer_spells_otherwise_is_kept_as_it_is():
    tokens = OutputTokens(Spelling())
    ids = [*tokens.of_text("go"), *tokens.of_text("\u00e9")]
    assert b"".join(map(tokens.token_bytes, ids)) == "go\u00e9".encode()
    assert tokens.for_model(ids) == [*"go\u00e9".encode()]
    assert tokens.for_model([7, 8, *ids, 9]) == [7, 8, *"go\u00e9".encode(), 9]  # as in the prompt of a replan


@pytest.mark.parametrize("written", [["go", "(1", ");", "mf(", "0);"], [";", "go"], ["(go"], [" go"]])
def test_what_a_server_wrote_goes_back_without_a_space_that_it_did_not_write(tmp_path, written):
    sentencepiece_tokenizer().save_pretrained(tmp_path)
    tokens = OutputTokens(load_tokenizer(tmp_path))
    ids = [token_id for piece in written for token_id in tokens.of_text(piece)]
    again = tokens.for_model(ids)
    assert b"".join(map(tokens.token_bytes, again)) == "".join(written).encode()
    assert all(token_id < 1 << 40 for token_id in again)
