# SPDX-License-Identifier: Apache-2.0
from dataclasses import fields, replace

import pytest

from llm_planner.core.config import PlannerConfig
from llm_planner.prediction.measurement import held, hides_prompts, make_profile
from llm_planner.prediction.prober import WARM_STEPS, Prober
from llm_planner.prediction.profile import Chunk, MoveCost, find_profile, load_profile, write_profile
from llm_planner.prediction.samples import StepKind
from llm_planner.robots.timing import Parameter, Source
from llm_planner_lab.bench.host import measure_host
from llm_planner_lab.bench.planner_profile import THOROUGH, measure
from llm_planner_lab.simulation.backend import SimulatedBackend

ASSUMED_S_PER_TOKEN = Parameter(value=1e-5, source=Source.ASSUMED)
TRUTH = replace(
    find_profile("llama3-8b-rtx4090"),
    evict=MoveCost(constant_s=Parameter(value=0.002, source=Source.ASSUMED), per_token_s=ASSUMED_S_PER_TOKEN),
    first_steps=tuple(Parameter(value=value, source=Source.ASSUMED) for value in (1.5, 1.2)),
)


@pytest.fixture(scope="module")
def backend():
    return SimulatedBackend(TRUTH, lambda request_id: 4 if request_id.endswith("3") else 1000)


@pytest.fixture(scope="module")
def samples(backend):
    return measure(Prober(backend, num_repeats=6))


@pytest.fixture(scope="module")
def measured(backend, samples):
    return make_profile(samples, backend, "again", "the published profile, measured")


def test_a_simulated_engine_is_measured_back(measured):
    assert measured.decode.base_s.value == pytest.approx(TRUTH.decode.base_s.value, rel=0.01)
    assert measured.decode.per_sequence_s.value == pytest.approx(TRUTH.decode.per_sequence_s.value, rel=0.05)
    assert measured.decode.per_kv_token_s.value == pytest.approx(TRUTH.decode.per_kv_token_s.value, rel=0.05)
    assert measured.resume.per_token_s.value == pytest.approx(TRUTH.resume.per_token_s.value, rel=0.01)
    assert [ratio.value for ratio in measured.first_steps] == pytest.approx(
        [1.5, 1.2] + [1.0] * (WARM_STEPS - 2), rel=0.02
    )
    assert measured.evict.time_s(700) == pytest.approx(0.009, rel=0.01)
    for num_tokens in (32, 256, 512, 1024):
        for kv_len in (0, 500):
            expected_s = TRUTH.step_s([Chunk(num_tokens, kv_len)])
            assert measured.step_s([Chunk(num_tokens, kv_len)]) == pytest.approx(expected_s, rel=0.02)


def test_every_step_is_noted_with_what_was_in_it(samples):
    for sample in samples:
        if sample.kind is StepKind.DECODE:
            assert sample.duration_s == pytest.approx(TRUTH.step_s(_decodes(sample)))
        elif sample.kind is StepKind.PREFILL:
            assert sample.duration_s == pytest.approx(TRUTH.step_s([Chunk(sample.num_tokens, sample.kv_tokens)]))
    assert {sample.kind for sample in samples} == set(StepKind)


@pytest.mark.parametrize("num_steps", [0, 7])
def test_steps_that_a_prompt_slows_down_are_noted_by_themselves(num_steps):
    half_speed = (Parameter(value=2.0, source=Source.ASSUMED),) * WARM_STEPS
    backend = SimulatedBackend(replace(TRUTH, first_steps=half_speed), lambda _request_id: 25)
    prober = Prober(backend, num_repeats=9)
    prober.decode(0, 2, 64, num_steps)
    first = [sample for sample in prober.samples if sample.kind is StepKind.FIRST_DECODE]
    later = [sample for sample in prober.samples if sample.kind is StepKind.DECODE]
    assert [sample.point for sample in first[:WARM_STEPS]] == list(range(1, WARM_STEPS + 1))
    assert len(later) == (num_steps or 3)
    for sample in prober.samples:
        times = 1 if sample.kind is StepKind.DECODE else 2
        assert sample.duration_s == pytest.approx(times * TRUTH.step_s(_decodes(sample)))


def test_sequences_that_end_at_once_are_measured_all_the_same():
    prober = Prober(SimulatedBackend(TRUTH, lambda _request_id: 2), num_repeats=9)
    prober.decode(0, 2, 64)
    assert sum(sample.kind is StepKind.DECODE for sample in prober.samples) == 3


def _decodes(sample):
    rest = sample.kv_tokens - (sample.num_seqs - 1)
    return [Chunk(1, rest)] + [Chunk(1, 1)] * (sample.num_seqs - 1)  # only the sum counts


def test_every_number_says_that_it_was_measured_and_the_file_loads(measured, tmp_path):
    path = tmp_path / "again.yaml"
    write_profile(measured, path)
    assert load_profile(path) == measured
    for cost in (measured.prefill, measured.decode, measured.resume, measured.offload, measured.evict):
        assert all(getattr(cost, f.name).source is Source.MEASURED for f in fields(cost))


@pytest.mark.parametrize("are_hidden", [True, False])
def test_it_is_found_out_whether_prompts_are_hidden(are_hidden):
    truth = replace(TRUTH, hides_prompts=are_hidden)
    backend = SimulatedBackend(truth, lambda request_id: 1 if request_id.endswith("3") else 1000)
    prober = Prober(backend, num_repeats=3)
    assert hides_prompts(prober, held(THOROUGH, prober).alongside) is are_hidden


def test_the_planners_own_time_is_measured():
    host = measure_host(PlannerConfig(backend="fake"), 3)
    assert 0.0 < host.preparation_s(100) < 1.0
    assert 0.0 < host.around_step_s(4) < 1.0
    assert all(getattr(host, field.name).source is Source.MEASURED for field in fields(host))
