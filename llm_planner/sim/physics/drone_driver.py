# SPDX-License-Identifier: Apache-2.0
"""A quadrotor as a driver: skills as straight flights, turns and looks."""

import random
from dataclasses import replace

from llm_planner.core.errors import PlannerError
from llm_planner.core.skill import Value
from llm_planner.robots.body import Job
from llm_planner.robots.driver import PermanentFailureError, SkillFailedError
from llm_planner.robots.duration import quantile_s, sample_s
from llm_planner.robots.effect import Land, Scan, Stop, TakeOff, TakePicture
from llm_planner.robots.mobile import MobileBody
from llm_planner.robots.model import Pose, RobotModel
from llm_planner.robots.perception import visible
from llm_planner.robots.shape import QuadrotorBody
from llm_planner.robots.timing import Quantiles
from llm_planner.robots.world import World, WorldObject
from llm_planner.sim.physics.driver import Course, PhysicsDriver
from llm_planner.sim.physics.port import DronePort

OUT_OF_POWER = "the battery is empty, so the drone lands; charge it"


class DroneDriver(PhysicsDriver[DronePort]):
    """Flies a drone of a physical world.

    Args:
        model: Of the drone, with a quadrotor for a body.
        port: To it.
        rng: Of how long looks and words take, which physics says nothing about.
    """

    def __init__(self, model: RobotModel, port: DronePort, rng: random.Random) -> None:
        assert isinstance(model.body, QuadrotorBody)
        self._rng = rng
        self._flight = model.body.flight
        self._is_out_of_power = self._is_stopping = self._is_landing = False
        super().__init__(model, port)

    @property
    def battery_share(self) -> float:
        """What is left in the battery."""
        return self._telemetry.battery

    def attend(self, now_s: float) -> float:
        """Lands a drone while its battery still can."""
        after_s = super().attend(now_s)
        telemetry = self._telemetry
        is_low = telemetry.battery <= self._flight.reserve_share.value
        if telemetry.is_armed and is_low and not self._is_out_of_power:
            self._port.land()
        self._is_out_of_power = is_low
        return after_s

    def halt(self, now_s: float) -> None:
        """Stops at once; a landing without power goes on."""
        super().halt(now_s)
        if self._is_out_of_power and self._telemetry.is_armed:
            self._port.land()

    def _body_at(self, pose: Pose, world: World) -> MobileBody:
        self._is_out_of_power = False
        return MobileBody(self._model, world, self._rng, pose)

    def _watch(self) -> None:
        telemetry = self._telemetry
        if self._is_stopping:  # a landing without power goes on by itself (``attend``)
            return
        if telemetry.is_crashed:
            raise PermanentFailureError(f"has crashed into {', '.join(self._touched) or 'something'}")
        if self._touched:
            raise SkillFailedError(f"has collided with {', '.join(self._touched)}")
        if telemetry.is_armed and not self._is_landing and telemetry.battery <= self._flight.reserve_share.value:
            raise PermanentFailureError(OUT_OF_POWER)

    def _fail(self, failure: SkillFailedError) -> None:
        super()._fail(failure)
        if str(failure) == OUT_OF_POWER:
            self._is_out_of_power = True
            self._port.land()

    def _course_of(self, job: Job) -> Course:
        effect = job.skill.effect
        self._is_stopping, self._is_landing = isinstance(effect, Stop), isinstance(effect, Land)
        if self._telemetry.is_crashed and not isinstance(effect, Stop):
            raise PermanentFailureError("has crashed; a person must pick it up")
        if self._is_out_of_power and not isinstance(effect, Stop | Land):
            raise PermanentFailureError(OUT_OF_POWER)
        self._look()
        match effect:
            case Stop():
                return self._hold(job)
            case TakeOff():
                return self._rise(job, effect)
            case Land():
                return self._sink(job)
            case Scan():
                return self._scan(job, effect)
            case _:
                return self._ordinary(job)

    def _hold(self, job: Job) -> Course:
        if not self._is_out_of_power:  # landing goes on
            self._port.stop()
        yield self._now_s + sample_s(job.skill, None, self._rng)
        return None

    def _rise(self, _: Job, effect: TakeOff) -> Course:
        if not self._telemetry.is_armed:
            self._port.take_off(effect.altitude_m)
            yield None
        return None

    def _sink(self, _: Job) -> Course:
        if self._telemetry.is_armed:
            self._port.land()
            while self._telemetry.is_armed:
                yield self._now_s
        return None

    def _scan(self, job: Job, effect: Scan) -> Course:
        """Looks, turns a step, looks again: at what is there then."""
        if not self._telemetry.is_armed:
            raise SkillFailedError("is not flying; take off first")
        duration = job.skill.duration
        look_s = quantile_s(duration, 0.0) if isinstance(duration, Quantiles) else 0.1
        for number in range(effect.num_steps + 1):
            yield self._now_s + look_s
            found = self._found(job, effect)
            if found is not False or number == effect.num_steps:
                return found
            turn_deg = effect.direction * effect.step_deg
            yield from self._fly(replace(self.state.pose, yaw_deg=0.0), turn_deg)
        return False

    def _found(self, job: Job, effect: Scan) -> Value:
        self._look()
        wanted, known = job.names[0], self._body.world
        things: tuple[WorldObject, ...]
        things = known.find(wanted) if effect.match == "name" else tuple(known.described(wanted))
        views = visible(self._model.camera, self.state.pose, things, self._now_s)
        return bool(views) if effect.match == "name" or not views else views[0].object.name

    def _ordinary(self, job: Job) -> Course:
        """Flies the motions that the skill means one after the other; or takes as long as a look or a word does."""
        course = self._body.plan(job)
        for motion in course.motions:
            yield from self._fly(motion.end, motion.turn_deg)
        if not course.motions:
            yield course.end_s
        if isinstance(job.skill.effect, TakePicture):
            try:
                self._port.picture()
            except PlannerError as error:
                raise SkillFailedError(error.message) from error
        self._look()
        return course.finish()

    def _fly(self, target: Pose, turn_deg: float) -> Course:
        self._target = target
        self._port.fly(target, turn_deg)
        yield None
        return None
