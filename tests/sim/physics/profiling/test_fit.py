# SPDX-License-Identifier: Apache-2.0
"""Duration models are found again from samples of them, and tell honestly how much is noise."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("mujoco")

from llm_planner.robots.duration import Z_P90, trap
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.timing import Polynomial, Quantiles, Source, Sweeps, Trapezoid
from llm_planner.sim.physics.profiling.collect import Sample
from llm_planner.sim.physics.profiling.evaluate import accuracy, predicted, predicted_by_argument
from llm_planner.sim.physics.profiling.fit import fit, fit_sweeps, fit_table, fit_trapezoid, split
from llm_planner.sim.physics.profiling.trials import groups

TELLO, INDY7 = RobotLibrary().get("tello"), RobotLibrary().get("indy7")


def way(length):
    return Sample(skill="mf", seconds=0.0, length=length)


def reaches(latency_s, rng, skill="pick", count=400):
    """Samples of an arm whose joints move for 1 to 4 s, and whose time is that and a little more."""
    for _ in range(count):
        moving_s = rng.uniform(1.0, 4.0)
        noise_s = rng.lognormvariate(math.log(0.05), 0.5)
        yield Sample(skill=skill, seconds=latency_s + moving_s + noise_s, length=0.4, moving_s=moving_s)


def ways(latency_s, speed, acceleration, rng, sigma=0.4, median_s=0.1, count=400, skill="mf"):
    for _ in range(count):
        length = rng.uniform(0.2, 5.0)
        noise_s = rng.lognormvariate(math.log(median_s), sigma)
        yield Sample(skill=skill, seconds=latency_s + trap(length, speed, acceleration) + noise_s, length=length)


@settings(max_examples=12, deadline=None)
@given(st.floats(0.05, 1.0), st.floats(0.4, 1.5), st.floats(0.5, 3.0), st.integers(0, 99))
def test_a_trapezoid_is_found_again(latency_s: float, speed: float, acceleration: float, seed: int):
    rng = random.Random(seed)
    found = fit_trapezoid(list(ways(latency_s, speed, acceleration, rng)), fastest=20.0)
    others = list(ways(latency_s, speed, acceleration, rng))
    checked = accuracy([predicted(found, sample) for sample in others], others)
    assert checked.median_error < 0.05
    assert 0.84 < checked.coverage < 0.96
    for length in (0.2, 1.0, 5.0):
        assert predicted(found, way(length)).p50_s == pytest.approx(
            latency_s + trap(length, speed, acceleration) + 0.1, rel=0.06, abs=0.03
        )


def test_a_call_that_was_held_up_spoils_nothing():
    rng = random.Random(1)
    samples = list(ways(0.3, 1.0, 1.0, rng, count=100))
    worse = [
        replace(sample, seconds=sample.seconds + 20.0) if index % 33 == 5 else sample
        for index, sample in enumerate(samples)
    ]
    clean, spoiled = (fit_trapezoid(list(some), fastest=20.0) for some in (samples, worse))
    for length in (0.3, 2.0, 5.0):
        assert predicted(spoiled, way(length)).p50_s == pytest.approx(predicted(clean, way(length)).p50_s, rel=0.04)


def test_what_never_cruises_gets_no_speed_beyond_what_was_reached():
    lengths = np.linspace(0.2, 1.0, 40)
    samples = [Sample(skill="mf", seconds=0.2 + trap(length, 10.0, 1.0), length=length) for length in lengths]
    found = fit_trapezoid(samples, fastest=20.0)
    assert found.speed.value <= 1.05
    assert found.travel is None
    assert found.num_samples == 40
    assert {found.latency_s.source, found.speed.source} == {Source.SIMULATED}


@given(st.lists(st.floats(-0.5, 3.0), min_size=2, max_size=60))
def test_what_is_left_is_shared_by_a_fixed_time_and_noise(residuals: list[float]):
    fixed_s, noise = split(np.array(residuals))
    assert fixed_s >= 0
    middle = float(np.quantile(residuals, 0.5))
    assert fixed_s + noise.median_s == pytest.approx(max(middle, 0.002), rel=1e-3, abs=2e-3)


def test_each_kind_of_skill_gets_its_kind_of_model():
    rng = random.Random(0)
    assert isinstance(fit(TELLO.skills["mf"], list(ways(0.1, 1.0, 1.0, rng)), TELLO.speed_limits), Trapezoid)
    assert isinstance(fit(INDY7.skills["pick"], list(reaches(0.5, rng)), INDY7.speed_limits), Sweeps)
    steady = [Sample(skill="tk", seconds=2.0 + rng.uniform(0, 0.2)) for _ in range(50)]
    assert isinstance(fit(TELLO.skills["tk"], steady, TELLO.speed_limits), Polynomial)
    varied = [Sample(skill="ld", seconds=rng.uniform(1.0, 5.0)) for _ in range(50)]
    assert isinstance(fit(TELLO.skills["ld"], varied, TELLO.speed_limits), Quantiles)


def test_a_search_is_a_table_and_a_step():
    samples = [Sample(skill="s", seconds=0.2 + 1.5 * steps, num_steps=steps) for steps in range(8) for _ in range(5)]
    found = fit_table(samples)
    assert found.step_s is not None
    assert found.step_s.value == pytest.approx(1.5)
    assert found.table[0] == (0.0, 0.2)
    assert found.table[-1] == (1.0, pytest.approx(0.2 + 7 * 1.5))
    in_view = fit_table([sample for sample in samples if sample.num_steps == 0])
    assert in_view.step_s is None


def test_skills_that_share_a_model_are_fitted_together():
    names = ("mf", "mu", "tc", "tu", "ld", "s", "sa")
    found = groups(TELLO, names)
    assert [[skill.name for skill in group] for group in found] == [["mf", "mu"], ["tc", "tu"], ["ld"], ["s", "sa"]]


def test_what_shares_a_model_but_is_not_the_same_is_fitted_apart():
    found = groups(INDY7, ("move_to", "home", "open", "close"))
    assert [len(group) for group in found] == [1, 1, 1, 1]


def test_no_speed_is_beyond_the_robots_limit():
    quick = list(ways(0.1, 3.0, 4.0, random.Random(0)))
    found = fit(TELLO.skills["mf"], quick, TELLO.speed_limits)
    assert found.speed.value == TELLO.speed_limits.translation_m_per_s


def test_few_samples_give_calibrated_intervals():
    """Whatever their number, on average as many later calls lie within p90 as it says."""
    rng = np.random.default_rng(3)
    for count in (15, 40):
        shares = []
        for _ in range(300):
            fixed_s, noise = split(rng.lognormal(0.0, 0.4, count))
            later = rng.lognormal(0.0, 0.4, 200)
            shares.append(np.mean(later <= fixed_s + noise.median_s * math.exp(Z_P90 * noise.sigma)))
        assert np.mean(shares) == pytest.approx(0.9, abs=0.015)


def test_the_time_of_an_arm_is_that_of_its_joints_and_a_little_more():
    rng = random.Random(4)
    found = fit_sweeps(list(reaches(0.5, rng)))
    assert found.moving_s.minimum < 1.1
    assert (found.moving_s.p50, found.moving_s.p90) == (pytest.approx(2.5, abs=0.2), pytest.approx(3.7, abs=0.2))
    skill, others = replace(INDY7.skills["pick"], duration=found), list(reaches(0.5, rng, count=1000))
    known = accuracy([predicted(found, sample) for sample in others], others)
    ahead = accuracy([predicted_by_argument(skill, sample) for sample in others], others)
    assert known.median_error < 0.02
    assert ahead.median_error > 0.1  # it is unknown where the thing lies
    assert (known.coverage, ahead.coverage) == (pytest.approx(0.9, abs=0.03), pytest.approx(0.9, abs=0.04))


def test_before_a_call_its_argument_is_known_and_counts_in_its_own_unit():
    skill = TELLO.skills["mf"]
    sample = Sample(skill="mf", seconds=2.7, length=2.0)
    assert predicted_by_argument(skill, sample) == pytest.approx(predicted(skill.duration, sample))
