# SPDX-License-Identifier: Apache-2.0
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.prediction.fit import (
    Costs,
    averaged,
    fit_costs,
    fit_move,
    held_out_accuracy,
    measured,
    noise_ratio,
    nonnegative_fit,
)
from llm_planner.prediction.profile import NO_MOVE_COST, DecodeCost, PrefillCost
from llm_planner.prediction.samples import StepKind, StepSample

LENGTHS = (32, 64, 128, 192, 256, 384, 512, 1024)


def make_costs(a=2e-9, b=1e-4, c=2e-3, base=5e-3, per_sequence=4e-4, per_kv=2e-7):
    return Costs(
        PrefillCost(a_s_per_token2=measured(a), b_s_per_token=measured(b), c_s=measured(c)),
        DecodeCost(base_s=measured(base), per_sequence_s=measured(per_sequence), per_kv_token_s=measured(per_kv)),
    )


def samples_of(costs, noise=0.0, repeats=1, seed=0):
    rng = random.Random(seed)
    shapes = [(StepKind.DECODE, b, b, b * k) for b in (1, 2, 4, 8) for k in LENGTHS]
    shapes += [(StepKind.PREFILL, 1, n, k) for n in LENGTHS for k in (0, 512)]
    return [
        StepSample(kind, point, num_seqs, num_tokens, kv_tokens, time_s * rng.lognormvariate(0.0, noise))
        for point, (kind, num_seqs, num_tokens, kv_tokens) in enumerate(shapes)
        for time_s in [costs.step_s(StepSample(kind, point, num_seqs, num_tokens, kv_tokens, 1.0))]
        for _ in range(repeats)
    ]


coefficient = st.floats(1e-9, 1e-7)


@given(a=coefficient, b=st.floats(5e-5, 1e-3), per_kv=coefficient, per_sequence=st.floats(1e-5, 1e-3))
@settings(max_examples=30)
def test_the_coefficients_behind_the_steps_are_found(a, b, per_kv, per_sequence):
    truth = make_costs(a=a, b=b, per_kv=per_kv, per_sequence=per_sequence, c=6e-3)
    for sample in samples_of(fit_costs(samples_of(truth))):
        assert sample.duration_s == pytest.approx(truth.step_s(sample), rel=0.01)


def test_prompts_that_hide_behind_the_weights_do_not_bend_the_curve():
    truth = make_costs(c=0.0, base=0.02)  # up to 170 tokens a prompt takes as long as a decode step
    found = fit_costs(samples_of(truth))
    for sample in samples_of(truth):
        assert found.step_s(sample) == pytest.approx(sample.duration_s, rel=0.02)


def test_the_error_on_held_out_points_of_an_exact_engine_is_nothing():
    for accuracy in held_out_accuracy(samples_of(make_costs())).values():
        assert accuracy.mape < 0.005
        assert accuracy.noise_floor == 0.0


def test_the_noise_floor_is_the_mean_error_of_the_median():
    accuracy = held_out_accuracy(samples_of(make_costs(), noise=0.05, repeats=200))[StepKind.DECODE]
    assert accuracy.noise_floor == pytest.approx(0.05 * (2 / 3.1416) ** 0.5, rel=0.05)  # mean |x| of a normal
    assert accuracy.noise_floor <= accuracy.mape < 0.05


def test_steps_of_a_point_that_computed_forced_tokens_too_are_told_apart():
    costs = make_costs()
    plain = [s for s in samples_of(costs) if s.kind is StepKind.DECODE]
    longer = [replace(s, num_seqs=s.num_seqs + more) for s in plain for more in (1, 5, 6)]
    mixed = [replace(s, duration_s=costs.step_s(s)) for s in [*plain, *longer]]
    prompts = [s for s in samples_of(costs) if s.kind is StepKind.PREFILL]
    fitted = fit_costs([*mixed, *prompts]).decode
    assert fitted.per_sequence_s.value == pytest.approx(costs.decode.per_sequence_s.value, rel=0.01)
    assert held_out_accuracy([*mixed, *prompts])[StepKind.DECODE].mape < 0.005


