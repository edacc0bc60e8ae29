# SPDX-License-Identifier: Apache-2.0
"""Executes a task's plan with a body, in virtual time; judged by the same goal test as in the kinematic world."""

from llm_planner.demo.embodied import as_left, waypoints
from llm_planner.demo.outcome import Executed
from llm_planner.language.parser import parse
from llm_planner.robots.driver import SkillStatus
from llm_planner.robots.interpreter import Interpreter, Outcome
from llm_planner.robots.model import RobotModel
from llm_planner.robots.world import World
from llm_planner.sim.physics.connection import PhysicsConnection
from llm_planner.sim.physics.fleet import build_fleet
from llm_planner.sim.physics.port import LocalPort
from llm_planner_lab.tasks.arranged import solid_objects
from llm_planner_lab.tasks.sample import Task

TICK_S = 0.02
LONGEST_S = 400.0


def execute_with_body(task: Task, plan: str, model: RobotModel, *, seed: int = 0) -> Executed:
    """Returns what a plan does in a task's world, in physics.

    Args:
        task: Arranged (``tasks.arranged``).
        plan: That passed the safety gate.
        model: Of the robot.
        seed: Of wind, drift and latencies.
    """
    world = build_fleet({"robot": model}, None, seed=seed)
    connection = PhysicsConnection(model, LocalPort(world, "robot", model), seed)
    start = World(solid_objects(task))
    driver = connection.enter(World(start.objects.values()), None, 0.0)
    interpreter = Interpreter(model, driver)
    now_s = 0.0
    interpreter.start(parse(plan), now_s)
    result = interpreter.tick(now_s)
    while result.status is SkillStatus.RUNNING and now_s < LONGEST_S:
        now_s += TICK_S
        result = interpreter.tick(now_s)
    if result.status is SkillStatus.RUNNING:
        interpreter.halt(now_s, f"not done after {LONGEST_S:g} s")
        result = interpreter.tick(now_s)
    outcome = Outcome(
        is_success=result.status is SkillStatus.SUCCEEDED,
        reason=result.reason,
        value=result.value,
        calls=interpreter.calls,
        duration_s=now_s,
        wants_replan=interpreter.wants_replan,
    )
    drone, state = world.drones.get("robot"), driver.state
    return Executed(
        outcome=outcome,
        world=as_left(driver.world.objects, start),
        start=start,
        pose=drone.true_pose if drone else state.pose,
        held=state.held,
        said=tuple(state.said),
        pictures=tuple(state.pictures),
        waypoints=waypoints([driver.pose_at(0.0), *(driver.pose_at(call.end_s) for call in outcome.calls)]),
    )
