# SPDX-License-Identifier: Apache-2.0
"""The worked examples that a chat model reads: those of the robot's own file, and what bundled robots have in common.

An example teaches what the planner would execute or it is left out: a plan whose skills this robot lacks, or which the
safety gate refuses, is none.
"""

from collections.abc import Iterator
from functools import cache

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.language.parser import parse
from llm_planner.language.syntax import Unclear
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.model import Example, RobotModel, Skill


def usable_examples(model: RobotModel) -> tuple[Example, ...]:
    """Returns the examples for a robot model: its own first, then those of bundled models that hold for it, too.

    An example of another robot holds if all of its skills are the same here, in name, arguments, limits and effect.
    """
    own = [example for example in model.examples if skills_of(model, example) is not None]
    known = {example.instruction for example in model.examples}
    return (*own, *(example for example in _borrowed(model) if example.instruction not in known))


def skills_of(model: RobotModel, example: Example) -> frozenset[str] | None:
    """Returns the names of the skills that an example is about; None if it does not hold for the robot."""
    try:
        return _judged(model, example)
    except PlannerError:
        return None


def left_out(model: RobotModel) -> list[str]:
    """Returns a line for each of the robot's own examples that no model reads: which one, and why."""
    lines = []
    for example in model.examples:
        try:
            _judged(model, example)
        except PlannerError as error:
            lines.append(f"example {example.instruction!r} is left out: {error.message}")
    return lines


def _judged(model: RobotModel, example: Example) -> frozenset[str]:
    """Returns the names of an example's skills; raises why it does not hold for the robot."""
    for name in example.needs:
        if name not in model.skills:
            raise PlannerError(ErrorCode.UNKNOWN_SKILL, f"needs: {model.name} has no skill {name!r}")
    gate = SafetyGate(model, allowed=model.urgent_skills if example.is_urgent else None)
    calls = [call for statement in parse(example.plan) for call in gate.admit(statement)]
    return frozenset(example.needs).union(call.name for call in calls)


def _borrowed(model: RobotModel) -> Iterator[Example]:
    if any(other.name == model.name for other in _bundled()):
        return
    for other in _bundled():
        for example in other.examples:
            skills = skills_of(other, example) or frozenset()
            is_unclear = not skills and isinstance(parse(example.plan)[0], Unclear)
            is_same = bool(skills) and all(_is_same(other.skills[name], model.skills.get(name)) for name in skills)
            if (is_unclear or is_same) and skills_of(model, example) is not None:
                yield example


def _is_same(skill: Skill, other: Skill | None) -> bool:
    return other is not None and _meaning(skill) == _meaning(other)


def _meaning(skill: Skill) -> tuple[object, ...]:
    arguments = [(a.type, a.minimum, a.maximum, a.is_integer, a.unit) for a in skill.arguments]
    return skill.effect, skill.returns, arguments


@cache
def _bundled() -> tuple[RobotModel, ...]:
    library = RobotLibrary()
    return tuple(map(library.get, library.names()))
