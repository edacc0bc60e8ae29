# SPDX-License-Identifier: Apache-2.0
import math
import random
import statistics
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.core.segment import ZERO_DURATION
from llm_planner.core.skill import SkillCall
from llm_planner.language.parser import parse
from llm_planner.robots.driver import SkillStatus
from llm_planner.robots.duration import expected_duration, polynomial_s, quantile_s, sample_s, skill_duration, trap
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.timing import Noise, Parameter, Polynomial, Quantiles, Source, Sweeps, Travel
from llm_planner.sim.kinematics import KinematicDriver
from tests.robots.builders import table

TELLO = RobotLibrary().get("tello")
INDY7 = RobotLibrary().get("indy7")


def polynomial(*coefficients):
    return Polynomial(coefficients=coefficients, source=Source.PUBLISHED)


def seconds(text, model=TELLO):
    return expected_duration(model, parse(text))


def test_trap_is_the_published_formula():
    assert trap(2.0, 1.0, 1.0) == pytest.approx(3.0)  # D/v + v/a
    assert trap(1.0, 1.0, 1.0) == pytest.approx(2.0)  # both branches meet at v^2/a
    assert trap(0.25, 1.0, 1.0) == pytest.approx(1.0)  # 2 sqrt(D/a)
    assert trap(0.0, 1.0, 1.0) == 0.0


@given(st.floats(1e-6, 1e3), st.floats(0.01, 1e3), st.floats(0.01, 1e3))
def test_trap_rises_with_distance_and_is_never_faster_than_its_speed(distance, speed, acceleration):
    assert trap(distance, speed, acceleration) >= distance / speed * (1 - 1e-9)
    assert trap(distance * 1.1, speed, acceleration) >= trap(distance, speed, acceleration)


@pytest.mark.parametrize(
    ("model", "number", "expected_s"),
    [  # TimelyLLM's artifact
        (polynomial(1.8144, 0.0072), 100, 2.5344),
        (polynomial(0.784, 0.0165), 90, 2.269),
        (polynomial(1.3195, 0.0388, -3e-4, 8e-7), 100, 2.9995),
        (polynomial(2.5), 0, 2.5),
    ],
)
def test_published_polynomials(model, number, expected_s):
    assert polynomial_s(model, number) == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("skill", "number", "published_s"),
    [
        ("mf", 50, 2.1744),
        ("mf", 100, 2.5344),
        ("mf", 300, 3.9744),
        ("tc", 90, 2.269),
        ("tc", 180, 3.754),
        ("tu", 45, 1.5265),
    ],
)
def test_the_bundled_drone_agrees_with_published_times_within_a_third(skill, number, published_s):
    assert skill_duration(TELLO.skills[skill], number).p50_s == pytest.approx(published_s, rel=1 / 3)


def test_drone_parameters():
    forward = skill_duration(TELLO.skills["mf"], 200)
    assert forward.min_s == pytest.approx(0.5 + 3.0)
    assert forward.p50_s == pytest.approx(0.5 + 3.0 + 0.15)
    assert forward.p90_s == pytest.approx(0.5 + 3.0 + 0.15 * math.exp(1.2816 * 0.6), abs=1e-3)
    turn = skill_duration(TELLO.skills["tc"], 90)
    assert turn.min_s == pytest.approx(0.5 + 1.0 + 1 / 3)
    assert skill_duration(TELLO.skills["tk"], None).p50_s == pytest.approx(4.0)
    assert skill_duration(TELLO.skills["ld"], None).p50_s == pytest.approx(1.7)
    assert skill_duration(INDY7.skills["pick"], None).p50_s == pytest.approx(3.1)
    assert skill_duration(INDY7.skills["place"], None).p50_s == pytest.approx(4.1)


def test_scan_table_has_the_published_mean_and_p90():
    rng = random.Random(0)
    samples = [sample_s(TELLO.skills["s"], None, rng) for _ in range(4000)]
    assert statistics.mean(samples) == pytest.approx(7.1, abs=0.5)
    assert skill_duration(TELLO.skills["s"], None).p90_s == pytest.approx(13.2)


def test_quantiles_are_linear_between_rows():
    table = Quantiles(table=((0.0, 1.0), (0.5, 2.0), (1.0, 6.0)), source=Source.MEASURED)
    assert [quantile_s(table, p) for p in (0, 0.25, 0.5, 0.75, 1)] == [1, 1.5, 2, 4, 6]


SWEEPS = Sweeps(
    latency_s=Parameter(value=0.5, source=Source.SIMULATED),
    moving_s=Travel(minimum=1.0, p50=2.0, p90=3.0, source=Source.SIMULATED),
    noise=Noise(median_s=0.02, sigma=0.5, source=Source.SIMULATED),
)


