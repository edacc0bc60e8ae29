# SPDX-License-Identifier: Apache-2.0
"""What every robot driver does: one skill call at a time, in ticks, never blocking."""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from llm_planner.core.skill import ArgumentType, SkillCall, Value
from llm_planner.robots.model import Argument, RobotModel, Skill


class SkillStatus(Enum):
    """Life of one call."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SkillResult:
    """State of a call: its value once it succeeded, the reason once it failed.

    Attributes:
        is_permanent: Whether it failed for good: no other plan can help.
    """

    status: SkillStatus
    value: Value | None = None
    reason: str = ""
    is_permanent: bool = False


class SkillDriver(Protocol):
    """Executes skill calls on a robot, real or kinematic; ``name`` of a call is never an alias."""

    def start(self, call: SkillCall, now_s: float) -> None:
        """Begins a call; the one before must have ended."""
        ...

    def tick(self, now_s: float) -> SkillResult:
        """Returns how the call stands; the same answer again and again once it has ended."""
        ...

    def halt(self, now_s: float) -> None:
        """Ends the call at once, where the robot is; it counts as failed."""
        ...


class VirtualDriver(SkillDriver, Protocol):
    """A driver that knows when a call will be over, so that virtual time can jump there."""

    @property
    def model(self) -> RobotModel:
        """The robot's model."""
        ...

    @property
    def end_s(self) -> float | None:
        """When the running call will be over; None when idle."""
        ...


class SkillFailedError(Exception):
    """A skill cannot be carried out; the message is the reason."""


class PermanentFailureError(SkillFailedError):
    """No other plan can help: this robot cannot do it at all; the message is the reason."""


class PlanFailedError(PermanentFailureError):
    """The plan itself says that what was asked cannot be achieved; the message is the reason."""


def skills_with(model: RobotModel, effects: tuple[type, ...]) -> frozenset[str]:
    """Returns the skills of a model that have one of these effects."""
    return frozenset(name for name, skill in model.skills.items() if isinstance(skill.effect, effects))


def failed(failure: SkillFailedError) -> SkillResult:
    """Returns the result of a call that failed so."""
    is_permanent = isinstance(failure, PermanentFailureError)
    return SkillResult(SkillStatus.FAILED, reason=str(failure), is_permanent=is_permanent)


def argument_problem(skill: Skill, arguments: tuple[Value, ...]) -> str:
    """Returns what is wrong with evaluated arguments, or an empty string.

    The gate has judged what it could read; a value that is only known on the robot is judged here.
    """
    if len(arguments) != len(skill.arguments):
        return f"{skill.name} takes {len(skill.arguments)} arguments, got {len(arguments)}"
    problems = (_value_problem(a, v) for a, v in zip(skill.arguments, arguments, strict=True))
    return next((f"{skill.name}: {problem}" for problem in problems if problem), "")


def _value_problem(argument: Argument, value: Value) -> str:
    if argument.type is not ArgumentType.NUMBER:
        if not isinstance(value, str):
            return f"{argument.name} must be a name or text, got {value}"
        return f"{argument.name} is too long" if len(value) > argument.max_length else ""
    if isinstance(value, bool) or not isinstance(value, float | int):
        return f"{argument.name} must be a number, got {value!r}"
    if argument.minimum is None or argument.maximum is None or not argument.minimum <= value <= argument.maximum:
        return f"{argument.name} = {value:g} is outside [{argument.minimum}, {argument.maximum}]"
    return f"{argument.name} = {value:g} must be whole" if argument.is_integer and value != int(value) else ""