def test_runs_of_steps_vary_less_than_steps():
    samples = samples_of(make_costs(), noise=0.1, repeats=320)
    step, run = (held_out_accuracy(some)[StepKind.DECODE] for some in (samples, averaged(samples, 16)))
    assert run.noise_floor == pytest.approx(step.noise_floor / 4, rel=0.25)
    assert run.mape < step.mape


def test_a_run_is_the_mean_of_its_steps_and_a_rest_is_left_out():
    steps = [StepSample(StepKind.DECODE, 0, 2, 2, kv, kv * 1e-3) for kv in (10, 12, 20, 24, 99)]
    runs = averaged([*steps, replace(steps[0], point=1)], 2)
    assert [(run.point, run.kv_tokens, run.duration_s) for run in runs] == [
        (0, 11, pytest.approx(11e-3)),
        (0, 22, pytest.approx(22e-3)),
    ]


def test_held_out_points_are_not_fitted():
    seen = []

    def fit(samples):
        seen.extend(samples)
        return make_costs()

    samples = samples_of(make_costs())
    held_out_accuracy(samples, fit)
    fitted = {s.point for s in seen}
    assert fitted < {s.point for s in samples}
    assert 0.4 < len(fitted) / len({s.point for s in samples}) < 0.6


def test_a_fit_that_is_off_shows():
    accuracy = held_out_accuracy(samples_of(make_costs()), lambda _: make_costs(base=6e-3))
    assert accuracy[StepKind.DECODE].mape > 0.05


def test_too_few_points_to_hold_some_out_are_refused():
    few = [s for s in samples_of(make_costs()) if s.kind is StepKind.DECODE][:4]
    with pytest.raises(ValueError, match="too few"):
        held_out_accuracy(few)


def test_moves_are_a_line_and_no_moves_cost_nothing():
    samples = [StepSample(StepKind.OFFLOAD, n, 1, n, n, 1e-3 + 1e-6 * n) for n in LENGTHS]
    assert fit_move(samples).per_token_s.value == pytest.approx(1e-6, rel=0.01)
    assert fit_move([]).time_s(100) == 0.0


def test_a_fit_is_never_negative():
    assert nonnegative_fit([(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)], [1.0, 2.0, 3.0])[0] == pytest.approx(0.0, abs=1e-9)
    fitted = nonnegative_fit([(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)], [3.0, 2.0, 1.0])
    assert fitted[1] == 0.0
    assert fitted[0] > 0


def test_what_too_few_points_tell_apart_is_left_at_zero():
    costs = make_costs()
    shapes = [(StepKind.DECODE, 1, 1, 32), (StepKind.PREFILL, 1, 32, 0), (StepKind.PREFILL, 1, 64, 0)]
    few = [
        replace(sample, duration_s=costs.step_s(sample))
        for point, (kind, num_seqs, num_tokens, kv_tokens) in enumerate(shapes)
        for sample in [StepSample(kind, point, num_seqs, num_tokens, kv_tokens, 1.0)]
    ]
    decode = fit_costs(few).decode
    assert decode.base_s.value == pytest.approx(costs.decode.base_s.value, rel=0.01)
    assert decode.per_sequence_s.value == decode.per_kv_token_s.value == 0.0


def test_the_noise_is_what_one_step_of_20_exceeds():
    costs = make_costs()
    samples = samples_of(costs, noise=0.1, repeats=20)
    ratio = noise_ratio(costs, samples)
    exceeding = sum(s.duration_s > ratio * costs.step_s(s) for s in samples)
    assert exceeding == pytest.approx(0.05 * len(samples), rel=0.01)
    assert noise_ratio(costs, samples_of(costs)) == pytest.approx(1.0)


def test_a_cost_that_was_not_measured_says_so():
    assert fit_move([]) == NO_MOVE_COST
