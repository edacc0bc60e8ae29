# SPDX-License-Identifier: Apache-2.0
"""The quick measurement of an engine, in virtual time."""

from dataclasses import replace

import pytest

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.step import FinishReason
from llm_planner.prediction.measurement import (
    QUICK,
    QUICK_DECODE_STEPS,
    QUICK_WARM_STEPS,
    is_enough,
    make_profile,
    measure_within,
)
from llm_planner.prediction.prober import PROBE, ROUNDS, Prober
from llm_planner.prediction.profile import Chunk
from llm_planner.prediction.samples import StepKind
from llm_planner.prediction.whole_steps import WholeSteps
from llm_planner.robots.timing import Source
from tests.prediction.virtual_engine import INFO, TRUTH, StepsInFlight, VirtualEngine, slower

LIMIT_S = 10.0


def measured(engine):
    backend = WholeSteps(engine) if engine.info.keeps_kv else engine
    prober = Prober(backend, num_repeats=ROUNDS, warm_steps=QUICK_WARM_STEPS)
    samples, are_hidden = measure_within(prober, LIMIT_S, engine)
    return samples, are_hidden, engine.now - 100.0


@pytest.mark.parametrize("make_engine", [VirtualEngine, StepsInFlight])
def test_an_engine_is_measured_back_within_the_limit(make_engine):
    engine = make_engine()
    samples, are_hidden, took_s = measured(engine)
    profile = make_profile(samples, engine, "own", "", hides_prompts=are_hidden)
    assert took_s <= LIMIT_S
    assert not are_hidden
    for name in ("base_s", "per_sequence_s", "per_kv_token_s"):
        assert getattr(profile.decode, name).value == pytest.approx(getattr(TRUTH.decode, name).value, rel=0.05), name
    for num_tokens, kv_len in ((100, 0), (700, 0), (2000, 0), (300, 500)):
        expected_s = TRUTH.step_s([Chunk(num_tokens, kv_len)])
        assert profile.step_s([Chunk(num_tokens, kv_len)]) == pytest.approx(expected_s, rel=0.05)
    assert profile.noise_ratio.value == pytest.approx(1.0, abs=0.05)
    if engine.info.can_evict:
        assert profile.evict.time_s(700) == pytest.approx(0.009, rel=0.01)
    else:
        assert profile.evict.per_token_s.source is Source.ASSUMED
    assert not engine.lengths, "sequences were left in the engine"


def test_every_size_is_measured_in_each_round():
    samples, _, _ = measured(VirtualEngine())
    points = [(sample.kind, sample.point) for sample in samples if sample.point != PROBE]
    first_round = points[: len(points) // ROUNDS]
    assert points == first_round * ROUNDS
    for kind, sizes, num_samples in (
        (StepKind.DECODE, QUICK.decodes, QUICK_DECODE_STEPS),
        (StepKind.PREFILL, QUICK.prompts, 1),
        (StepKind.OFFLOAD, QUICK.moves, 1),
        (StepKind.RESTORE, QUICK.moves, 1),
        (StepKind.EVICT, QUICK.evictions, 1),
    ):
        assert sorted(p for k, p in first_round if k is kind) == sorted([*range(len(sizes))] * num_samples)


@pytest.mark.parametrize("times", [20, 100, 150])
def test_a_slow_engine_is_measured_at_fewer_sizes(times):
    engine = VirtualEngine(slower(times))
    samples, are_hidden, took_s = measured(engine)
    assert is_enough(samples)
    assert took_s <= 1.5 * LIMIT_S
    profile = make_profile(samples, engine, "own", "", hides_prompts=are_hidden)
    assert profile.decode.base_s.value == pytest.approx(times * TRUTH.decode.base_s.value, rel=0.1)
    expected_s = times * TRUTH.prefill_s(48)
    assert profile.prefill_s(48) == pytest.approx(expected_s, rel=0.1)


def test_one_that_is_slower_still_is_given_up_soon():
    samples, _, took_s = measured(VirtualEngine(slower(1000)))
    assert not is_enough(samples)
    assert took_s <= LIMIT_S


def test_an_engine_that_hides_prompts_is_found_out():
    assert measured(VirtualEngine(replace(TRUTH, hides_prompts=True)))[1]


def test_sizes_that_do_not_fit_are_left_out():
    engine = VirtualEngine(info=replace(INFO, num_kv_blocks=20, max_model_len=300))
    samples, _, _ = measured(engine)
    assert is_enough(samples)
    assert max(sample.num_tokens + sample.kv_tokens for sample in samples) <= 20 * 16


def test_no_more_kv_is_moved_than_host_memory_may_hold():
    samples, _, _ = measured(VirtualEngine(info=replace(INFO, num_host_blocks=10)))
    moves = {sample.num_tokens for sample in samples if sample.kind is StepKind.OFFLOAD}
    assert moves == {num_tokens for num_tokens in QUICK.moves if num_tokens <= 10 * INFO.block_size}


def test_forced_tokens_are_rows_of_their_step():
    samples, _, _ = measured(VirtualEngine(num_forced=2))
    decodes = [sample for sample in samples if sample.kind is StepKind.DECODE]
    assert {sample.num_seqs % 3 for sample in decodes} == {0}
    for sample in decodes:
        rows = [Chunk(1, sample.kv_tokens), *[Chunk(1, 0)] * (sample.num_seqs - 1)]
        assert sample.duration_s == pytest.approx(TRUTH.step_s(rows))


def test_a_step_that_fails_ends_the_measurement_and_leaves_nothing_behind():
    engine = VirtualEngine(failing=5)
    with pytest.raises(PlannerError, match="it broke") as caught:
        measured(engine)
    assert caught.value.code is ErrorCode.ENGINE_FAILED
    assert not engine.lengths


class EndsAtOnce(VirtualEngine):
    """Some sequences end with the first token."""

    def __init__(self, ends):
        super().__init__()
        self.ends, self.ended = ends, set()

    def execute(self, scheduled):
        assert self.ended.isdisjoint(scheduled.num_scheduled_tokens)
        output = super().execute(scheduled)
        new = [sequence.request_id for sequence in scheduled.new]
        finished = {name: FinishReason.STOP for name in new if self.ends(int(name.partition("-")[2]))}
        self.ended |= finished.keys()
        return replace(output, finished=finished)


def test_sequences_that_end_with_their_first_token_are_replaced():
    prober = Prober(EndsAtOnce(lambda number: number % 2 == 0), warm_steps=0)
    prober.decode(0, 2, 32)
    assert prober.samples


def test_a_model_that_ends_at_once_is_no_model_to_measure():
    with pytest.raises(PlannerError, match="ends its answers with their first token"):
        Prober(EndsAtOnce(lambda number: True), warm_steps=0).decode(0, 1, 32)
