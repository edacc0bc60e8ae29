# SPDX-License-Identifier: Apache-2.0
"""The sides to which skills go or turn."""

import pytest

from llm_planner.planning.instruction.sides import OPPOSITE, Side, side_of_effect
from llm_planner.robots.effect import Land, Translate
from llm_planner.robots.library import RobotLibrary

TELLO = RobotLibrary().get("tello")


@pytest.mark.parametrize(
    ("skill", "side"),
    [
        ("mf", Side.FRONT),
        ("mb", Side.BACK),
        ("ml", Side.LEFT),
        ("mr", Side.RIGHT),
        ("mu", Side.UP),
        ("md", Side.DOWN),
        ("tu", Side.LEFT),
        ("tc", Side.RIGHT),
    ],
)
def test_a_skill_goes_or_turns_to_a_side(skill, side):
    assert side_of_effect(TELLO.skills[skill].effect) is side


def test_a_slanting_motion_goes_to_the_side_of_its_largest_part():
    assert side_of_effect(Translate(axis=(0.6, -0.8, 0.0), unit_m=0.01)) is Side.RIGHT


def test_what_does_neither_has_no_side():
    assert side_of_effect(Land()) is None


def test_opposites_are_mutual():
    assert all(OPPOSITE[OPPOSITE[side]] is side for side in Side)
