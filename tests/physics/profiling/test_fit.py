"""Duration models are found again from samples of them, and tell honestly how much is noise."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("mujoco")

from llm_planner.physics.profiling.collect import Sample
from llm_planner.physics.profiling.evaluate import accuracy, groups, predicted
from llm_planner.physics.profiling.fit import fit, fit_table, fit_trapezoid, split
from llm_planner.robots.duration import Z_P90, trap
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.timing import Polynomial, Quantiles, Source, Trapezoid

TELLO, INDY7 = RobotLibrary().get("tello"), RobotLibrary().get("indy7")


def ways(latency_s, speed, acceleration, rng, sigma=0.4, median_s=0.1, count=400, skill="mf"):
    for _ in range(count):
        length = rng.uniform(0.2, 5.0)
        noise_s = rng.lognormvariate(math.log(median_s), sigma)
        yield Sample(skill=skill, seconds=latency_s + trap(length, speed, acceleration) + noise_s, length=length)


@settings(max_examples=12, deadline=None)
@given(st.floats(0.05, 1.0), st.floats(0.4, 1.5), st.floats(0.5, 3.0), st.integers(0, 99))
def test_a_trapezoid_is_found_again(latency_s: float, speed: float, acceleration: float, seed: int):
    rng = random.Random(seed)
    found = fit_trapezoid(list(ways(latency_s, speed, acceleration, rng)), fastest=20.0, has_travel=False)
    others = list(ways(latency_s, speed, acceleration, rng))
    checked = accuracy(found, others)
    assert checked.median_error < 0.05
    assert 0.84 < checked.coverage < 0.96
    for length in (0.2, 1.0, 5.0):
        assert predicted(found, length).p50_s == pytest.approx(
            latency_s + trap(length, speed, acceleration) + 0.1, rel=0.06, abs=0.03
        )


def test_a_call_that_was_held_up_spoils_nothing():
    rng = random.Random(1)
    samples = list(ways(0.3, 1.0, 1.0, rng, count=100))
    worse = [
        replace(sample, seconds=sample.seconds + 20.0) if index % 33 == 5 else sample
        for index, sample in enumerate(samples)
    ]
    clean, spoiled = (fit_trapezoid(list(some), fastest=20.0, has_travel=False) for some in (samples, worse))
    for length in (0.3, 2.0, 5.0):
        assert predicted(spoiled, length).p50_s == pytest.approx(predicted(clean, length).p50_s, rel=0.04)


def test_what_never_cruises_gets_no_speed_beyond_what_was_reached():
    lengths = np.linspace(0.2, 1.0, 40)
    samples = [Sample(skill="mf", seconds=0.2 + trap(length, 10.0, 1.0), length=length) for length in lengths]
    found = fit_trapezoid(samples, fastest=20.0, has_travel=False)
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
    grasp = fit(INDY7.skills["pick"], list(ways(2.0, 0.5, 1.0, rng, skill="pick")), INDY7.speed_limits)
    assert isinstance(grasp, Trapezoid)
    assert grasp.travel is not None
    assert 0.2 < grasp.travel.p50 < grasp.travel.p90 < 5.0
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
    found = groups(TELLO, [Sample(skill=name, seconds=1.0) for name in names])
    assert [[skill.name for skill in group] for group in found] == [["mf", "mu"], ["tc", "tu"], ["ld"], ["s", "sa"]]


def test_what_shares_a_model_but_is_not_the_same_is_fitted_apart():
    found = groups(INDY7, [Sample(skill=name, seconds=1.0) for name in ("move_to", "home", "open", "close")])
    assert [len(group) for group in found] == [1, 1, 1, 1]


def test_no_speed_is_beyond_the_robots_limit():
    quick = list(ways(0.1, 3.0, 4.0, random.Random(0)))
    found = fit(TELLO.skills["mf"], quick, TELLO.speed_limits)
    assert found.speed.value == TELLO.speed_limits.translation_m_per_s


def test_few_samples_do_not_promise_too_much():
    """Whatever their number, on average as many later calls lie within p90 as it says."""
    rng = np.random.default_rng(3)
    for count in (15, 40):
        shares = []
        for _ in range(300):
            fixed_s, noise = split(rng.lognormal(0.0, 0.4, count))
            later = rng.lognormal(0.0, 0.4, 200)
            shares.append(np.mean(later <= fixed_s + noise.median_s * math.exp(Z_P90 * noise.sigma)))
        assert np.mean(shares) == pytest.approx(0.9, abs=0.015)
