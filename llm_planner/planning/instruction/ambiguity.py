# SPDX-License-Identifier: Apache-2.0
"""Things of which an instruction does not say which one: a plan that acts on one of them has guessed."""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from llm_planner.core.skill import SkillCall
from llm_planner.planning.instruction.names import acted_on
from llm_planner.planning.instruction.shown_scene import ambiguous_things
from llm_planner.planning.instruction.verdict import PlanCheck, Verdict
from llm_planner.robots.model import RobotModel

_MAX_SHOWN = 4


@dataclass(slots=True)
class AmbiguityCheck(PlanCheck):
    """Follows one plan call by call.

    Args:
        model: Of the robot: which arguments are names, and which skills act.
        instruction: As it came; untrusted.
        scene: Likewise.
    """

    model: RobotModel
    instruction: str
    scene: str
    _rivals: Mapping[str, frozenset[str]] = field(init=False)

    def __post_init__(self) -> None:
        self._rivals = ambiguous_things(self.scene, self.instruction, self.model)

    def feed(self, calls: Iterable[SkillCall], _text: str, /) -> Verdict:
        """Returns how the plan stands with the calls of another statement."""
        names = (name for call in calls for name in acted_on(self.model, call))
        guessed = next((name for name in names if name in self._rivals), "")
        if not guessed:
            return Verdict.EXPLAINED
        shown = heapq.nsmallest(_MAX_SHOWN, self._rivals[guessed])
        more = " or another one" if len(self._rivals[guessed]) > _MAX_SHOWN else ""
        return self.contradicted(f"{' or '.join(shown)}{more} may be meant")

    def restarted(self) -> "AmbiguityCheck":
        """Returns the check of a replan: what is meant is still not said."""
        return self
