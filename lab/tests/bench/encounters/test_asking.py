# SPDX-License-Identifier: Apache-2.0
"""When a drone asks, and what it says of the mover."""

from types import SimpleNamespace

import pytest

pytest.importorskip("mujoco")

from llm_planner.core.pose import Pose
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.world import WorldObject
from llm_planner_lab.bench.encounters.asking import LEAST_BUDGET_S, alarm
from llm_planner_lab.bench.encounters.kinds import Asking, Kind

TELLO = RobotLibrary().get("tello")


def ask(at_m, velocity, *, asking=Asking.PASSES, kind=Kind.PERSON, yaw_deg=0.0, target=None, before=None):
    """Returns the alarm of a drone at home that notices a mover."""
    pose = Pose(z_m=1.0, yaw_deg=yaw_deg)
    thing = WorldObject(
        name="person", position_m=(*at_m, 0.875), size_m=(0.5, 0.5, 1.75), velocity_m_per_s=(*velocity, 0.0)
    )
    driver = SimpleNamespace(
        state=SimpleNamespace(pose=pose),
        target=target,
        pose_at=lambda _time_s: before or pose,
        noticed=lambda _now_s: [thing],
    )
    return alarm(TELLO, driver, 0.0, kind, asking)


@pytest.mark.parametrize(
    ("aside_m", "yaw_deg", "side"),
    [
        (0.2, 0.0, "on your left"), (-0.2, 0.0, "on your right"), (0.2, 180.0, "on your right"),
        (0.2, 90.0, "in front of you"), (-0.2, 90.0, "behind you"),
    ],
)  # fmt: skip
def test_it_says_on_which_side_a_person_will_pass(aside_m, yaw_deg, side):
    asked = ask((4.0, aside_m), (-1.5, 0.0), yaw_deg=yaw_deg)
    assert asked.instruction == f"avoid hurting a person {side}"


@pytest.mark.parametrize(
    ("at_m", "side"), [((4.0, 0.1), "the front"), ((0.0, 4.0), "the left"), ((-4.0, 0.0), "behind")]
)
def test_or_it_says_where_a_person_comes_from(at_m, side):
    velocity = tuple(-0.4 * x for x in at_m)
    assert ask(at_m, velocity, asking=Asking.COMES).instruction == f"a person is walking toward you from {side}"


def test_the_budget_is_what_is_left_until_the_reflex_would_act():
    assert ask((4.0, 0.0), (-1.5, 0.0)).budget_s == pytest.approx((4.0 - 0.25 - 0.4) / 1.5 - 1.6 - 0.1, abs=0.11)
    assert ask((2.0, 0.0), (-2.0, 0.0)).budget_s == LEAST_BUDGET_S


def test_no_question_about_a_person_who_passes_by_or_moves_away():
    assert ask((4.0, 2.0), (-1.5, 0.0)) is None
    assert ask((4.0, 0.0), (1.5, 0.0)) is None


def test_a_flying_drone_asks_about_a_person_on_its_path():
    crossing = {"at_m": (2.5, 2.5), "velocity": (0.0, -1.0)}
    target = Pose(x_m=5.0, z_m=1.0)
    assert ask(**crossing) is None
    assert ask(**crossing, target=target) is not None
    begins, flies = ask(**crossing, target=target), ask(**crossing, target=target, before=Pose(x_m=-0.1, z_m=1.0))
    assert flies.budget_s <= begins.budget_s


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("asking", Asking)
def test_there_are_words_for_whatever_comes(kind, asking):
    assert "person" in ask((4.0, 0.0), (-1.5, 0.0), kind=kind, asking=asking).instruction
