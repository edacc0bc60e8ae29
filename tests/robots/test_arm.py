# SPDX-License-Identifier: Apache-2.0
import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.core.skill import SkillCall
from llm_planner.robots.driver import SkillFailedError
from llm_planner.robots.world import HELD, ObjectRole, WorldObject
from tests.robots.builders import arm, run, table


def position(driver, name):
    return pytest.approx(driver.world.objects[name].position_m)


def test_stacks_one_box_on_another():
    driver = arm()
    outcome = run("pick(red_box);place(red_box,blue_box);", driver)
    assert outcome.is_success
    assert driver.world.objects["red_box"].support == "blue_box"
    assert position(driver, "red_box") == (0.5, 0.1, 0.075)
    assert driver.world.is_on("red_box", "table")
    assert not driver.world.is_on("blue_box", "red_box")


@pytest.mark.parametrize("size_m", [100.0, 1e308, math.inf])
def test_a_free_spot_of_a_huge_area_is_found_near_its_middle(size_m):
    area = WorldObject(name="hall", role=ObjectRole.AREA, position_m=(0.4, 0.0, 0.0), size_m=(size_m, size_m, 0.0))
    world = table(area)
    assert world.spot("red_box", area) == pytest.approx((0.4, 0.0, 0.025))
    carpet = WorldObject(name="carpet", position_m=(0.4, 0.0, 0.025), size_m=(9.0, 9.0, 0.05))
    with pytest.raises(SkillFailedError, match="no room in hall"):
        table(area, carpet).spot("red_box", area)


def test_places_in_a_free_spot_of_an_area_and_in_a_container():
    driver = arm()
    assert run("pick(red_box);place(red_box,left_area);pick(blue_box);place(blue_box,left_area);", driver).is_success
    red, blue = (driver.world.objects[n].position_m for n in ("red_box", "blue_box"))
    assert max(abs(r - b) for r, b in zip(red, blue, strict=True)) >= 0.05
    assert driver.world.is_on("red_box", "left_area")
    assert driver.world.is_on("blue_box", "left_area")
    assert run("pick(red_box);place(red_box,bin);", driver).is_success
    assert driver.world.is_on("red_box", "bin")
    assert not driver.world.is_on("red_box", "left_area")
    assert run("pick(blue_box);place(blue_box,bin);", driver).is_success  # a container is never covered


def test_a_box_stands_in_an_area_also_without_having_been_put_there():
    driver = arm(table(WorldObject(name="cup", position_m=(0.4, 0.32, 0.025))))
    assert driver.world.is_on("cup", "left_area")
    run("pick(cup);", driver)
    assert driver.world.objects["cup"].support == HELD
    assert not driver.world.is_on("cup", "left_area")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("pick(unicorn);", "pick: unicorn is not visible"),
        ("pick(red_box);pick(blue_box);", "pick: the hand is full: it holds red_box"),
        ("pick(red_box);push(blue_box,left_area);", "push: the hand is full: it holds red_box"),
        ("place(red_box,blue_box);", "place: nothing is held, so red_box cannot be placed"),
        ("pick(red_box);place(blue_box,left_area);", "place: red_box is held, not blue_box"),
        ("pick(red_box);place(red_box,red_box);", "place: red_box cannot be placed on itself"),
        ("pick(red_box);place(red_box,blue_box);pick(blue_box);", "pick: blue_box is covered by red_box"),
        ("pick(red_box);place(red_box,blue_box);push(red_box,left_area);",
         "push: red_box lies on or in blue_box and cannot be pushed"),
        ("pick(table);", "pick: table cannot be moved"),
        ("pick(bin);", "pick: bin cannot be moved"),
        ("pick(far);", "pick: the target at (0.90, 0.00, 0.03) m is unreachable"),
        ("pick(red_box);place(red_box,shelf);", "place: the target at (0.90, 0.30, 0.03) m is unreachable"),
        ("pick(red_box);place(red_box,full);", "place: there is no room in full"),
        ("move_to(far);", "move_to: the target at (0.90, 0.00, 0.15) m is unreachable"),
        ("push(red_box,red_box);", "push: red_box cannot be pushed to itself"),
        ("pick(ball);", "pick: ball is ambiguous: ball_1, ball_2"),
    ],
)  # fmt: skip
def test_failures_say_why(text, reason):
    area = {"role": ObjectRole.AREA, "size_m": (0.05, 0.05, 0.0)}
    driver = arm(
        table(
            WorldObject(name="far", position_m=(0.9, 0.0, 0.025)),
            WorldObject(name="shelf", position_m=(0.9, 0.3, 0.0), **area),
            WorldObject(name="full", position_m=(0.3, -0.2, 0.0), **area),
            WorldObject(name="ball_1", kind="ball", position_m=(0.3, -0.2, 0.025)),
            WorldObject(name="ball_2", kind="ball", position_m=(0.3, -0.1, 0.025)),
        )
    )
    outcome = run(text, driver)
    assert not outcome.is_success
    assert outcome.reason == reason


