"""Trials are fair, and a few of them in MuJoCo make a better model than the one before."""

import random
from dataclasses import replace

import pytest

pytest.importorskip("mujoco")

from llm_planner.core.errors import PlannerError
from llm_planner.core.skill import SkillCall
from llm_planner.physics.profiling.collect import collect
from llm_planner.physics.profiling.evaluate import accuracy
from llm_planner.physics.profiling.figures import draw_profile
from llm_planner.physics.profiling.fit import fit
from llm_planner.physics.profiling.profile import profile
from llm_planner.physics.profiling.trials import Trial, grid, is_tried, trials
from llm_planner.robots.effect import Translate
from llm_planner.robots.library import RobotLibrary

TELLO, INDY7 = RobotLibrary().get("tello"), RobotLibrary().get("indy7")


def draw(model, *, held_out, seed=0, num_seeds=2):
    return list(trials(model, random.Random(seed), num_seeds=num_seeds, held_out=held_out))


def test_what_a_body_does_not_do_is_not_tried():
    tried = {trial.skill for trial in draw(TELLO, held_out=False)}
    assert {"mf", "mu", "tc", "tk", "ld", "s"} <= tried
    assert not tried & {"iv", "l", "d", "tp", "p", "h", "rp", "g", "o", "a"}
    assert {trial.skill for trial in draw(INDY7, held_out=False)} == {
        "pick",
        "place",
        "push",
        "move_to",
        "home",
        "open",
        "close",
    }
    assert not is_tried(TELLO.skills["iv"])


@pytest.mark.parametrize("held_out", [False, True])
def test_flights_stay_inside_the_fence(held_out: bool):
    fence = TELLO.geofence
    for trial in draw(TELLO, held_out=held_out, num_seeds=4):
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
    numbers = {t.call.arguments[0] for t in draw(TELLO, held_out=True, num_seeds=6) if t.skill == "mf"}
    assert numbers
    assert not numbers & points
    assert {t.call.arguments[0] for t in draw(TELLO, held_out=False) if t.skill == "mf"} == points


def test_a_few_flights_make_a_better_model():
    tried = [t for t in draw(TELLO, held_out=False, num_seeds=1) if t.skill == "mf"]
    others = [t for t in draw(TELLO, held_out=True, num_seeds=1, seed=9) if t.skill == "mf"]
    known = list(collect(TELLO, tried, seed=1, wind_m_per_s=0.0))
    judged = list(collect(TELLO, others, seed=2, wind_m_per_s=0.0))
    assert len(known) == len(judged) == 8
    before, after = TELLO.skills["mf"].duration, fit(TELLO.skills["mf"], known, TELLO.speed_limits)
    assert accuracy(after, judged).median_error < min(0.06, accuracy(before, judged).median_error)


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
        profile(replace(TELLO, body=None), num_seeds=1, seed=0, wind_m_per_s=0.0)
