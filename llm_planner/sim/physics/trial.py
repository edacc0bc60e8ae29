# SPDX-License-Identifier: Apache-2.0
"""One plan, one robot, in physics and in virtual time: what would happen?"""

from collections.abc import Sequence
from dataclasses import dataclass

from llm_planner.core.pose import Pose
from llm_planner.core.segment import Segment, SegmentReport
from llm_planner.robots.executor import ExecutorState, SegmentExecutor
from llm_planner.robots.model import RobotModel
from llm_planner.robots.world import World
from llm_planner.sim.physics.connection import PhysicsConnection
from llm_planner.sim.physics.fleet import build_fleet
from llm_planner.sim.physics.port import LocalPort
from llm_planner.sim.physics.world import Collision, PhysicsWorld
from llm_planner.sim.physics.world_file import WorldFile

PERIOD_S = 0.02
MOST_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The outcome of a plan.

    Attributes:
        reports: The robot's, two for each segment that it began.
        duration_s: Until it was done, or had failed.
        believed: Where the robot believes to be, in its own frame.
        true: Where a drone is; None for an arm, which knows its joints.
        at_m: The robot's tool, or the drone, in the world.
        said: What it told the operator, answers included.
        collisions: All, in order.
        physics: The world as it is now, e.g. for a picture.
    """

    reports: tuple[SegmentReport, ...]
    duration_s: float
    believed: Pose
    true: Pose | None
    at_m: tuple[float, float, float]
    said: tuple[str, ...]
    collisions: tuple[Collision, ...]
    physics: PhysicsWorld


def run_trial(
    model: RobotModel,
    segments: Sequence[Segment],
    world_file: WorldFile | None = None,
    *,
    wind_m_per_s: float = 0.3,
    seed: int = 0,
) -> Trial:
    """Returns what comes of segments that the ordinary executor carries out.

    Args:
        model: Of the robot; it has a body.
        segments: As the safety gate let them pass.
        world_file: Where it is; None for an empty stage.
        wind_m_per_s: Standard deviation of the wind along x and y.
        seed: Of all chance.

    Raises:
        PlannerError: INVALID_CONFIG if the robot has no body, or the world no place for it.
    """
    physics = build_fleet({model.name: model}, world_file, wind_m_per_s=wind_m_per_s, seed=seed)
    port = LocalPort(physics, model.name, model)
    driver = PhysicsConnection(model, port, seed).enter(World(), None, 0.0)
    reports: list[SegmentReport] = []
    executor = SegmentExecutor(model, driver, reports.append)
    now_s = 0.0
    executor.begin("trial", now_s)
    for segment in segments:
        executor.add("trial", segment, now_s)
    executor.expect("trial", len(segments), now_s)
    while (executor.state is ExecutorState.ACTIVE or executor.is_acting) and now_s < MOST_S:
        now_s += PERIOD_S
        executor.tick(now_s)
    state, drone = driver.state, physics.drones.get(model.name)
    x_m, y_m, z_m = physics.tool_m(model.name) if drone is None else drone.position
    return Trial(
        reports=tuple(reports),
        duration_s=now_s,
        believed=state.pose,
        true=None if drone is None else port.true_pose,
        at_m=(float(x_m), float(y_m), float(z_m)),
        said=tuple(text for report in reports for text in report.said),
        collisions=tuple(physics.collisions),
        physics=physics,
    )
