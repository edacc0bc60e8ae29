# SPDX-License-Identifier: Apache-2.0
"""Worlds come from the network: what is broken or larger than any world is refused with its number and its place."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.robots.world import WorldObject
from llm_planner.ros.snapshot import MAX_CHARACTERS, MAX_OBJECTS, Snapshot

pytestmark = pytest.mark.ros
THING = {"name": "a", "position_m": [1.0, 0.0, 0.0]}
HUGE = 10**400


def test_snapshot_round_trip():
    ball = WorldObject(name="ball", position_m=(1.0, 2.0, 3.0), velocity_m_per_s=(0.1, 0.0, 0.0))
    snapshot = Snapshot(objects=(ball,), answers={"colour": "red", "count": 2.0, "open": True}, said=("hello",))
    assert Snapshot.from_json(snapshot.to_json()) == snapshot


@pytest.mark.parametrize("world", ["", "[]", "{}", '{"objects": [{"name": "x"}]}', json.dumps({"objects": [], "x": 1})])
def test_a_broken_world_is_refused(world):
    with pytest.raises(PlannerError) as caught:
        Snapshot.from_json(world)
    assert caught.value.code is ErrorCode.INVALID_WORLD


def world_of(*objects, **fields):
    return json.dumps({"objects": list(objects)} | fields)


@pytest.mark.parametrize(
    ("world", "part"),
    [
        (world_of(THING | {"size_m": [math.inf, 1.0, 0.0], "role": "area"}), "objects.0.size_m"),
        (world_of(THING | {"size_m": [1e308, 1.0, 0.0], "role": "area"}), "objects.0.size_m"),
        (world_of(THING | {"size_m": [500.0, 1.0, 0.0], "role": "area"}), "objects.0.size_m"),
        (world_of(THING | {"size_m": [-1.0, 1.0, 0.0]}), "below 0"),
        (world_of(THING | {"position_m": [math.nan, 0.0, 0.0]}), "objects.0.position_m"),
        (world_of(THING | {"position_m": [1e308, 0.0, 0.0]}), "objects.0.position_m"),
        (world_of(THING | {"position_m": [HUGE, 0.0, 0.0]}), "objects.0.position_m"),
        (world_of(THING | {"velocity_m_per_s": [1e9, 0.0, 0.0]}), "objects.0.velocity_m_per_s"),
        (world_of(THING | {"moves_for_s": math.nan}), "below 0"),
        (world_of(THING, THING), "two objects have one name"),
        (world_of(THING | {"name": "a" * 301}), "more than 300 characters"),
        (world_of(THING | {"name": "a\a"}), "control characters"),
        (world_of(THING | {"name": "zur\ufffdck"}), "UTF-8"),
        (world_of(THING | {"tags": ["a"] * 33}), "33 tags"),
        (world_of(*(THING | {"name": f"a_{n}"} for n in range(MAX_OBJECTS + 1))), "257 objects"),
        (world_of(pose={"x_m": math.inf}), "pose.x_m"),
        (world_of(pose={"x_m": 5000.0}), "pose is"),
        (world_of(pose={"yaw_deg": 1e300}), "pose.yaw_deg"),
        (world_of(answers={"how many": HUGE}), "answers is"),
        (world_of(answers={"how many": math.inf}), "answers is"),
        (" " * (MAX_CHARACTERS + 1), "more than 200000"),
        ("[" * 100_000, "recursion limit"),
    ],
)
def test_a_world_that_no_robot_could_be_in_is_refused(world, part):
    with pytest.raises(PlannerError, match=r"^world: ") as caught:
        Snapshot.from_order(world)
    assert caught.value.code is ErrorCode.INVALID_WORLD
    assert part in caught.value.message
    assert len(caught.value.message) <= 500


def test_an_ordinary_world_is_taken():
    ball = THING | {"velocity_m_per_s": [-1.0, 0.0, 0.0], "moves_for_s": math.inf}
    snapshot = Snapshot.from_order(world_of(ball, pose={"x_m": 9.0}, answers={"colour": "red", "open": True}))
    assert (snapshot.objects[0].name, snapshot.pose.x_m) == ("a", 9.0)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=8))
def test_whatever_comes_is_a_world_or_refused(value):
    for text in (json.dumps(value), world_of(THING | {"size_m": value}), world_of(pose=value), world_of(answers=value)):
        try:
            Snapshot.from_order(text)
        except PlannerError as error:
            if error.code is not ErrorCode.INVALID_WORLD:
                raise
