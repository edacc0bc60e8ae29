# SPDX-License-Identifier: Apache-2.0
"""Trials are fair, and a few of them in MuJoCo make a better model than the one before."""

import math
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("mujoco")

from llm_planner.core.errors import PlannerError
from llm_planner.core.skill import SkillCall
from llm_planner.robots.effect import Home, Translate
from llm_planner.robots.library import RobotLibrary
from llm_planner.sim.physics.profiling.collect import Sample, collect, samples_of
from llm_planner.sim.physics.profiling.evaluate import accuracy, predicted
from llm_planner.sim.physics.profiling.figures import draw_profile
from llm_planner.sim.physics.profiling.fit import fit
from llm_planner.sim.physics.profiling.profile import judge, overall_coverage, profile
from llm_planner.sim.physics.profiling.trials import Trial, grid, is_tried, trials

TELLO, INDY7 = RobotLibrary().get("tello"), RobotLibrary().get("indy7")


def draw(model, *, held_out, seed=0, num_calls=96):
    return list(trials(model, random.Random(seed), num_calls=num_calls, held_out=held_out))


def test_what_a_body_does_not_do_is_not_tried():
    tried = {trial.skill for trial in draw(TELLO, held_out=False)}
    assert {"mf", "mu", "tc", "tk", "ld", "s"} <= tried
    assert not tried & {"iv", "l", "d", "tp", "p", "h", "rp", "g", "o", "a", "home"}
    assert {trial.skill for trial in draw(INDY7, held_out=False)} == {
        "pick",
        "place",
        "push",
        "move_to",
        "home",
        "open",
        "close",
    }
    assert not is_tried(TELLO.skills["iv"], TELLO.kind)


@pytest.mark.parametrize("held_out", [False, True])
def test_flights_stay_inside_the_fence(held_out: bool):
    fence = TELLO.geofence
    for trial in draw(TELLO, held_out=held_out, num_calls=192):
        effect = TELLO.skills[trial.skill].effect
        if isinstance(effect, Translate):
            assert trial.pose is not None
            assert trial.length is not None
            assert fence.contains(trial.pose.x_m, trial.pose.y_m, trial.pose.z_m)
            assert abs(trial.length - trial.call.arguments[0] * effect.unit_m) < 1e-6
            end_m = trial.pose.z_m + effect.axis[2] * trial.length
            assert fence.z_m[0] <= end_m <= fence.z_m[1]


def test_arguments_that_are_held_out_are_on_no_grid():
    points = set(grid(20, 500))
    assert len(points) == 8
    numbers = {t.call.arguments[0] for t in draw(TELLO, held_out=True, num_calls=288) if t.skill == "mf"}
    assert numbers
    assert not numbers & points
    assert {t.call.arguments[0] for t in draw(TELLO, held_out=False) if t.skill == "mf"} == points


def test_a_few_flights_make_a_better_model():
    tried = [t for t in draw(TELLO, held_out=False, num_calls=48) if t.skill == "mf"]
    others = [t for t in draw(TELLO, held_out=True, num_calls=48, seed=9) if t.skill == "mf"]
    known = list(collect(TELLO, tried, seed=1, wind_m_per_s=0.0))
    judged = list(collect(TELLO, others, seed=2, wind_m_per_s=0.0))
    assert len(known) == len(judged) == 8
    before, after = TELLO.skills["mf"].duration, fit(TELLO.skills["mf"], known, TELLO.speed_limits)
    now, was = (accuracy([predicted(d, sample) for sample in judged], judged) for d in (after, before))
    assert now.median_error < min(0.06, was.median_error)


def test_a_call_that_fails_is_no_sample(tmp_path):
    lost = Trial(skill="pick", call=SkillCall("pick", ("nothing",)))
    empty = Trial(skill="place", call=SkillCall("home"), before=(SkillCall("pick", ("nothing",)),))
    samples = list(collect(INDY7, [lost, empty, Trial(skill="open", call=SkillCall("open"))], seed=0, wind_m_per_s=0.0))
    assert [sample.skill for sample in samples] == ["open"]
    duration = INDY7.skills["open"].duration
    draw_profile(tmp_path / "picture.png", "open", {"open": (duration, duration, samples)})
    assert (tmp_path / "picture.png").stat().st_size > 1000


def test_a_robot_without_a_body_cannot_be_simulated():
    with pytest.raises(PlannerError, match="has no body"):
        profile(replace(TELLO, body=None), num_calls=16, seed=0, wind_m_per_s=0.0)


def test_every_duration_model_gets_as_many_calls_however_many_skills_share_it():
    counts = Counter(trial.skill for trial in draw(TELLO, held_out=False, num_calls=96))
    assert (counts["mf"], counts["tc"], counts["s"], counts["tk"]) == (16, 48, 48, 96)


def test_arms_do_not_only_begin_where_plans_begin():
    drawn = [trial for trial in draw(INDY7, held_out=False) if trial.skill in ("pick", "home")]
    elsewhere = [trial for trial in drawn if trial.pose is not None]
    assert all(0.08 <= trial.pose.z_m <= 0.15 for trial in elsewhere)
    homes = {trial.pose is None for trial in drawn if isinstance(INDY7.skills[trial.skill].effect, Home)}
    assert homes == {False}
    assert 0.3 < sum(trial.pose is None for trial in drawn if trial.skill == "pick") / 96 < 0.7


def test_an_arm_moves_for_as_long_as_its_orders_say_and_a_little_more():
    tried = [trial for trial in draw(INDY7, held_out=True, num_calls=16) if trial.skill in ("pick", "move_to")][:20:4]
    for sample in collect(INDY7, tried, seed=3, wind_m_per_s=0.0):
        assert sample.moving_s is not None
        assert 0.05 < sample.seconds - sample.moving_s < 1.2


def test_the_samples_are_the_same_with_any_number_of_processes():
    tried = [Trial(skill=name, call=SkillCall(name)) for name in ("open", "close", "open")]
    alone, shared = (samples_of(INDY7, tried, num_worlds=2, seed=5, wind_m_per_s=0.0, num_jobs=jobs) for jobs in (1, 2))
    assert alone == shared
    assert len(alone) == 3


def test_coverage_says_how_far_it_may_be_off():
    """As many later calls lie within a fitted p90 as it says, on average, and profiles scatter as they say."""
    rng, skills, off = np.random.default_rng(1), [INDY7.skills["open"]], []
    for _ in range(200):
        calls = [[Sample(skill="open", seconds=float(s)) for s in rng.lognormal(0.0, 0.1, 60)] for _ in range(2)]
        group = judge(skills, fit(skills[0], calls[0], INDY7.speed_limits), calls[1])
        off.append((group.now.coverage - 0.9) / group.coverage_error)
    assert 0.8 < np.std(off) < 1.2
    assert abs(np.mean(off)) < 0.25


def test_all_calls_together_are_surer_than_those_of_one_skill():
    rng = np.random.default_rng(2)
    calls = {
        name: [Sample(skill=name, seconds=float(s)) for s in rng.lognormal(0.0, 0.1, count)]
        for name, count in (("open", 300), ("close", 100))
    }
    groups = [
        judge([INDY7.skills[name]], fit(INDY7.skills[name], some, INDY7.speed_limits), some)
        for name, some in calls.items()
    ]
    coverage, error = overall_coverage(groups)
    assert coverage == pytest.approx((3 * groups[0].now.coverage + groups[1].now.coverage) / 4)
    assert error == pytest.approx(math.sqrt(2 * 0.09 / 400))
    assert error < min(group.coverage_error for group in groups)
