# SPDX-License-Identifier: Apache-2.0
"""Where things will be if they go on as they are seen going, and the one motion that keeps a robot clear of them.

A forecast by constant velocity over a second or two, of what the robot's sensors saw until now: it is not told where
a mover intends to go.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from llm_planner.core.pose import Pose
from llm_planner.core.skill import SkillCall
from llm_planner.robots.duration import trap
from llm_planner.robots.effect import Translate
from llm_planner.robots.model import RobotModel, Skill
from llm_planner.robots.motion import travelled_share
from llm_planner.robots.timing import Trapezoid
from llm_planner.robots.world import WorldObject

Point = tuple[float, float, float]
SAMPLE_S = 0.1  # of a forecast, and over which a speed is taken
BEYOND_S = 4.0  # a motion is judged for this much longer than the forecast that caused it: also where it ends
NUM_AMOUNTS = 4  # motions of once, twice, ... the distance of the rule
JUST_M = 0.02  # less is no difference
LAG_S, PACE = 0.4, 0.85  # until a motion that was begun is under way; share of the speed limit that it then has
LEAST_SPAN_S = 0.01  # over less, no speed is estimated


@dataclass(frozen=True, slots=True)
class Mover:
    """Something that moves: where it is, how big it is and how fast, as seen."""

    name: str
    position_m: Point
    size_m: Point
    velocity_m_per_s: Point

    def gap_m(self, point: Point, after_s: float) -> float:
        """Returns the distance of its surface from a point after some time."""
        here = (p + v * after_s for p, v in zip(self.position_m, self.velocity_m_per_s, strict=True))
        return math.hypot(*(max(0.0, abs(h - p) - s / 2) for h, p, s in zip(here, point, self.size_m, strict=True)))


def movers(things: Iterable[WorldObject], now_s: float) -> list[Mover]:
    """Returns what moves at this moment, with the speed of the last tenth of a second."""
    found, span_s = [], min(SAMPLE_S, now_s)
    for thing in things:
        if not any(thing.velocity_m_per_s):
            continue
        here, velocity = thing.position_at(now_s), thing.velocity_m_per_s
        if span_s >= LEAST_SPAN_S:
            before = thing.position_at(now_s - span_s)
            vx, vy, vz = ((h - b) / span_s for h, b in zip(here, before, strict=True))
            velocity = (vx, vy, vz)
        found.append(Mover(thing.name, here, thing.size_m, velocity))
    return found


def closest_m(mover: Mover, way: Sequence[Point]) -> float:
    """Returns the least gap between a thing and a robot that is at the points of its way one sample after the other."""
    return min(mover.gap_m(point, number * SAMPLE_S) for number, point in enumerate(way))


def way_to(pose: Pose, target: Pose, pace_m_per_s: float, for_s: float, speed_m_per_s: float = 0.0) -> list[Point]:
    """Returns the way of a robot that is under way to a target, sample by sample.

    Args:
        pose: Where it is.
        target: Where it goes.
        pace_m_per_s: How fast it will go.
        for_s: How far to look ahead.
        speed_m_per_s: How fast it goes there now; what has its pace already does not have to get under way.
    """
    begin, end = (pose.x_m, pose.y_m, pose.z_m), (target.x_m, target.y_m, target.z_m)
    length_m = math.dist(begin, end)
    lag_s = LAG_S * (1.0 - min(1.0, max(0.0, speed_m_per_s) / pace_m_per_s))
    times_s = [number * SAMPLE_S for number in range(int(for_s / SAMPLE_S) + 1)]
    if length_m < 1e-6:
        return [begin for _ in times_s]
    return [_between(begin, end, min(1.0, max(0.0, t - lag_s) * pace_m_per_s / length_m)) for t in times_s]


def speed_to(target: Pose, pose: Pose, before: Pose) -> float:
    """Returns how fast a robot goes towards a target that was elsewhere one sample before; negative: away from it."""
    ahead = (target.x_m - pose.x_m, target.y_m - pose.y_m, target.z_m - pose.z_m)
    gone = (pose.x_m - before.x_m, pose.y_m - before.y_m, pose.z_m - before.z_m)
    length_m = math.hypot(*ahead)
    if length_m < JUST_M:
        return 0.0
    return sum(a * g for a, g in zip(ahead, gone, strict=True)) / length_m / SAMPLE_S


def dodge(
    model: RobotModel,
    pose: Pose,
    threats: Sequence[Mover],
    ahead_s: float,
    going_on: Sequence[Point] | None = None,
    *,
    unsupported: Collection[str] = (),
) -> SkillCall | None:
    """Returns what keeps a robot farthest from what comes, inside its fence; None if it had better do as it does.

    A shorter motion that keeps the distance of the reflex rule is preferred to a longer one, and going on to both: what
    is begun again takes its time to get under way.

    Args:
        model: Of the robot, with a reflex rule.
        pose: Where it is.
        threats: What comes.
        ahead_s: Of the rule.
        going_on: Its way if it goes on as it does, for ``forecast_s`` of that; None if it stands.
        unsupported: Skills of the model that this robot cannot carry out.
    """
    assert model.reflex is not None
    for_s, enough_m = forecast_s(ahead_s), model.reflex.distance_m
    best_call: SkillCall | None = None
    stay = way_to(pose, pose, 1.0, for_s)
    best = _clearance(threats, going_on or stay, enough_m)
    if best[0] >= enough_m - JUST_M:
        return None
    lengths_m = (times * model.reflex.back_off_m for times in range(1, NUM_AMOUNTS + 1))
    motions = (motion for length_m in lengths_m for motion in straight_motions(model, pose, length_m, unsupported))
    ways = ((call, _way_of(skill, pose, end, for_s)) for call, end, skill in motions)
    for call, way in ways if going_on is None else ((SkillCall(model.stop_skill), stay), *ways):
        clear = _clearance(threats, way, enough_m)
        is_clearer = clear[0] > best[0] + JUST_M
        is_equal = clear[0] > best[0] - JUST_M and best[0] < enough_m - JUST_M
        if is_clearer or (is_equal and clear[1] > best[1] + JUST_M):
            best_call, best = call, clear
    return best_call


def forecast_s(ahead_s: float) -> float:
    """Returns how long a motion is judged for."""
    return ahead_s + BEYOND_S


def _clearance(threats: Sequence[Mover], way: Sequence[Point], enough_m: float) -> tuple[float, float]:
    """Returns the least gap on the way, and the mean one, each gap counting at most as what is enough.

    Where a collision seems certain, the mean still tells a robot that gets out of the way from one that runs along it.
    """
    gaps = [
        min(enough_m, *(threat.gap_m(point, number * SAMPLE_S) for threat in threats))
        for number, point in enumerate(way)
    ]
    return min(gaps), sum(gaps) / len(gaps)


def straight_motions(
    model: RobotModel, pose: Pose, length_m: float, unsupported: Collection[str]
) -> Iterator[tuple[SkillCall, Point, Skill]]:
    """Yields the straight motions inside the fence, as near to a length as their skills allow, with where they end."""
    for skill in model.skills.values():
        number = skill.number
        if not isinstance(skill.effect, Translate) or number is None or len(skill.arguments) > 1:
            continue
        if skill.name in unsupported:
            continue
        least, most = number.minimum or 0.0, number.maximum or 0.0
        amount = min(max(length_m / skill.effect.unit_m, least), most)
        amount = float(max(math.floor(amount), math.ceil(least))) if number.is_integer else amount
        if abs(amount * skill.effect.unit_m) < JUST_M:
            continue
        end = moved(pose, skill.effect, amount)
        if model.geofence is None or model.geofence.contains(*end):
            yield SkillCall(skill.name, (amount,)), end, skill


def _way_of(skill: Skill, pose: Pose, end: Point, for_s: float) -> list[Point]:
    """Returns the way of a robot that begins a motion now, as its duration model has it."""
    begin = (pose.x_m, pose.y_m, pose.z_m)
    length_m = math.dist(begin, end)
    latency_s, total_s, ramp = 0.5, length_m / 0.5, 1.0 / 3.0
    if isinstance(skill.duration, Trapezoid):
        speed, acceleration = skill.duration.speed.value, skill.duration.acceleration.value
        latency_s, total_s = skill.duration.latency_s.value, trap(length_m, speed, acceleration)
        ramp = min(speed / acceleration, math.sqrt(length_m / acceleration)) / total_s
    times_s = (number * SAMPLE_S - latency_s for number in range(int(for_s / SAMPLE_S) + 1))
    return [_between(begin, end, travelled_share(min(1.0, max(0.0, t / total_s)), ramp)) for t in times_s]


def _between(begin: Point, end: Point, share: float) -> Point:
    x, y, z = (b + share * (e - b) for b, e in zip(begin, end, strict=True))
    return x, y, z


def moved(pose: Pose, effect: Translate, amount: float) -> Point:
    """Returns where a straight motion leads."""
    yaw = math.radians(pose.yaw_deg)
    x, y, z = (component * amount * effect.unit_m for component in effect.axis)
    dx, dy = x * math.cos(yaw) - y * math.sin(yaw), x * math.sin(yaw) + y * math.cos(yaw)
    return pose.x_m + dx, pose.y_m + dy, pose.z_m + z
