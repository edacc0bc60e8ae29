# SPDX-License-Identifier: Apache-2.0
"""Motion through time: poses between two poses, and how long the way between them takes."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from llm_planner.robots.duration import noise_s, sample_s, trap
from llm_planner.robots.model import Pose, Skill
from llm_planner.robots.timing import Trapezoid


@dataclass(frozen=True, slots=True)
class Motion:
    """From rest to rest in a straight line, turning evenly; or through the points of ``via``, which do not slow it.

    Attributes:
        ramp: Share of the time spent accelerating, and again braking: 0.5 for a triangle.
    """

    start_s: float
    end_s: float
    begin: Pose
    end: Pose
    turn_deg: float = 0.0
    ramp: float = 1.0 / 3.0
    via: tuple[Pose, ...] = ()

    def pose_at(self, now_s: float) -> Pose:
        """Returns the pose at a time; before and after, the first and last one."""
        if now_s >= self.end_s:
            return self.end
        elapsed = max(0.0, now_s - self.start_s) / (self.end_s - self.start_s)
        share = travelled_share(elapsed, self.ramp)
        begin, end, leg_share = self._leg_at(share)
        return Pose(
            x_m=begin.x_m + leg_share * (end.x_m - begin.x_m),
            y_m=begin.y_m + leg_share * (end.y_m - begin.y_m),
            z_m=begin.z_m + leg_share * (end.z_m - begin.z_m),
            yaw_deg=wrapped_deg(self.begin.yaw_deg + share * self.turn_deg),
        )

    def _leg_at(self, share: float) -> tuple[Pose, Pose, float]:
        """Returns the leg that is being covered after a share of the whole way, and the share of that leg."""
        if not self.via:
            return self.begin, self.end, share
        poses = (self.begin, *self.via, self.end)
        legs_m = lengths_m(poses)
        left_m = share * sum(legs_m)
        for (begin, end), leg_m in zip(pairwise(poses), legs_m, strict=True):
            if left_m < leg_m:
                return begin, end, left_m / leg_m
            left_m -= leg_m
        return self.end, self.end, 0.0


def lengths_m(poses: Sequence[Pose]) -> list[float]:
    """Returns the distance from each pose to the next."""
    points = [(pose.x_m, pose.y_m, pose.z_m) for pose in poses]
    return [math.dist(begin, end) for begin, end in pairwise(points)]


def travelled_share(elapsed: float, ramp: float) -> float:
    """Returns how much of the way is done after a share of the time, with a trapezoidal speed; both in [0, 1]."""
    peak = 1.0 / (1.0 - ramp)  # speed of the cruise, in ways per duration
    if elapsed < ramp:
        return peak * elapsed**2 / (2.0 * ramp)
    if elapsed > 1.0 - ramp:
        return 1.0 - peak * (1.0 - elapsed) ** 2 / (2.0 * ramp)
    return peak * (elapsed - ramp / 2.0)


@dataclass(frozen=True, slots=True)
class Timing:
    """When a motion starts and ends, and when the skill is over; ``ramp`` as in ``Motion``."""

    start_s: float
    end_s: float
    over_s: float
    ramp: float = 1.0 / 3.0

    def straight(self, begin: Pose, end: Pose, via: tuple[Pose, ...] = ()) -> Motion:
        """Returns the motion between poses of the same yaw."""
        return Motion(self.start_s, self.end_s, begin, end, ramp=self.ramp, via=via)

    def turn(self, begin: Pose, turn_deg: float) -> Motion:
        """Returns a turn on the spot, counter-clockwise if positive."""
        end = replace(begin, yaw_deg=wrapped_deg(begin.yaw_deg + turn_deg))
        return Motion(self.start_s, self.end_s, begin, end, turn_deg, self.ramp)


def sample_timing(
    skill: Skill, trapezoid: Trapezoid | None, number: float, length: float, now_s: float, rng: random.Random
) -> Timing:
    """Returns one sample of when a motion happens if its skill starts now.

    Args:
        skill: Without a trapezoid, the motion takes as long as its duration model says.
        trapezoid: Of the motion.
        number: The call's number argument, in its own unit.
        length: Of the way, in metres or degrees.
        now_s: When the call starts.
        rng: Source of the noise.
    """
    if trapezoid is None:
        over_s = now_s + sample_s(skill, number, rng)
        return Timing(now_s, over_s, over_s)
    speed, acceleration = trapezoid.speed.value, trapezoid.acceleration.value
    start_s, length_s = now_s + trapezoid.latency_s.value, trap(length, speed, acceleration)
    ramp = min(speed / acceleration, math.sqrt(length / acceleration)) / length_s if length_s else 0.5
    return Timing(start_s, start_s + length_s, start_s + length_s + noise_s(trapezoid.noise, rng), ramp)


def wrapped_deg(angle_deg: float) -> float:
    """Returns the same direction in (-180, 180]."""
    return 180.0 - (180.0 - angle_deg) % 360.0
