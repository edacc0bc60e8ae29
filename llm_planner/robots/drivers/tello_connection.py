# SPDX-License-Identifier: Apache-2.0
"""The first words with a Tello: SDK mode, state stream, speed; nothing flies."""

import time
from collections.abc import Callable

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.robots.drivers import tello_commands
from llm_planner.robots.drivers.tello_line import FALLEN_M, Command, TelloLine, Transport
from llm_planner.robots.effect import TakeOff, Translate
from llm_planner.robots.model import Pose, RobotModel, Skill, trapezoids

POLL_S = 0.005
TIMEOUT_S = 20.0  # a drone or an emulator that is still starting
STATE_LIMIT_S = 5.0
LEAST_CM_S, MOST_CM_S = 10, 100  # published: Tello SDK 2.0
LEAST_BATTERY_PERCENT = 20.0  # to take off by itself: assumed
TAKE_OFF_M = (0.5, 1.5)  # where a take-off may end, which has no height to set: assumed


def flight_speed_cm_s(model: RobotModel) -> int:
    """Returns the speed to fly with: that of the duration models, so that they hold; a Tello may be unable to."""
    speeds = [
        trapezoid.speed.value
        for skill in model.skills.values()
        if isinstance(skill.effect, Translate)
        for trapezoid in trapezoids(skill.duration)
    ]
    speed_m_per_s = min(speeds, default=model.speed_limits.translation_m_per_s)
    return min(MOST_CM_S, round(100.0 * speed_m_per_s))


def require_flyable(model: RobotModel) -> None:
    """Refuses a robot model that promises what no Tello does.

    Raises:
        PlannerError: INVALID_CONFIG.
    """
    problem = next(filter(None, map(_skill_problem, model.skills.values())), "")
    if flight_speed_cm_s(model) < LEAST_CM_S:
        problem = f"its speed is {flight_speed_cm_s(model)} cm/s, and a Tello flies {LEAST_CM_S} cm/s at least"
    if problem:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"robot model {model.name!r} fits no Tello: {problem}")


def _skill_problem(skill: Skill) -> str:
    effect, number = skill.effect, skill.number
    if isinstance(effect, TakeOff) and not TAKE_OFF_M[0] <= effect.altitude_m <= TAKE_OFF_M[1]:
        return f"{skill.name}: altitude_m is {effect.altitude_m:g}, and a Tello rises to about 1 m"
    if isinstance(effect, Translate) and number is not None and number.minimum is not None:
        least_cm = round(100.0 * abs(number.minimum) * effect.unit_m * max(map(abs, effect.axis)))
        if least_cm < tello_commands.LEAST_CM:
            return f"{skill.name}: minimum is {least_cm} cm, and a Tello flies no way below 20 cm"
    return ""


class TelloConnection:
    """A drone that listens. Connecting blocks, for some seconds at most; nothing afterwards does.

    Args:
        model: Of the drone.
        transport: To it; closed if it does not answer.
        clock: Source of monotonic time.
        time_scale: How much faster than real time an emulated drone runs.
        takes_off: Whether it takes off next; a drone that is in the air does not.
        timeout_s: Timeout for a drone that does not answer, in the clock's time.
        sleep: Waits for a number of seconds.

    Attributes:
        line: To the drone.
        pose: Where it is: home, at the height that it reports.
        speed_cm_s: What it was told.

    Raises:
        PlannerError: ROBOT_SILENT or SKILL_FAILED, naming what the drone did not do; INVALID_CONFIG for a model that
            fits no Tello.
    """

    def __init__(
        self,
        model: RobotModel,
        transport: Transport,
        *,
        clock: Clock,
        time_scale: float = 1.0,
        takes_off: bool = False,
        timeout_s: float = TIMEOUT_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock, self._time_scale = clock, time_scale
        self._sleep = sleep
        self.line = TelloLine(transport)
        self.speed_cm_s = flight_speed_cm_s(model)
        try:
            require_flyable(model)
            self._greet(timeout_s * time_scale)
            if takes_off:
                self._require_power()
        except BaseException:
            self.line.close()
            raise
        height_m = self._height_m()
        self.pose = Pose(z_m=height_m if height_m > FALLEN_M else 0.0)

    def _greet(self, timeout_s: float) -> None:
        self._do(tello_commands.enter_sdk_mode(timeout_s), "is it switched on, and is this machine in its network?")
        until_s = self._now_s() + STATE_LIMIT_S
        while self.line.telemetry.last is None:
            if self._now_s() > until_s:
                raise PlannerError(
                    ErrorCode.ROBOT_SILENT, "the Tello answers, but sends no state; let UDP port 8890 through"
                )
            self._wait()
        for command in tello_commands.set_speed(self.speed_cm_s):
            self._do(command, "it does not keep the speed; switch it off and on")

    def _require_power(self) -> None:
        state = self.line.telemetry.last
        if state is None or self._height_m() > FALLEN_M or state.battery_percent >= LEAST_BATTERY_PERCENT:
            return
        percent = state.battery_percent
        raise PlannerError(ErrorCode.SKILL_FAILED, f"the Tello's battery is at {percent:g} %; charge it")

    def _do(self, command: Command, advice: str) -> None:
        self.line.begin(command, self._now_s())
        while self.line.is_busy:
            self._wait()
        if not self.line.ending.is_success:
            raise PlannerError(ErrorCode.ROBOT_SILENT, f"Tello: {self.line.ending.reason}; {advice}")

    def _wait(self) -> None:
        self._sleep(POLL_S)
        self.line.poll(self._now_s())

    def _now_s(self) -> float:
        return self._clock.now_s() * self._time_scale

    def _height_m(self) -> float:
        state = self.line.telemetry.last
        return 0.0 if state is None else state.height_m
