# SPDX-License-Identifier: Apache-2.0
"""Skills that a request names, as its robot model calls them."""

from collections.abc import Iterable

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.robots.model import RobotModel


def skill_names(model: RobotModel, spellings: Iterable[str], field: str) -> tuple[str, ...]:
    """Returns the names of skills that were given by name or alias.

    Args:
        model: Has them.
        spellings: From any client.
        field: Where they stood.

    Raises:
        PlannerError: INVALID_ARGUMENT for what names no skill: a limit that is not understood limits nothing.
    """
    found = {spelling: model.skill(spelling) for spelling in spellings}
    if unknown := sorted(spelling for spelling, skill in found.items() if skill is None):
        known = ", ".join(
            f"{skill.name} ({skill.alias})" if skill.alias else skill.name for skill in model.skills.values()
        )
        what = f"{field}: {model.name} has no skill {', '.join(unknown)}; it has {known}"
        raise PlannerError(ErrorCode.INVALID_ARGUMENT, what)
    return tuple(skill.name for skill in found.values() if skill is not None)
