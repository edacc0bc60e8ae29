# SPDX-License-Identifier: Apache-2.0
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.scheduling.step_model import LEAST_TOKENS, StepModel
from llm_planner.scheduling.step_times import StepTimes


def engine_s(num_prompt_tokens, num_seqs, base_s=0.0214, rate_s=1.14e-4, slope_s=4.5e-4):
    return max(base_s, rate_s * num_prompt_tokens) + slope_s * (num_seqs - 1)


def run_engine(model, num_steps, seed=0, **engine):
    """Runs an engine whose prompts fill what the model says is free."""
    rng = random.Random(seed)
    for _ in range(num_steps):
        num_seqs = rng.randint(1, 16)
        num_prompt_tokens = model.free_tokens if rng.randint(0, 2) else 0
        model.observe(engine_s(num_prompt_tokens, num_seqs, **engine), num_prompt_tokens, num_seqs)
    return model


@pytest.mark.parametrize("rate_s", [3e-5, 1.14e-4, 5e-4])
def test_it_finds_how_many_prompt_tokens_are_free(rate_s):
    model = run_engine(StepModel(), 1000, rate_s=rate_s)
    assert model.base_s == pytest.approx(0.0214, rel=0.02)
    assert model.slope_s == pytest.approx(4.5e-4, rel=0.1)
    assert model.free_tokens == pytest.approx(0.0214 / rate_s, rel=0.12)


def adding_engine_s(num_prompt_tokens, num_seqs):
    return 0.0214 + 1.14e-4 * num_prompt_tokens + 4.5e-4 * (num_seqs - 1)


def test_an_engine_that_hides_nothing_is_found_out_and_back():
    model, rng = StepModel(), random.Random(0)
    for _ in range(1500):
        num_seqs = rng.randint(1, 16)
        num_prompt_tokens = rng.choice((0, model.free_tokens, model.free_tokens // 3))
        model.observe(adding_engine_s(num_prompt_tokens, num_seqs), num_prompt_tokens, num_seqs)
    assert not model.hides_prompts
    assert model.free_tokens == pytest.approx(188, rel=0.15)  # a full step takes twice as long, not four times
    for _ in range(1500):
        num_seqs = rng.randint(1, 16)
        num_prompt_tokens = rng.choice((0, model.free_tokens, model.free_tokens // 3))
        model.observe(engine_s(num_prompt_tokens, num_seqs), num_prompt_tokens, num_seqs)
    assert model.hides_prompts
    assert model.free_tokens == pytest.approx(188, rel=0.15)


@pytest.mark.parametrize("intercept", [0.3, 1.0])
@pytest.mark.parametrize("hides", [True, False])
def test_it_learns_what_a_prompt_chunk_costs_however_short_it_is(intercept, hides):
    base_s, chunk_s, rate_s, slope_s = 0.0214, intercept * 0.0214, 1.14e-4, 3e-4

    def truth_s(num_tokens, num_seqs, num_prompts):
        prompts_s = chunk_s * num_prompts + rate_s * num_tokens
        has_decodes = num_seqs > num_prompts
        together_s = max(base_s, prompts_s) if hides else prompts_s + base_s * has_decodes
        return (together_s if num_tokens else base_s) + slope_s * (num_seqs - 1)

    model, rng = StepModel(), random.Random(0)
    for _ in range(1000):
        num_prompts, num_decoding = rng.choice((0, 1, 1, 3)), rng.randint(1, 8)
        num_tokens = sum(rng.randint(20, 200) for _ in range(num_prompts))
        num_seqs = num_prompts + num_decoding
        model.observe(truth_s(num_tokens, num_seqs, num_prompts), num_tokens, num_seqs, num_prompts)
    for num_prompts, num_tokens in ((1, 100), (1, 400), (3, 300)):
        truth = truth_s(num_tokens, num_prompts + 4, num_prompts)
        assert model.step_s(num_tokens, num_prompts + 4, num_prompts) == pytest.approx(truth, rel=0.1)
    assert model.hides_prompts is (hides and intercept < 1)
    if not hides:
        assert model.chunk_overhead_s == pytest.approx(chunk_s, rel=0.1)


def test_it_recovers_from_a_wrong_start():
    model = StepModel()
    for _ in range(20):
        model.observe(0.0214, 0, 1)
        model.observe(0.5, 100, 1)  # something else held these steps up
    assert model.free_tokens < 20
    assert run_engine(model, 1000).free_tokens == pytest.approx(188, rel=0.12)


def test_a_few_tokens_in_a_step_that_is_a_little_long_do_not_throttle_prompts():
    model = run_engine(StepModel(), 500)
    before = model.free_tokens
    for _ in range(200):  # the ends of prompts, on an engine where each row costs something
        model.observe(0.0214 + 0.0003 * 11, 12, 1)
    assert model.free_tokens > 0.95 * before


def test_an_engine_that_became_slower_is_noticed():
    model = run_engine(run_engine(StepModel(), 500), 500, base_s=0.05)
    assert model.base_s == pytest.approx(0.05, rel=0.02)
    assert model.recent_s > 0.04


observations = st.lists(st.tuples(st.floats(1e-6, 100), st.integers(0, 5000), st.integers(1, 100)), max_size=40)


@given(observations, st.integers(0, 5000), st.integers(1, 100))
def test_estimates_stay_sane_whatever_is_observed(steps, num_prompt_tokens, num_seqs):
    model = StepModel()
    for duration_s, tokens, seqs in steps:
        model.observe(duration_s, tokens, seqs)
    assert model.base_s > 0
    assert model.slope_s >= 0
    assert model.free_tokens >= LEAST_TOKENS
    assert 0 < model.step_s(num_prompt_tokens, num_seqs) <= model.step_s(num_prompt_tokens + 1, num_seqs + 1)


def test_an_engine_whose_steps_take_no_time_teaches_nothing():
    times = StepTimes()
    for _ in range(50):
        times.observe_step([(1, 10)], 0.0)
    assert times.engine.cautious.decode_line(1).q_s == times.engine.expected.decode_line(1).q_s
