# SPDX-License-Identifier: Apache-2.0
import pytest
import torch

from llm_planner.engine.grammar import GrammarCompiler, GrammarError, Matcher, mask_words, unpack_mask
from llm_planner.engine.tokenizer import load_tokenizer
from tests.engine.builders import VOCAB_SIZE, byte_level_tokenizer, sentencepiece_tokenizer

GRAMMAR = 'start: ("mf(" /[0-9]{1,3}/ ");")+\n'


@pytest.fixture(scope="module")
def compiler():
    return GrammarCompiler(byte_level_tokenizer().backend_tokenizer.to_str(), VOCAB_SIZE, {2, 0})


def encode(text):
    return byte_level_tokenizer().encode(text, add_special_tokens=False)


def allowed(matcher):
    words = torch.zeros(1, mask_words(VOCAB_SIZE), dtype=torch.int32)
    matcher.fill_mask(words[0])
    return set(unpack_mask(words, VOCAB_SIZE)[0].nonzero().flatten().tolist())


def accepts(matcher, token_id):
    return Matcher(matcher._matcher.deep_copy()).try_accept(token_id)


def test_mask_and_acceptance_agree_along_a_plan(compiler):
    matcher = compiler.matcher(GRAMMAR)
    plan = encode("mf(100);mf(2);")
    num_free = 0
    for token in plan:
        accepted = {t for t in range(VOCAB_SIZE) if accepts(matcher, t)}
        assert token in allowed(matcher) <= accepted  # narrower where the text is forced: one tokenization only
        num_free += allowed(matcher) == accepted
        assert matcher.try_accept(token)
    assert num_free > len(plan) / 2
    assert {0, 2} <= allowed(matcher)
    assert not matcher.is_complete


def test_a_refused_token_changes_nothing(compiler):
    matcher = compiler.matcher(GRAMMAR)
    before = allowed(matcher)
    assert not matcher.try_accept(encode("x")[0])
    assert not matcher.try_accept(2)
    assert allowed(matcher) == before


def test_matchers_of_one_grammar_are_independent(compiler):
    first, second = compiler.matcher(GRAMMAR), compiler.matcher(GRAMMAR)
    fresh = allowed(second)
    for token in encode("mf(1"):
        assert first.try_accept(token)
    assert allowed(second) == fresh
    assert allowed(first) != fresh


def test_an_end_token_completes(compiler):
    matcher = compiler.matcher(GRAMMAR)
    for token in [*encode("mf(1);"), 0]:
        assert matcher.try_accept(token)
    assert matcher.is_complete


@pytest.mark.parametrize("text", ["", "start: (", "start: nowhere", "no grammar at all", "start: /(/", "\ufffd\0"])
def test_malformed_grammars_are_errors_each_time(compiler, text):
    for _ in range(2):
        with pytest.raises(GrammarError, match="cannot be compiled"):
            compiler.matcher(text)


def test_unpacked_masks_have_one_column_per_token():
    words = torch.tensor([[1, 2], [-1, -2147483648]], dtype=torch.int32)
    mask = unpack_mask(words, 40)
    assert mask.shape == (2, 40)
    assert mask[0].nonzero().flatten().tolist() == [0, 33]
    assert mask[1].nonzero().flatten().tolist() == list(range(32))


@pytest.mark.parametrize("build", [byte_level_tokenizer, sentencepiece_tokenizer])
def test_tokens_mean_the_same_bytes_to_the_grammar_and_to_the_tokenizer(build, tmp_path):
    build().save_pretrained(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    grammars = GrammarCompiler(tokenizer.json_text, tokenizer.vocab_size, tokenizer.eos_token_ids)
    texts = {t: tokenizer.token_bytes(t) for t in range(tokenizer.vocab_size) if tokenizer.token_bytes(t)}
    assert len(texts) > 250
    seen = {t: bytes(grammars._tokenizer.decode_bytes([t])) for t in texts}
    assert seen == {t: text.removeprefix(b"\xff") for t, text in texts.items()}  # llguidance's own mark; never UTF-8


def test_it_says_what_could_have_come_instead_and_stands_where_it_stood(compiler):
    matcher = compiler.matcher(GRAMMAR)
    one, two, other = (encode(text)[0] for text in ("1", "2", "x"))
    for token in encode("mf("):
        assert matcher.try_accept(token)
    assert matcher.try_accept(one)
    before = allowed(matcher)
    assert matcher.would_have_allowed([two, other, 2], instead_of=one) == [True, False, False]
    assert allowed(matcher) == before
    for token in encode(");"):
        assert matcher.try_accept(token)
    assert matcher.try_accept(2)
    assert matcher.is_complete
    (begins,) = {encode("mf(")[0]}
    assert matcher.would_have_allowed([begins, other], instead_of=2) == [True, False]
    assert matcher.is_complete
