# SPDX-License-Identifier: Apache-2.0
import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.step import SamplingParams
from llm_planner.engine import sampler
from llm_planner.engine.sampler import Sampler, SamplingError, copied
from llm_planner.engine.sequence_state import SequenceState


def choices(logits, states):
    return Sampler(logits).choose(range(len(states)), states)


def sample(logits, states):
    """Returns the tokens, and the errors as they are."""
    return [c if isinstance(c, SamplingError) else c.token_id for c in choices(logits, states)]


def state(matcher=None, **sampling):
    return SequenceState(request_id="a", token_ids=[1], sampling=SamplingParams(**sampling), matcher=matcher)


class Only:
    """A grammar that allows a fixed set of tokens for ever."""

    is_complete = False

    def __init__(self, *token_ids):
        self.token_ids = token_ids

    def try_accept(self, token_id):
        return token_id in self.token_ids

    def would_have_allowed(self, token_ids, instead_of):
        assert instead_of in self.token_ids
        return [token_id in self.token_ids for token_id in token_ids]

    def forced_token(self):
        return None

    def fill_mask(self, row):
        row.zero_()
        for token_id in self.token_ids:
            row[token_id // 32] |= 1 << (token_id % 32)


def draws(logits, count, **sampling):
    drawn = state(**sampling)
    return Counter(sample(torch.tensor([logits]), [drawn])[0] for _ in range(count))


def test_greedy_takes_the_largest_and_the_largest_allowed():
    logits = torch.tensor([[0.0, 3.0, 2.0, 1.0]] * 3)
    assert sample(logits, [state(), state(Only(3, 0)), state(Only(1, 2))]) == [1, 3, 1]


def test_sampling_follows_the_distribution():
    counts = draws([0.0, 1.0, 2.0], 4000, temperature=1.0, seed=5)
    expected = torch.tensor([0.0, 1.0, 2.0]).softmax(0)
    for token in range(3):
        assert counts[token] / 4000 == pytest.approx(float(expected[token]), abs=0.03)


def test_temperature_flattens_and_sharpens():
    cold, hot = (draws([0.0, 1.0], 500, temperature=t, seed=1)[1] for t in (0.2, 5.0))
    assert hot < 350 < cold


def test_top_p_keeps_the_smallest_set_that_reaches_it():
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().tolist()
    assert set(draws(logits, 400, temperature=1.0, top_p=0.8)) == {0, 1}
    assert set(draws(logits, 400, temperature=1.0, top_p=0.81)) == {0, 1, 2}
    assert set(draws(logits, 50, temperature=1.0, top_p=0.0001)) == {0}


def test_sampling_stays_inside_the_grammar():
    drawn = state(Only(2, 40), temperature=2.0)
    assert {sample(torch.randn(1, 50, generator=torch.Generator().manual_seed(0)), [drawn])[0] for _ in range(50)} == {
        2,
        40,
    }


@given(
    seeds=st.lists(st.integers(0, 5), min_size=1, max_size=6),
    order=st.randoms(use_true_random=False),
    temperature=st.sampled_from([0.0, 0.7, 3.0]),
)
def test_a_row_does_not_depend_on_its_neighbours(seeds, order, temperature):
    logits = torch.randn(6, 40, generator=torch.Generator().manual_seed(1))
    alone = [sample(logits[s : s + 1], [state(temperature=temperature, seed=s)])[0] for s in seeds]
    places = list(range(len(seeds)))
    order.shuffle(places)
    states = [state(temperature=temperature, seed=seeds[p]) for p in places]
    together = sample(logits[[seeds[p] for p in places]], states)
    assert together == [alone[p] for p in places]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_that_is_not_finite_fails_alone(value, temperature):
    logits = torch.tensor([[0.0, value, 1.0], [0.0, 1.0, 5.0]])
    bad, good = sample(logits, [state(temperature=temperature), state()])
    assert isinstance(bad, SamplingError)
    assert good == 2


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_grammar_that_allows_nothing_fails_alone(temperature):
    bad, good = sample(torch.tensor([[0.0, 1.0]] * 2), [state(Only(), temperature=temperature), state()])
    assert "allows no token" in str(bad)
    assert good == 1


def test_a_choice_says_how_likely_it_was_among_all_tokens_and_what_else_it_could_have_been():
    logits = torch.tensor([[0.0, 3.0, 2.0, 1.0]] * 3)
    probability = logits[0].softmax(0)
    free, masked, sure = choices(
        torch.cat((logits[:2], torch.tensor([[0.0, 9.0, 0.0, 0.0]]))), [state(), state(Only(3, 0)), state()]
    )
    assert math.exp(free.logprob) == pytest.approx(float(probability[1]))
    assert [other.token_id for other in free.alternatives] == [2, 3, 0]
    assert [math.exp(other.logprob) for other in free.alternatives] == pytest.approx(probability[[2, 3, 0]].tolist())
    assert math.exp(masked.logprob) == pytest.approx(float(probability[3]))  # the mask hides nothing of its doubt
    assert [(other.token_id, other.is_allowed) for other in masked.alternatives] == [(1, False), (2, False), (0, True)]
    assert all(other.is_allowed for other in free.alternatives)
    assert sure.alternatives == ()


@pytest.mark.parametrize(("scale", "grammar", "num_reads"), [(99.0, None, 1), (1.0, None, 2), (1.0, Only(3), 3)])
@pytest.mark.parametrize("num_rows", [1, 9])
def test_copies_to_the_host_do_not_grow_with_the_rows(scale, grammar, num_reads, num_rows, monkeypatch):
    calls, read = [], sampler._read
    monkeypatch.setattr(sampler, "_read", lambda *parts: calls.append(parts) or read(*parts))
    logits = torch.arange(8.0).repeat(num_rows, 1) * scale
    assert sample(logits, [state(grammar) for _ in range(num_rows)]) == [7 if grammar is None else 3] * num_rows
    assert len(calls) == num_reads


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_numbers_of_several_tensors_are_the_same_after_one_copy(dtype):
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(0)).to(dtype)
    parts = (logits, torch.tensor([[0, 1], [128_255, (1 << 31) - 1]]), torch.tensor([-math.inf]))
    assert [part.tolist() for part in copied(parts)] == [part.tolist() for part in parts]


def test_rows_are_chosen_in_any_order():
    logits = torch.randn(3, 40, generator=torch.Generator().manual_seed(2))
    in_order = choices(logits, [state() for _ in range(3)])
    assert Sampler(logits).choose([2, 0, 1], [state() for _ in range(3)]) == [in_order[row] for row in (2, 0, 1)]
    assert Sampler(logits).choose([1], [state()]) == in_order[1:2]
