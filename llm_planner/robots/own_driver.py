# SPDX-License-Identifier: Apache-2.0
"""A driver from outside this package: ``driver:=package.module:Class``.

The class is small (``OwnDriver``). What else a robot node needs (a map, what was said, where the robot was) is
kept here.
"""

import importlib
import re
import sys
from collections.abc import Collection
from dataclasses import replace
from typing import Protocol, TypeGuard

import numpy as np

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.skill import SkillCall, Value
from llm_planner.robots.body import BodyState
from llm_planner.robots.driver import (
    PermanentFailureError,
    SkillDriver,
    SkillFailedError,
    SkillResult,
    SkillStatus,
    argument_problem,
    failed,
)
from llm_planner.robots.effect import Replan, Say
from llm_planner.robots.model import Pose, ReturnType, RobotModel, Skill
from llm_planner.robots.robot_driver import MapSight, RobotDriver, TrackMemory
from llm_planner.robots.track import Track
from llm_planner.robots.world import World

ATTENTION_S = 0.2  # between two looks at where a robot is that has nothing to do
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_METHODS = ("start", "tick", "halt", "close")


class OwnDriver(SkillDriver, Protocol):
    """What a class of your own offers. It is made by ``Class(model, address)``, which may take some seconds.

    ``start``, ``tick`` and ``halt`` never block: the thread that calls them also stops the robot. ``halt`` also comes
    while nothing runs. All times are seconds of one monotonic clock. Every skill of the model arrives at ``start``,
    with arguments of its types and ranges, except those that say something or ask for another plan. An exception halts
    the robot and ends its goal. A skill that returns something succeeds with a value of that type (a scalar of numpy
    will do): with another, or without any, it has failed.

    A class attribute ``unsupported_skills`` (names) says which skills of its model it cannot carry out: no plan has
    them then. It must not be the model's ``stop_skill``. ``close`` is also called if the node cannot begin.
    """

    @property
    def pose(self) -> Pose:
        """Where the robot is now, from its home: the safety gate counts on it."""
        ...

    def close(self) -> None:
        """Makes the robot safe and lets it go."""
        ...


def is_own(name: str) -> bool:
    """Returns whether a driver's name is that of a class."""
    return ":" in name


def load_driver(name: str, model: RobotModel, address: str) -> OwnDriver:
    """Returns a driver of the class that ``package.module:Class`` names.

    Raises:
        PlannerError: NOT_INSTALLED if it cannot be imported, INVALID_CONFIG if it is no driver or cannot be made.
    """
    if _NAME.fullmatch(name) is None:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"driver {name[:80]!r} is not of the form package.module:Class")
    module_name, _, class_name = name.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), class_name, None)
    except Exception as error:  # whatever its module does when it is imported
        message = f"driver {name} cannot be imported ({error!r:.200}); is it installed here, or on PYTHONPATH?"
        raise PlannerError(ErrorCode.NOT_INSTALLED, message) from error
    if not isinstance(found, type):
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"driver {name}: {module_name} has no class {class_name}")
    if lacking := [method for method in _METHODS if not hasattr(found, method)]:
        message = f"driver {name} lacks {', '.join(lacking)}; see docs/first_robot.md"
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    if not isinstance(unsupported := getattr(found, "unsupported_skills", ()), property):
        _check_unsupported(name, model, unsupported)
    try:
        driver: OwnDriver = found(model, address)
    except PlannerError:
        raise
    except Exception as error:  # whatever its class does
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"driver {name} cannot be made: {error!r:.200}") from error
    try:
        _check_unsupported(name, model, getattr(driver, "unsupported_skills", ()))
        _check_pose(name, driver)
    except BaseException:
        driver.close()  # it is connected
        raise
    return driver


def _check_pose(name: str, driver: OwnDriver) -> None:
    if not isinstance(getattr(driver, "pose", None), Pose):
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"driver {name} lacks pose, a llm_planner.robots.model.Pose")


def _check_unsupported(name: str, model: RobotModel, unsupported: object) -> None:
    """Refuses a driver that lists skills which its model does not have, or by which the robot stops.

    Raises:
        PlannerError: INVALID_CONFIG.
    """
    if isinstance(unsupported, str) or not (
        isinstance(unsupported, Collection) and all(isinstance(skill, str) for skill in unsupported)
    ):
        message = f"driver {name}: unsupported_skills is {unsupported!r:.80}, not a list of names of skills"
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    names = set(unsupported)
    if unknown := names - model.skills.keys():
        message = (
            f"driver {name} lists unsupported_skills that {model.name} does not have: {', '.join(sorted(unknown))}"
        )
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    if model.stop_skill in names:
        message = (
            f"driver {name} lists {model.stop_skill!r} as unsupported, by which {model.name} stops (stop_skill): carry "
            "it out, or name another stop_skill in the robot model"
        )
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)


