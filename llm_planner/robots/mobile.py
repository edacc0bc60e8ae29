# SPDX-License-Identifier: Apache-2.0
"""The skills of a robot that moves itself: drones and ground robots."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from llm_planner.core.skill import Value
from llm_planner.robots.body import Body, Course, Job
from llm_planner.robots.driver import SkillFailedError
from llm_planner.robots.duration import quantile_s, sample_s
from llm_planner.robots.effect import Approach, GoTo, Home, Land, Orient, Scan, TakeOff, Translate, Turn
from llm_planner.robots.model import Pose, RobotKind, trapezoids
from llm_planner.robots.motion import Motion, Timing, sample_timing, wrapped_deg
from llm_planner.robots.perception import View, seen, visible
from llm_planner.robots.timing import Quantiles
from llm_planner.robots.world import WorldObject

FLOOR_M = 1e-9
CLEAR_M = 0.2
"""Between the middle of a robot and the surface of what it approaches, at least: its body, and errors (assumed)."""


class MobileBody(Body):
    """A drone or ground robot. It never leaves its geofence: such a call fails before anything moves."""

    def _courses(self) -> dict[type, Callable[[Any, Job], Course]]:
        return {
            **super()._courses(),
            Translate: self._translate,
            Turn: self._turn,
            TakeOff: self._take_off,
            Land: self._land,
            Home: self._home,
            Orient: self._orient,
            Approach: self._approach,
            GoTo: self._go_to,
            Scan: self._scan,
        }

    def _translate(self, effect: Translate, job: Job) -> Course:
        self._require_ready()
        yaw, amount_m = math.radians(self.state.pose.yaw_deg), job.number * effect.unit_m
        x, y, z = (component * amount_m for component in effect.axis)
        dx, dy = x * math.cos(yaw) - y * math.sin(yaw), x * math.sin(yaw) + y * math.cos(yaw)
        pose = self.state.pose
        target = replace(pose, x_m=pose.x_m + dx, y_m=pose.y_m + dy, z_m=pose.z_m + z)
        return self._straight(job, self._permitted(target))

    def _turn(self, effect: Turn, job: Job) -> Course:
        self._require_ready()
        return self._turned(job, effect.direction * job.number)

    def _take_off(self, effect: TakeOff, job: Job) -> Course:
        if self._is_off_the_floor:
            return Course(job.start_s)
        return self._straight(job, self._permitted(replace(self.state.pose, z_m=effect.altitude_m)))

    def _land(self, _: Land, job: Job) -> Course:
        return self._straight(job, replace(self.state.pose, z_m=0.0))

    def _home(self, _: Home, job: Job) -> Course:
        self._require_ready()
        return self._straight(job, self._permitted(replace(self.model.start, yaw_deg=self.state.pose.yaw_deg)))

    def _orient(self, _: Orient, job: Job) -> Course:
        self._require_ready()
        return self._turned(job, self._seen(job).bearing_deg)

    def _approach(self, effect: Approach, job: Job) -> Course:
        self._require_ready()
        target = self._before(self._seen(job), effect.stop_m, effect.max_travel_m)
        return self._straight(job, self._permitted(target))

    def _go_to(self, effect: GoTo, job: Job) -> Course:
        self._require_ready()
        sight = self._seen(job)
        target = self._permitted(self._before(sight, effect.stop_m, effect.max_travel_m))
        first = self._turned(job, sight.bearing_deg)
        facing = first.motions[-1].end
        end = replace(target, yaw_deg=facing.yaw_deg)
        timing = self._timing(job, 1, _distance(facing, end), first.end_s)
        return Course(timing.over_s, (*first.motions, timing.straight(facing, end)))

    def _scan(self, effect: Scan, job: Job) -> Course:
        self._require_ready()
        pose, (look_s, step_s) = self.state.pose, self._scan_times_s(effect, job)
        now_s = job.start_s + look_s
        motions: list[Motion] = []
        found = self._found(effect, job, pose, now_s)
        while found is False and len(motions) < effect.num_steps:
            turn_deg = effect.direction * effect.step_deg
            turned = replace(pose, yaw_deg=wrapped_deg(pose.yaw_deg + turn_deg))
            motions.append(Motion(now_s, now_s + step_s, pose, turned, turn_deg))
            now_s, pose = now_s + step_s, turned
            found = self._found(effect, job, pose, now_s)
        return Course(now_s, tuple(motions), lambda: found)

    def _found(self, effect: Scan, job: Job, pose: Pose, now_s: float) -> Value:
        """Returns what a scan returns once it looks from ``pose``: false while it finds nothing."""
        wanted = job.names[0]
        by_name = effect.match == "name"
        things: Iterable[WorldObject] = self.world.find(wanted) if by_name else self.world.described(wanted)
        views = visible(self.model.camera, pose, things, now_s)
        return bool(views) if by_name or not views else views[0].object.name

    def _seen(self, job: Job) -> View:
        return seen(self.model.camera, self.state.pose, self.world, job.names[0], job.start_s)

    def _before(self, sight: View, stop_m: float, max_travel_m: float) -> Pose:
        """Returns the pose at a level distance of ``stop_m`` from an object, at the robot's own height.

        It is farther away from one at that height whose surface is less than ``CLEAR_M`` from there. An approach is
        level because only the robot knows where the object is: the safety gate then still knows the height of
        everything that follows.
        """
        pose, thing = self.state.pose, sight.object
        level_m = sight.distance_m * math.cos(math.radians(sight.elevation_deg))
        heading = math.radians(pose.yaw_deg + sight.bearing_deg)
        dx, dy = math.cos(heading), math.sin(heading)
        above_m = sight.distance_m * math.sin(math.radians(sight.elevation_deg))
        if abs(above_m) < thing.size_m[2] / 2.0 + CLEAR_M:
            sides = zip(thing.size_m[:2], (dx, dy), strict=True)
            stop_m = max(stop_m, min((size / 2.0 + CLEAR_M) / abs(d) for size, d in sides if d))
        travel_m = min(max_travel_m, max(0.0, level_m - stop_m))
        return replace(pose, x_m=pose.x_m + travel_m * dx, y_m=pose.y_m + travel_m * dy)

    def _scan_times_s(self, effect: Scan, job: Job) -> tuple[float, float]:
        """Returns how long the first look and each step take."""
        duration = job.skill.duration
        if isinstance(duration, Quantiles) and duration.step_s is not None:
            return quantile_s(duration, 0.0), duration.step_s.value
        return 0.0, sample_s(job.skill, None, self._rng) / effect.num_steps

    def _turned(self, job: Job, turn_deg: float) -> Course:
        timing = self._timing(job, 0, abs(turn_deg), job.start_s)
        return Course(timing.over_s, (timing.turn(self.state.pose, turn_deg),))

    def _straight(self, job: Job, target: Pose) -> Course:
        pose = self.state.pose
        timing = self._timing(job, 0, _distance(pose, target), job.start_s)
        return Course(timing.over_s, (timing.straight(pose, target),))

    def _timing(self, job: Job, number: int, length: float, now_s: float) -> Timing:
        """Returns the timing of one motion of a call: by the skill's trapezoid of that number, if it has one."""
        known = trapezoids(job.skill.duration)
        trapezoid = known[number] if number < len(known) else None
        return sample_timing(job.skill, trapezoid, job.number, length, now_s, self._rng)

    def _permitted(self, pose: Pose) -> Pose:
        fence = self.model.geofence
        if fence is None or not fence.contains(pose.x_m, pose.y_m, pose.z_m):
            raise SkillFailedError(f"would leave the geofence at ({pose.x_m:.2f}, {pose.y_m:.2f}, {pose.z_m:.2f}) m")
        return pose

    def _require_ready(self) -> None:
        if self.model.kind is RobotKind.DRONE and not self._is_off_the_floor:
            raise SkillFailedError("is not flying; take off first")

    @property
    def _is_off_the_floor(self) -> bool:
        return self.state.pose.z_m > FLOOR_M


def _distance(begin: Pose, end: Pose) -> float:
    return math.dist((begin.x_m, begin.y_m, begin.z_m), (end.x_m, end.y_m, end.z_m))