def test_before_it_is_known_where_an_arm_goes_its_joints_move_for_as_long_as_they_usually_do():
    pick = replace(INDY7.skills["pick"], duration=SWEEPS)
    expected, rng = skill_duration(pick, None), random.Random(0)
    assert (expected.min_s, expected.p50_s) == (pytest.approx(1.5), pytest.approx(2.52))
    samples = [sample_s(pick, None, rng) for _ in range(4000)]
    assert min(samples) > expected.min_s
    assert statistics.median(samples) == pytest.approx(expected.p50_s, abs=0.05)
    assert statistics.quantiles(samples, n=10)[-1] == pytest.approx(expected.p90_s, abs=0.1)


def test_an_arm_without_a_body_takes_what_its_sweeps_say():
    skills = {**INDY7.skills, **{name: replace(INDY7.skills[name], duration=SWEEPS) for name in ("pick", "place")}}
    driver = KinematicDriver(replace(INDY7, skills=skills), table(), random.Random(0))
    times_s, now_s = [], 0.0
    for call in [SkillCall("pick", ("red_box",)), SkillCall("place", ("red_box", "table"))] * 100:
        driver.start(call, now_s)
        times_s.append(driver.end_s - now_s)
        now_s = driver.end_s
        assert driver.tick(now_s).status is SkillStatus.SUCCEEDED
    assert min(times_s) > 1.5
    assert statistics.median(times_s) == pytest.approx(2.52, abs=0.25)


def test_only_the_ways_of_an_arm_are_sweeps():
    with pytest.raises(ValueError, match="ways of an arm's tool"):
        replace(TELLO.skills["tk"], duration=SWEEPS)


def test_loops_multiply_and_conditionals_are_between_without_and_with():
    once = seconds("mf(100);")
    assert seconds("3{mf(100);}").p90_s == pytest.approx(3 * once.p90_s)
    maybe, test = seconds("?iv(cat){mf(100);}"), seconds("iv(cat);")
    assert maybe.min_s == pytest.approx(test.min_s)
    assert maybe.p50_s == pytest.approx(test.p50_s + once.p50_s / 2)
    assert maybe.p90_s == pytest.approx(test.p90_s + once.p90_s)


def test_or_and_and_may_be_decided_by_the_first():
    one, both = seconds("?iv(a){d(0);}"), seconds("?iv(a)|iv(b)>1&iv(c){d(0);}")
    assert both.min_s == pytest.approx(one.min_s)
    assert both.p90_s == pytest.approx(3 * one.p90_s)


def test_a_return_may_end_a_plan_early():
    search = seconds("8{?iv(cat){->True;}tc(45);}d(60);")
    assert search.min_s == pytest.approx(0.1)
    assert search.p90_s > 60
    assert seconds("->1;") == ZERO_DURATION
    assert seconds("rp();mf(100);").p90_s < 1
    assert seconds("5{->1;}mf(100);") == ZERO_DURATION


def test_a_number_known_on_the_robot_is_bounded_by_the_limits():
    unknown = seconds("_1=od(cat);mf(_1);")
    assert unknown.min_s <= seconds("od(cat);mf(20);").min_s
    assert unknown.p90_s >= seconds("od(cat);mf(500);").p90_s
    assert seconds("mf(od(cat));").p90_s == pytest.approx(unknown.p90_s)


def test_calls_aliases_and_unknown_skills():
    assert expected_duration(TELLO, SkillCall("move_forward", (100.0,))) == seconds("mf(100);")
    assert expected_duration(TELLO, SkillCall("mf", ("od(cat)",))).p90_s > seconds("mf(400);").p90_s
    assert expected_duration(TELLO, SkillCall("explode")) == ZERO_DURATION
    assert seconds("explode(iv(a));") == seconds("iv(a);")
    assert expected_duration(TELLO, parse("mf(100);")[0]) == seconds("mf(100);")


HEADS = st.sampled_from(["3", "?iv(a)", "?iv(a)&od(b)>3|True"])
CALLS = st.sampled_from(
    ["mf(120)", "tc(30)", "s(cat)", "g(cat)", "d(2)", "mf(od(cat))", "_1=iv(cat)", "rp()", "->iv(x)"]
)
PLANS = st.recursive(
    st.lists(CALLS, min_size=1, max_size=4).map(lambda calls: "".join(f"{c};" for c in calls)),
    lambda inner: st.builds(lambda head, body, tail: f"{head}{{{body}}}{tail}", HEADS, inner, inner),
    max_leaves=5,
)  # fmt: skip


@settings(deadline=None, max_examples=80)
@given(PLANS)
def test_min_p50_p90_are_in_order(text):
    duration = seconds(text)
    assert 0 <= duration.min_s <= duration.p50_s <= duration.p90_s < math.inf
