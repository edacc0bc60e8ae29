# SPDX-License-Identifier: Apache-2.0
"""The body of an emulated Tello: it moves by the duration models of its robot model, at the speed it was told."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace

from llm_planner.robots.effect import Land, TakeOff, Translate, Turn
from llm_planner.robots.model import Pose, RobotModel, Skill, trapezoids
from llm_planner.robots.motion import Motion, Timing, lengths_m, sample_timing, wrapped_deg
from llm_planner.robots.timing import Parameter, Source
from llm_planner.sim.emulator.curve import Point

FLOOR_M = 1e-6
DEFAULT_SPEED_CM_S = 100
FLIP_S = 1.5  # assumed
STICK_CM_S, STICK_DEG_S = 1.0, 1.0  # of velocity per unit of `rc`: assumed


class Flight:
    """Where the drone is and how it moves. Time may only go forward.

    Args:
        model: Gives the times; its geofence is no business of the drone, which has none.
        rng: Source of the noise of all durations.
        pose: Where to start.
    """

    def __init__(self, model: RobotModel, rng: random.Random, pose: Pose) -> None:
        self._model = model
        self._rng = rng
        self._pose = pose
        self._motions: tuple[Motion, ...] = ()
        self._over_s = 0.0
        self._now_s = 0.0
        self._stick = (0.0, 0.0, 0.0, 0.0)  # left to right, back to front, down to up, yaw to the right
        self._speed_m_per_s = (0.0, 0.0, 0.0)
        self.speed_cm_s = DEFAULT_SPEED_CM_S

    @property
    def pose(self) -> Pose:
        """As of the last ``advance``."""
        return self._pose

    @property
    def speed_m_per_s(self) -> tuple[float, float, float]:
        """Of the body in its own frame, as of the last ``advance``."""
        return self._speed_m_per_s

    @property
    def is_flying(self) -> bool:
        """Whether it is off the floor."""
        return self._pose.z_m > FLOOR_M

    @property
    def is_moving(self) -> bool:
        """Whether a motion has begun that is not over."""
        return bool(self._motions)

    def advance(self, now_s: float) -> bool:
        """Moves to where it is at ``now_s``; returns whether a motion has come to its end."""
        before, elapsed_s = self._pose, now_s - self._now_s
        self._now_s = now_s
        begun = [motion for motion in self._motions if motion.start_s <= now_s]
        if begun:
            self._pose = begun[-1].pose_at(now_s)
        elif any(self._stick) and self.is_flying:
            self._pose = self._steered(elapsed_s)
        if elapsed_s > 0:
            self._speed_m_per_s = _velocity(before, self._pose, elapsed_s)
        is_over = self.is_moving and now_s >= self._over_s
        if is_over:
            self._motions = ()
        return is_over

    def take_off(self, now_s: float) -> None:
        """Begins to rise to the height of the model's take-off skill."""
        skill = self._skill(TakeOff)
        altitude_m = skill.effect.altitude_m if isinstance(skill.effect, TakeOff) else 1.0
        self._begin(skill, replace(self._pose, z_m=altitude_m), 0.0, now_s)

    def land(self, now_s: float) -> None:
        """Begins to sink to the floor."""
        self._begin(self._skill(Land), replace(self._pose, z_m=0.0), 0.0, now_s)

    def move(self, body_m: Sequence[Point], now_s: float, speed_cm_s: float | None = None) -> None:
        """Begins to move along points in the body frame (x forward, y left, z up); never into the floor."""
        *via, target = (self._ahead(point) for point in body_m)
        self._begin(self._skill(Translate), target, 0.0, now_s, speed_cm_s or self.speed_cm_s, tuple(via))

    def _ahead(self, body_m: Point) -> Pose:
        """Returns a point of the body frame in the frame of the floor."""
        x, y, z = body_m
        yaw = math.radians(self._pose.yaw_deg)
        return replace(
            self._pose,
            x_m=self._pose.x_m + x * math.cos(yaw) - y * math.sin(yaw),
            y_m=self._pose.y_m + x * math.sin(yaw) + y * math.cos(yaw),
            z_m=max(2 * FLOOR_M, self._pose.z_m + z),
        )

    def flip(self, now_s: float) -> None:
        """Begins to turn over where it is; the pose says nothing of it."""
        self.stop(now_s)
        self._over_s = now_s + FLIP_S
        self._motions = (Motion(now_s, self._over_s, self._pose, self._pose),)

    def turn(self, turn_deg: float, now_s: float) -> None:
        """Begins to turn, to the left if positive."""
        self._begin(self._skill(Turn), self._pose, turn_deg, now_s)

    def steer(self, stick: tuple[float, float, float, float]) -> None:
        """Flies by velocities until it is told otherwise; what it was doing goes first."""
        self._stick = stick

    def stop(self, now_s: float) -> None:
        """Stays where it is at ``now_s``."""
        self.advance(now_s)
        self._motions, self._stick = (), (0.0, 0.0, 0.0, 0.0)
        self._speed_m_per_s = (0.0, 0.0, 0.0)

    def fall(self) -> None:
        """Motors off: it lies on the floor below."""
        self._motions, self._stick = (), (0.0, 0.0, 0.0, 0.0)
        self._pose = replace(self._pose, z_m=0.0)

    def _begin(
        self,
        skill: Skill,
        target: Pose,
        turn_deg: float,
        now_s: float,
        speed_cm_s: float | None = None,
        via: tuple[Pose, ...] = (),
    ) -> None:
        self.stop(now_s)
        known = trapezoids(skill.duration)
        trapezoid = known[0] if known else None
        if trapezoid is not None and speed_cm_s is not None:
            trapezoid = replace(trapezoid, speed=Parameter(value=speed_cm_s / 100.0, source=Source.ASSUMED))
        begin = self._pose
        way_m = sum(lengths_m((begin, *via, target)))
        timing: Timing = sample_timing(skill, trapezoid, 0.0, abs(turn_deg) or way_m, now_s, self._rng)
        self._motions = (timing.turn(begin, turn_deg) if turn_deg else timing.straight(begin, target, via),)
        self._over_s = timing.over_s

    def _skill(self, effect: type) -> Skill:
        return next(skill for skill in self._model.skills.values() if isinstance(skill.effect, effect))

    def _steered(self, elapsed_s: float) -> Pose:
        right, front, up, clockwise = self._stick
        way_m = [share * STICK_CM_S / 100.0 * elapsed_s for share in (front, -right, up)]
        yaw = math.radians(self._pose.yaw_deg)
        return Pose(
            x_m=self._pose.x_m + way_m[0] * math.cos(yaw) - way_m[1] * math.sin(yaw),
            y_m=self._pose.y_m + way_m[0] * math.sin(yaw) + way_m[1] * math.cos(yaw),
            z_m=max(2 * FLOOR_M, self._pose.z_m + way_m[2]),
            yaw_deg=wrapped_deg(self._pose.yaw_deg - clockwise * STICK_DEG_S * elapsed_s),
        )


def _velocity(begin: Pose, end: Pose, elapsed_s: float) -> tuple[float, float, float]:
    yaw = math.radians(end.yaw_deg)
    dx, dy = (end.x_m - begin.x_m) / elapsed_s, (end.y_m - begin.y_m) / elapsed_s
    along, left = dx * math.cos(yaw) + dy * math.sin(yaw), dy * math.cos(yaw) - dx * math.sin(yaw)
    return along, left, (end.z_m - begin.z_m) / elapsed_s