class OwnRobot:
    """A robot with a driver of its own; it stays where it is when the world changes, only the map is another."""

    def __init__(self, model: RobotModel, driver: OwnDriver, *, takes_worlds: bool) -> None:
        self._model, self._driver = model, driver
        self.takes_worlds = takes_worlds
        self.unsupported_skills = frozenset(getattr(driver, "unsupported_skills", ()))

    def enter(self, world: World, _pose: Pose | None, epoch_s: float, /) -> RobotDriver:
        """Returns the driver with another map; where the robot is, it knows best."""
        self._driver.halt(epoch_s)
        return MappedDriver(self._model, self._driver, world, self.unsupported_skills, epoch_s)

    def close(self) -> None:
        """Makes the robot safe and lets it go."""
        self._driver.close()


class MappedDriver(MapSight, TrackMemory):
    """A driver together with a map of what there is: a ``RobotDriver``.

    Args:
        model: Of the robot.
        driver: Moves it.
        world: The map.
        unsupported: Names of skills that are refused.
        epoch_s: The driver's time at the world's time 0.
    """

    target: Pose | None = None  # a driver does not say where it is going

    def __init__(
        self, model: RobotModel, driver: OwnDriver, world: World, unsupported: Collection[str], epoch_s: float
    ) -> None:
        self.model, self.world = model, world
        self._driver, self._unsupported, self._epoch_s = driver, unsupported, epoch_s
        self.state = BodyState(driver.pose)
        self._track = Track(driver.pose)
        self._name, self._returns = "", ReturnType.NONE  # of the skill that was started last
        self._result: SkillResult | None = SkillResult(SkillStatus.SUCCEEDED)  # None while the driver is at work

    def start(self, call: SkillCall, now_s: float) -> None:
        """Begins a call. Raises RuntimeError if one is running: drivers are told one thing at a time."""
        if self._result is None:
            raise RuntimeError(f"{call.name} started while another skill runs")
        try:
            skill = self._checked(call)
        except SkillFailedError as failure:
            self._result = failed(failure)
            return
        if isinstance(skill.effect, Say | Replan):
            self.state.said += [str(call.arguments[0])] if isinstance(skill.effect, Say) else []
            self._result = SkillResult(SkillStatus.SUCCEEDED)
            return
        self._driver.start(call, self._epoch_s + now_s)
        self._result, self._name, self._returns = None, call.name, skill.returns

    def _checked(self, call: SkillCall) -> Skill:
        """Returns the skill of a call that may be carried out.

        Raises:
            SkillFailedError: For one that may not.
        """
        skill = self.model.skills.get(call.name)
        if skill is None or call.name in self._unsupported:
            raise PermanentFailureError(f"this driver does not support {call.name}")
        if problem := argument_problem(skill, call.arguments):
            raise SkillFailedError(problem)
        return skill

    def tick(self, now_s: float) -> SkillResult:
        """Goes on with the call and returns how it stands."""
        self._look(now_s)
        if self._result is not None:
            return self._result
        result = self._driver.tick(self._epoch_s + now_s)
        if result.status is SkillStatus.SUCCEEDED:
            result = self._with_value(result)
        if result.status is not SkillStatus.RUNNING:
            self._result = result = replace(result, reason=_sendable(result.reason))
        return result

    def _with_value(self, result: SkillResult) -> SkillResult:
        """Returns the result of a call with a value that its skill may return, or a failure."""
        if self._returns is ReturnType.NONE:
            return replace(result, value=None)
        value = _plain(result.value)
        if _is_of(value, self._returns):
            return replace(result, value=value)
        reason = f"{self._name} returned {value!r:.80}, which is no {self._returns.value}"
        return SkillResult(SkillStatus.FAILED, reason=reason)

    def halt(self, now_s: float) -> None:
        """Stops the robot where it is; a call that was running counts as failed."""
        self._driver.halt(self._epoch_s + now_s)
        if self._result is None:
            self._result = SkillResult(SkillStatus.FAILED, reason="halted")

    def attend(self, now_s: float) -> float:
        """Looks where the robot is; returns after how many seconds to be called again."""
        self._look(now_s)
        return ATTENTION_S

    def _look(self, now_s: float) -> None:
        if (pose := self._driver.pose) != self.state.pose:
            self.state.pose = pose
            self._track.note(now_s, pose)


def _plain(value: object) -> object:
    """Returns a scalar of numpy as Python's own, and a text as it can be sent; anything else as it is."""
    if isinstance(value, np.floating):
        return float(value)  # the item of a longdouble is one again
    value = value.item() if isinstance(value, np.generic) else value
    return _sendable(value) if isinstance(value, str) else value


def _sendable(text: str) -> str:
    """Returns a text without lone surrogates, which no message can hold."""
    return text.encode(errors="replace").decode()


def _is_of(value: object, kind: ReturnType) -> TypeGuard[Value]:
    """Returns whether a skill that returns this type may return a value."""
    if kind is ReturnType.NUMBER and isinstance(value, int | float):
        return not isinstance(value, bool) and abs(value) <= sys.float_info.max
    if kind is ReturnType.TEXT:
        return isinstance(value, str) or value is False
    return kind is ReturnType.BOOLEAN and isinstance(value, bool)