def test_a_target_that_is_covered_takes_nothing_more():
    driver = arm(table(WorldObject(name="cup", position_m=(0.3, 0.0, 0.025))))
    outcome = run("pick(red_box);place(red_box,blue_box);pick(cup);place(cup,blue_box);", driver)
    assert outcome.reason == "place: blue_box is covered by red_box"


def test_pushes_into_an_area_and_next_to_an_object():
    driver = arm()
    assert run("push(red_box,left_area);", driver).is_success
    assert driver.world.is_on("red_box", "left_area")
    assert run("push(blue_box,red_box);", driver).is_success
    red, blue = (driver.world.objects[n].position_m for n in ("red_box", "blue_box"))
    assert (abs(red[0] - blue[0]), abs(red[1] - blue[1])) in [pytest.approx((0.06, 0)), pytest.approx((0, 0.06))]


def test_nothing_is_pushed_where_there_is_no_room():
    block = {"size_m": (0.05, 0.05, 0.05)}
    around = [(0.56, 0.0), (0.44, 0.0), (0.5, 0.06), (0.5, -0.06)]
    things = [WorldObject(name=f"block_{i}", position_m=(*p, 0.025), **block) for i, p in enumerate(around)]
    driver = arm(table(*things, WorldObject(name="cup", position_m=(0.3, 0.3, 0.025))))
    del driver.world.objects["blue_box"]
    assert run("push(cup,red_box);", driver).reason == "push: there is no room next to red_box"


def test_what_is_held_moves_along_and_falls_when_the_gripper_opens():
    driver = arm()
    assert run("pick(red_box);move_to(blue_box);", driver).is_success
    assert driver.world.objects["red_box"].position_m[2] > 0.1
    assert run("open();", driver).is_success
    assert driver.world.objects["red_box"].support == "blue_box"
    assert run("pick(red_box);move_to(bin);open();", driver).is_success
    assert driver.world.objects["red_box"].support == "bin"
    assert run("pick(red_box);move_to(left_area);open();", driver).is_success
    assert driver.world.is_on("red_box", "left_area")
    del driver.world.objects["table"]
    assert run("pick(red_box);home();open();open();close();", driver).is_success
    assert position(driver, "red_box") == (0.35, 0.0, 0.025)


def test_home_keeps_what_is_held():
    driver = arm()
    assert run("pick(red_box);home();", driver).is_success
    assert driver.state.held == "red_box"
    assert driver.state.pose == driver.model.start


def test_an_arm_sees_its_whole_table_but_no_areas():
    driver = arm()
    assert run("->iv(red_box);", driver).value is True
    assert run("->iv(unicorn);", driver).value is False
    assert run("->iv(table);", driver).value is False


def test_the_tool_goes_around_the_pedestal():
    driver = arm(table(WorldObject(name="cup", position_m=(-0.5, 0.02, 0.025))))
    workspace = driver.model.workspace
    run("move_to(red_box);", driver)
    begin_s = 100.0
    driver.start(SkillCall("move_to", ("cup",)), begin_s)
    times_s = [begin_s + (driver.end_s - begin_s) * step / 200 for step in range(201)]
    for time_s in times_s:
        driver.tick(time_s)
        pose = driver.state.pose
        assert workspace.excess_m((pose.x_m, pose.y_m, pose.z_m)) < 1e-6
    assert (pose.x_m, pose.y_m) == (-0.5, 0.02)
    passed = [driver.pose_at(time_s) for time_s in times_s]
    way_m = sum(math.dist((a.x_m, a.y_m), (b.x_m, b.y_m)) for a, b in pairwise(passed))
    assert 1.0 < way_m < 1.6  # longer than straight, shorter than the whole half circle


NAMES = st.sampled_from(["red_box", "blue_box", "cup", "bin", "left_area", "table"])
CALLS = st.one_of(
    st.builds("{}({});".format, st.sampled_from(["pick", "move_to", "iv"]), NAMES),
    st.builds("{}({},{});".format, st.sampled_from(["place", "push"]), NAMES, NAMES),
    st.sampled_from(["home();", "open();", "close();", "stop();"]),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(CALLS, max_size=20), st.integers(0, 99))
def test_the_world_stays_possible(calls, seed):
    """The tool in its workspace, one object in the hand, nothing on itself, fixed things where they were."""
    driver = arm(table(WorldObject(name="cup", position_m=(0.3, -0.1, 0.04), size_m=(0.06, 0.06, 0.08))), seed=seed)
    for call in calls:
        run(call, driver)
        objects, pose = driver.world.objects, driver.state.pose
        assert 0.15 <= math.hypot(pose.x_m, pose.y_m) <= 0.8
        assert 0 <= pose.z_m <= 0.9
        held = [name for name, thing in objects.items() if thing.support == HELD]
        assert held == ([driver.state.held] if driver.state.held else [])
        assert not any(driver.world.is_on(name, name) for name in objects)
        resting = [thing for name, thing in objects.items() if name not in held]
        assert all(thing.position_m[2] >= thing.size_m[2] / 2 - 1e-9 for thing in resting)
        assert objects["bin"].position_m == (0.4, -0.4, 0.05)
