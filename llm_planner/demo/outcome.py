# SPDX-License-Identifier: Apache-2.0
"""Executes a plan in the world of a task: parser, safety gate, interpreter, kinematic robot."""

import math
import random
from dataclasses import dataclass

from llm_planner.core.errors import PlannerError
from llm_planner.core.skill import Value
from llm_planner.demo.task import Task
from llm_planner.language.parser import parse
from llm_planner.language.syntax import If, Loop, Return, Statement
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.interpreter import Outcome, run_plan
from llm_planner.robots.model import Pose, RobotModel
from llm_planner.robots.motion import wrapped_deg
from llm_planner.robots.world import HELD, World
from llm_planner.sim.kinematics import KinematicDriver


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """What is left when a plan has been executed.

    Attributes:
        outcome: Of the interpreter.
        world: As the robot left it.
        start: The world as it was.
        pose: Of the robot at the end.
        held: Name of the object in the gripper.
        said: Texts that the operator was told.
        pictures: Poses at which pictures were taken.
        waypoints: Poses after each call that moved the robot, the start first.
        answer: What the plan returned, if it returned something; ASKED if it asked the picture.
    """

    outcome: Outcome
    world: World
    start: World
    pose: Pose
    held: str | None
    said: tuple[str, ...]
    pictures: tuple[Pose, ...]
    waypoints: tuple[Pose, ...]
    answer: Value | None = None

    def distance_m(self, name: str) -> float:
        """Returns how far the robot ended from an object, level."""
        x, y, _ = self.world.objects[name].position_m
        return math.hypot(x - self.pose.x_m, y - self.pose.y_m)

    def bearing_deg(self, name: str) -> float:
        """Returns the angle between the robot's heading and an object, 0 to 180."""
        x, y, _ = self.world.objects[name].position_m
        heading = math.degrees(math.atan2(y - self.pose.y_m, x - self.pose.x_m))
        return abs(wrapped_deg(heading - self.pose.yaw_deg))

    @property
    def waited_s(self) -> float:
        """Seconds that the plan waited on purpose."""
        waits = ("d", "wait")
        return sum(float(done.call.arguments[0]) for done in self.outcome.calls if done.call.name in waits)


def execute(task: Task, plan: str, model: RobotModel, *, seed: int = 0) -> Executed:
    """Returns what a plan does in a task's world.

    Raises:
        PlannerError: 2xx, if the parser or the safety gate refuses it.
    """
    statements = parse(plan)
    gate = SafetyGate(model)
    for statement in statements:
        gate.admit(statement)
    driver = KinematicDriver(model, task.world, random.Random(seed))
    driver.state.held = next((thing.name for thing in driver.world.objects.values() if thing.support == HELD), None)
    outcome = run_plan(statements, driver)
    state = driver.state
    return Executed(
        outcome=outcome,
        world=driver.world,
        start=task.world,
        pose=state.pose,
        held=state.held,
        said=tuple(state.said),
        pictures=tuple(state.pictures),
        waypoints=distinct([driver.pose_at(0.0), *(driver.pose_at(call.end_s) for call in outcome.calls)]),
        answer=_answer(statements, outcome),
    )


ASKED = "(asked)"
"""The answer of a plan that asks a question about the picture: it depends on what only a picture shows."""


def _answer(statements: tuple[Statement, ...], outcome: Outcome) -> Value | None:
    """Returns the answer of a plan to a question: what it returned, if it ran to a return."""
    if not _returns(statements) or outcome.has_given_up:
        return None
    if outcome.calls and outcome.calls[-1].call.name == "p":
        return ASKED
    return outcome.value


def _returns(statements: tuple[Statement, ...]) -> bool:
    return any(
        isinstance(statement, Return) or (isinstance(statement, If | Loop) and _returns(statement.body))
        for statement in statements
    )


def refusal(task: Task, plan: str, model: RobotModel) -> str:
    """Returns why parser or gate refuse a plan; empty if they do not."""
    try:
        execute(task, plan, model)
    except PlannerError as error:
        return str(error)
    return ""


def distinct(poses: list[Pose], tolerance_m: float = 1e-3, tolerance_deg: float = 0.1) -> tuple[Pose, ...]:
    """Returns the poses without those that repeat the one before."""
    kept: list[Pose] = []
    for pose in poses:
        if not kept or not is_near(kept[-1], pose, tolerance_m, tolerance_deg):
            kept.append(pose)
    return tuple(kept)


def is_near(one: Pose, two: Pose, tolerance_m: float, tolerance_deg: float) -> bool:
    """True if two poses are the same within tolerances."""
    apart_m = math.dist((one.x_m, one.y_m, one.z_m), (two.x_m, two.y_m, two.z_m))
    return apart_m <= tolerance_m and abs(wrapped_deg(one.yaw_deg - two.yaw_deg)) <= tolerance_deg
