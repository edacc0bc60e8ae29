# SPDX-License-Identifier: Apache-2.0
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.execution_time import CoBatch
from llm_planner.core.interfaces import BackendInfo
from llm_planner.prediction.execution_time import HALF_LIFE_S, STALE_S, Drift, ProfiledTime, ProfiledTimes, check_fits
from llm_planner.prediction.profile import Chunk, find_profile

PROFILE = find_profile("llama3-8b-rtx4090")
co_batches = st.builds(CoBatch, st.integers(0, 15), st.integers(0, 20_000))


def steps_s(num_tokens, kv_len, chunk_tokens, co_batch):
    """The same prompt, step by step, as a simulated engine would charge it."""
    total_s = 0.0
    while num_tokens:
        num = min(chunk_tokens, num_tokens)
        share, rest = divmod(co_batch.kv_tokens, max(1, co_batch.num_seqs))
        others = [Chunk(1, share + (rest if i == 0 else 0)) for i in range(co_batch.num_seqs)]
        own = Chunk(num, kv_len)
        if num == 1:  # a chunk of one token is a decode to the profile, a prompt to us: at least as long
            total_s += max(PROFILE.step_s([own, *others]), PROFILE.prefill_s(1, kv_len))
        else:
            total_s += PROFILE.step_s([own, *others])
        kv_len, num_tokens = kv_len + num, num_tokens - num
    return total_s


@given(st.integers(1, 3000), st.integers(0, 3000), st.integers(1, 2048), co_batches)
def test_a_prompt_takes_the_sum_of_its_steps(num_tokens, kv_len, chunk_tokens, co_batch):
    co_batch = co_batch if co_batch.num_seqs else CoBatch()
    expected_s = steps_s(num_tokens, kv_len, chunk_tokens, co_batch)
    assert ProfiledTime(PROFILE).prefill_s(num_tokens, kv_len, chunk_tokens, co_batch) == pytest.approx(expected_s)


@given(st.integers(1, 16), st.integers(0, 20_000))
def test_a_decode_step_takes_what_the_profile_says(num_seqs, kv_tokens):
    line = ProfiledTime(PROFILE).decode_line(num_seqs)
    chunks = [Chunk(1, kv_tokens)] + [Chunk(1, 0)] * (num_seqs - 1)
    assert line.q_s + line.p_s * kv_tokens == pytest.approx(PROFILE.step_s(chunks))


def test_cached_tokens_are_not_computed_again():
    time = ProfiledTime(PROFILE)
    assert time.prefill_s(100, 1000, 2048) < time.prefill_s(1100, 0, 2048) / 2


@given(st.floats(0.3, 3.0), st.integers(0, 2**31))
def test_the_correction_finds_a_drift_and_says_how_far_it_is(factor, seed):
    times, rng = ProfiledTimes(PROFILE), random.Random(seed)
    for _ in range(200):
        chunks = [(1, rng.randrange(2000)) for _ in range(rng.randint(1, 8))]
        profiled_s = PROFILE.step_s(Chunk(*c) for c in chunks)
        times.observe(chunks, factor * profiled_s)
    assert times.drift == pytest.approx(factor, rel=0.01)
    assert times.expected.decode_line(1).q_s == pytest.approx(factor * PROFILE.decode.base_s.value, rel=0.01)
    assert times.cautious.decode_line(1).q_s >= times.expected.decode_line(1).q_s
    assert times.expected.prefill_factor == 1.0  # no prompt was seen


def test_the_cautious_estimate_covers_most_noisy_steps():
    drift, rng, num_longer = Drift(), random.Random(1), 0
    for number in range(2000):
        step_s = rng.lognormvariate(0.0, 0.1)
        num_longer += number >= 200 and step_s > drift.cautious_ratio
        drift.observe(step_s, 1.0)
    assert num_longer / 1800 < 0.1
    assert drift.cautious_ratio < 1.3


