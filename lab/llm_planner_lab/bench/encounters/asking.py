# SPDX-License-Identifier: Apache-2.0
"""When a drone asks for help, how long it can wait for an answer, and in which words it asks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from llm_planner.core.pose import Pose
from llm_planner.robots.dodge import PACE, SAMPLE_S, Mover, Point, movers, speed_to, way_to
from llm_planner.robots.model import RobotModel
from llm_planner.robots.motion import wrapped_deg
from llm_planner.robots.reflex import TOUCH
from llm_planner.robots.robot_driver import RobotDriver
from llm_planner_lab.bench.encounters.kinds import Asking, Kind

ALARM_AHEAD_S = 4.0  # the robot asks for help if a mover would come too near within this time
SPARE_S = 0.1  # the answer shall come this long before the reflex would act
LEAST_BUDGET_S = 0.1


_WORDS = {  # the plainest templates of the families that the bundled model was trained on
    (Asking.PASSES, Kind.PERSON): "avoid hurting a {name} {side}",
    (Asking.PASSES, Kind.ANIMAL): "evade a {name} {side}",
    (Asking.PASSES, Kind.BALL): "prevent a collision with a {name} {side}",
    (Asking.COMES, Kind.PERSON): "a {name} is walking toward you {side}",
    (Asking.COMES, Kind.ANIMAL): "a {name} is coming at you {side}",
    (Asking.COMES, Kind.BALL): "a {name} is coming {side}",
}
_SIDES = {
    Asking.PASSES: ("in front of you", "on your left", "behind you", "on your right"),
    Asking.COMES: ("from the front", "from the left", "from behind", "from the right"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A question, and how long its answer may take."""

    instruction: str
    budget_s: float


def alarm(model: RobotModel, driver: RobotDriver, now_s: float, kind: Kind, asking: Asking) -> Alarm | None:
    """Returns what to ask if a mover would come too near, both going on as they do; None if none would.

    The forecast is the reflex's own, over a longer time: so it asks before the reflex acts.
    """
    rule, pose = model.reflex, driver.state.pose
    assert rule is not None
    target = driver.target or pose
    pace, speed = (
        PACE * model.speed_limits.translation_m_per_s,
        speed_to(target, pose, driver.pose_at(now_s - SAMPLE_S)),
    )
    way = way_to(pose, target, pace, ALARM_AHEAD_S, speed)
    coming: list[tuple[float, Mover]] = []
    for mover in movers(driver.noticed(now_s), now_s):
        time_s = _meets_s(mover, way, TOUCH * rule.distance_m)
        coming += [] if time_s is None else [(time_s, mover)]
    if not coming:
        return None
    time_s, mover = min(coming, key=lambda pair: pair[0])
    point = mover.position_m if asking is Asking.COMES else _passes_at(mover, pose)
    words = _WORDS[asking, kind].format(name=mover.name, side=_SIDES[asking][_side(point, pose)])
    return Alarm(instruction=words, budget_s=max(LEAST_BUDGET_S, time_s - rule.ahead_s - SPARE_S))


def _meets_s(mover: Mover, way: Sequence[Point], near_m: float) -> float | None:
    """Returns when something comes near; None if it does not."""
    times_s = (number * SAMPLE_S for number, point in enumerate(way) if mover.gap_m(point, number * SAMPLE_S) < near_m)
    return next(times_s, None)


def _passes_at(mover: Mover, pose: Pose) -> tuple[float, float]:
    """Returns a point on the side on which something will pass a drone that brakes here: across its way."""
    x, y = mover.position_m[0] - pose.x_m, mover.position_m[1] - pose.y_m
    vx, vy, _ = mover.velocity_m_per_s
    side = 1.0 if vx * y - vy * x >= 0.0 else -1.0  # of the drone, to the left of its way or to the right
    return pose.x_m - side * vy, pose.y_m + side * vx


def _side(point: Sequence[float], pose: Pose) -> int:
    """Returns on which side something is from where the drone looks: front, left, behind, right."""
    bearing_deg = math.degrees(math.atan2(point[1] - pose.y_m, point[0] - pose.x_m)) - pose.yaw_deg
    return round(wrapped_deg(bearing_deg) / 90.0) % 4
