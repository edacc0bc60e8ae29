# SPDX-License-Identifier: Apache-2.0
"""How sure vLLM's model is of its tokens: what our own engine says of the same model."""

import math

import pytest

pytest.importorskip("vllm")

from llm_planner.engine.backend import TorchBackend
from llm_planner.engine.sampler import CLEAR_LOGPROB, NUM_ALTERNATIVES
from tests.backends.vllm.test_identity import MAX_TOKENS, Driver, make_sequences
from tests.backends.vllm.test_lookahead import GRAMMAR, drafting, running_drafting
from tests.engine.builders import generate, sequence

__all__ = ["drafting", "running_drafting"]  # fixtures

ENDING = 'start: "mf(1" /[0-9]/ "0);"\n'


def choices_of(backend, sequences):
    """Returns the choices of each sequence, and checks that there is one for each token."""
    driver, choices = Driver(backend, sequences), {s.request_id: [] for s in sequences}
    while driver.unfinished:
        output = driver.step(driver.unfinished)
        for name, new in output.choices.items():
            written = [*output.token_ids.get(name, ()), *([new[-1].token_id] if name in output.finished else [])]
            assert [choice.token_id for choice in new] == written[: len(new)]
            assert len(new) >= len(output.token_ids.get(name, ()))
            choices[name] += new
    driver.step([])
    return choices


@pytest.fixture(scope="module")
def expected(model_dir):
    torch_backend = TorchBackend(model_dir, num_kv_blocks=64, dtype="float32", lookahead="off")
    yield lambda sequences: generate(torch_backend, *sequences, max_tokens=MAX_TOKENS, what="choices")
    torch_backend.close()


def check_equal(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, choices in ours.items():
        for one, other in zip(choices, theirs[name], strict=False):
            assert one.token_id == other.token_id
            assert one.logprob == pytest.approx(other.logprob, abs=2e-3)
            if max(one.logprob, other.logprob) < CLEAR_LOGPROB - 0.01:
                assert 0 < len(other.alternatives) <= NUM_ALTERNATIVES
                logprobs = [[a.logprob for a in choice.alternatives] for choice in (one, other)]
                assert logprobs[0] == pytest.approx(logprobs[1], abs=2e-3)


def check_at_least(ours, theirs):
    """What the grammar rules out is not counted: everything that it leaves is as much more probable."""
    assert ours.keys() == theirs.keys()
    assert any(one.logprob == 0 for choices in ours.values() for one in choices)  # one that is forced
    for name, choices in ours.items():
        for one, other in zip(choices, theirs[name], strict=False):
            assert one.token_id == other.token_id
            assert one.logprob >= other.logprob - 2e-3
            assert sum(math.exp(choice.logprob) for choice in (one, *one.alternatives)) < 1.001


def test_they_are_those_of_our_own_engine(backend, expected):
    sequences = make_sequences(4)
    check_equal(choices_of(backend, sequences), expected(sequences))


def test_among_what_a_grammar_leaves(backend, expected):
    sequences = make_sequences(4, GRAMMAR)
    ours, theirs = choices_of(backend, sequences), expected(sequences)
    plain, bound = ("s0", "s2"), ("s1", "s3")
    check_equal({name: ours[name] for name in plain}, {name: theirs[name] for name in plain})
    check_at_least({name: ours[name] for name in bound}, {name: theirs[name] for name in bound})


def test_with_drafts_as_without(backend, drafting):
    sequences = make_sequences(4, GRAMMAR)
    check_equal(choices_of(drafting, sequences), choices_of(backend, sequences))


def test_the_end_token_is_among_them(backend, expected):
    sequences = [sequence("a", grammar=ENDING)]
    ours, theirs = choices_of(backend, sequences), expected(sequences)
    check_at_least(ours, theirs)
    assert len(ours["a"]) == len(theirs["a"]) + 1  # our own engine ends where the grammar does
    assert ours["a"][-1].token_id in backend.tokenizer.eos_token_ids