def test_one_hiccup_is_no_drift():
    drift = Drift()
    for _ in range(50):
        drift.observe(1.0, 1.0)
    drift.observe(1000.0, 1.0)
    assert drift.ratio < 1.1


@pytest.mark.parametrize(("measured_s", "expected_s"), [(0.0, 1.0), (1.0, 0.0)])
def test_a_step_without_time_says_nothing(measured_s, expected_s):
    drift = Drift()
    drift.observe(measured_s, expected_s)
    assert drift.ratio == drift.cautious_ratio == 1.0


def info(**changes):
    fields = {"model": PROFILE.model, "num_kv_blocks": 10, "block_size": 16, "max_model_len": 99, "can_offload": True}
    return BackendInfo(**(fields | changes))


@pytest.mark.parametrize(
    ("profile", "engine", "named"),
    [
        (PROFILE, info(model="planner-small"), ("planner-small", "Llama-3-8B-float16", PROFILE.name)),
        (replace(PROFILE, device="A"), info(device="B"), ("'A'", "'B'")),
        (replace(PROFILE, device="A"), info(), ("'A'", "unknown")),
    ],
)
def test_the_profile_of_another_model_or_device_is_refused_by_name(profile, engine, named):
    with pytest.raises(PlannerError) as caught:
        check_fits(profile, engine)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert all(name in caught.value.message for name in named)


def test_a_profile_that_fits_or_names_no_device_is_taken():
    check_fits(PROFILE, info(device="B"))
    check_fits(replace(PROFILE, device="B"), info(device="B"))


def run_for(times, seconds, factor):
    step_s = PROFILE.step_s([Chunk(1, 0)])
    for _ in range(int(seconds / (factor * step_s))):
        times.observe([(1, 0)], factor * step_s)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_profile_is_stale_once_after_minutes_of_other_steps(factor):
    ratios = []
    times = ProfiledTimes(PROFILE, ratios.append)
    run_for(times, 0.9 * STALE_S, factor)
    assert not ratios
    run_for(times, 3 * STALE_S, factor)
    assert ratios == [pytest.approx(factor, rel=0.01)]


def test_a_program_alongside_that_ends_again_makes_no_profile_stale():
    ratios = []
    times = ProfiledTimes(PROFILE, ratios.append)
    for _ in range(4):
        run_for(times, 0.8 * STALE_S, 2.0)
        run_for(times, 0.1 * STALE_S, 1.0)
    run_for(times, 3 * STALE_S, 1.3)  # the correction makes up for that
    assert not ratios


def test_estimates_are_as_cautious_from_the_start_as_the_measured_noise_asks_for():
    noisy = replace(PROFILE, noise_ratio=replace(PROFILE.noise_ratio, value=1.25))
    times = ProfiledTimes(noisy)
    q_s = times.expected.decode_line(1).q_s
    assert times.cautious.decode_line(1).q_s == pytest.approx(1.25 * q_s)
    assert ProfiledTimes(PROFILE).cautious.decode_line(1).q_s == pytest.approx(q_s)


def test_it_says_what_it_counts_on():
    assert ProfiledTimes(PROFILE).source == "profile llama3-8b-rtx4090"
    dated = replace(PROFILE, measured_at="2026-01-02T03:04:05+00:00")
    assert ProfiledTimes(dated).source == "profile llama3-8b-rtx4090, measured at 2026-01-02T03:04:05+00:00"


def test_a_correction_is_forgotten_while_no_step_confirms_it():
    """Budgets are refused for it, so that nothing may run which would end it."""
    times = ProfiledTimes(PROFILE)
    before = times.cautious
    run_for(times, 60.0, 4.0)
    assert times.drift == pytest.approx(4.0, rel=0.01)
    times.rest(HALF_LIFE_S)
    assert times.drift == pytest.approx(2.0, rel=0.01)
    times.rest(20 * HALF_LIFE_S)
    assert times.cautious.decode_factor == pytest.approx(before.decode_factor, rel=0.01)
    assert times.cautious.prefill_factor == pytest.approx(before.prefill_factor, rel=0.01)
