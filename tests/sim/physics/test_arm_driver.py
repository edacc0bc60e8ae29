# SPDX-License-Identifier: Apache-2.0
"""An arm with a body grasps, places, stacks and pushes: what lies where in the end, physics has decided."""

import math

import pytest

pytest.importorskip("mujoco")

from llm_planner.core.skill import SkillCall
from llm_planner.robots.driver import SkillStatus
from llm_planner.robots.executor import ExecutorState
from llm_planner.robots.world import ObjectRole, World, WorldObject
from llm_planner.sim.physics.frame import Home
from tests.sim.physics.builders import arm, cube, drone, run


def table(*extra):
    return (
        WorldObject(
            name="table", role=ObjectRole.AREA, position_m=(0.45, 0.0, 0.0), size_m=(0.6, 1.0, 0.0), is_fixed=True
        ),
        WorldObject(
            name="left_area", role=ObjectRole.AREA, position_m=(0.25, 0.5, 0.0), size_m=(0.3, 0.2, 0.0), is_fixed=True
        ),
        WorldObject(name="bin", role=ObjectRole.CONTAINER, position_m=(0.1, -0.6, 0.05), size_m=(0.12, 0.12, 0.1)),
        block("red_box", 0.5, 0.0),
        block("blue_box", 0.5, 0.1),
        *extra,
    )


def block(name, x, y, z=0.025, size=0.05, **options):
    return cube(name, x=x, y=y, z=z, size=size, **options)


def test_a_box_is_stacked_to_the_millimetre():
    driver, world = arm(*table())
    executor, reports, _ = run(driver, "pick(red_box);place(red_box,blue_box);home();")
    assert executor.state is ExecutorState.DONE, reports
    red, blue = driver.world.objects["red_box"], driver.world.objects["blue_box"]
    assert red.support == "blue_box"
    assert math.dist(red.position_m, (*blue.position_m[:2], blue.top_m + 0.025)) < 0.004
    assert driver.state.held is None
    assert not world.collisions


def test_what_is_put_into_a_container_lies_in_it_also_the_second_thing():
    driver, _ = arm(*table())
    executor, reports, _ = run(driver, "pick(red_box);place(red_box,bin);", "pick(blue_box);place(blue_box,bin);")
    assert executor.state is ExecutorState.DONE, reports
    for name in ("red_box", "blue_box"):
        thing = driver.world.objects[name]
        assert thing.support == "bin"
        assert math.dist(thing.position_m[:2], (0.1, -0.6)) < 0.06


def test_what_is_held_moves_with_the_hand_and_falls_when_it_opens():
    driver, _ = arm(*table())
    run(driver, "pick(red_box);move_to(left_area);")
    assert driver.state.held == "red_box"
    assert math.dist(driver.world.objects["red_box"].position_m[:2], (0.25, 0.5)) < 0.02
    executor, reports, _ = run(driver, "open();wait(1);")
    assert executor.state is ExecutorState.DONE, reports
    red = driver.world.objects["red_box"]
    assert red.support == "left_area"
    assert red.position_m[2] < 0.03


def test_pushing_moves_a_box_over_the_table():
    driver, _ = arm(*table())
    executor, reports, _ = run(driver, "push(red_box,left_area);")
    assert executor.state is ExecutorState.DONE, reports
    red = driver.world.objects["red_box"]
    assert math.dist(red.position_m[:2], (0.25, 0.5)) < 0.03
    assert red.support == "left_area"


@pytest.mark.parametrize(
    ("thing", "plan", "reason"),
    [
        (block("cup", 0.79, 0.0, z=0.225, size=0.45), "pick(cup);", "unreachable from above"),
        (block("cup", 0.9, 0.0), "pick(cup);", "unreachable"),
        (block("anvil", 0.4, -0.25, z=0.15, size=0.3), "pick(anvil);", "anvil slipped away"),
        (block("lid", 0.5, 0.0, z=0.075, support="red_box"), "pick(red_box);", "covered by lid"),
        (block("anvil", 0.4, -0.2, is_fixed=True), "pick(anvil);", "cannot be moved"),
        (block("cup", 0.4, -0.2), "pick(cup);pick(red_box);", "the hand is full"),
    ],
)
def test_what_cannot_be_done_fails_with_its_reason(thing, plan, reason):
    driver, _ = arm(*table(thing))
    executor, reports, _ = run(driver, plan)
    assert executor.state is ExecutorState.FAILED
    assert reason in reports[-1].reason


def test_a_thing_that_is_taken_away_meanwhile_slips_away():
    driver, world = arm(*table())
    real = world.grip

    def grip(name, *, is_open):
        if not is_open:  # another robot was faster
            scene = world.scene
            scene.data.qpos[int(scene.model.jnt_qposadr[scene.model.body("arm_1:red_box").jntadr[0]])] += 0.2
            scene.mujoco.mj_step(scene.model, scene.data)
        return real(name, is_open=is_open)

    world.grip = grip
    executor, reports, _ = run(driver, "pick(red_box);")
    assert executor.state is ExecutorState.FAILED
    assert "red_box slipped away" in reports[-1].reason
    assert driver.state.held is None


def test_an_arm_that_is_stopped_stands_still_where_it_is():
    driver, world = arm(*table())
    run(driver, "move_to(left_area);", until_s=1.5)
    driver.halt(1.5)
    driver.tick(2.5)
    joints = world.arms["arm_1"].joints.copy()
    driver.tick(3.5)
    assert abs(joints - world.arms["arm_1"].joints).max() < 1e-3


def test_what_is_held_stays_held_while_others_come_and_go():
    driver, world = arm(*table())
    run(driver, "pick(red_box);move_to(left_area);")
    before = driver.world.objects["red_box"].position_m
    drone(cube("chair"), world=world, home=Home(x_m=9.0))  # the model is compiled again
    driver.tick(99.0)
    assert driver.state.held == "red_box"
    _, reports, _ = run(driver, "iv(red_box);")
    after = driver.world.objects["red_box"].position_m
    assert math.dist(before, after) < 0.005, reports


def test_a_collision_is_not_forgotten_by_who_looks_in_between():
    driver, _ = drone(cube("chair", x=1.0))
    driver.start(SkillCall("mf", (200.0,)), 0.0)
    now_s = 0.0
    while driver.tick(now_s).status is SkillStatus.RUNNING:
        now_s += 0.02
        driver.attend(now_s)
    assert "collided with chair" in driver.tick(now_s).reason


def test_a_thing_may_be_called_as_an_arms_table():
    table = WorldObject(name="bench", position_m=(0.4, 0.2, 0.0), size_m=(0.2, 0.2, 0.0), role=ObjectRole.AREA)
    driver, world = arm(table)
    driver.enter(World([table, cube("cup", x=0.5, z=0.03, size=0.06)]), None, 0.0)
    assert set(driver.world.objects) == {"bench", "cup"}
    assert {"arm_1:bench", "arm_1:cup"} <= world.scene.things.keys()
