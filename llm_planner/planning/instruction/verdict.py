# SPDX-License-Identifier: Apache-2.0
"""What code says of a plan that a model wrote for an instruction."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from llm_planner.core.skill import SkillCall


class Verdict(Enum):
    """How a plan so far stands to its instruction."""

    EXPLAINED = "explained"
    DOUBTFUL = "doubtful"  # what follows may explain it
    CONTRADICTED = "contradicted"


@dataclass(slots=True)
class PlanCheck(ABC):
    """Holds one plan against the words of its instruction, statement by statement.

    Attributes:
        problem: Why the plan contradicts its instruction; empty if it does not.
    """

    problem: str = field(default="", init=False)

    @abstractmethod
    def feed(self, calls: Iterable[SkillCall], text: str, /) -> Verdict:
        """Returns how the plan stands with another statement.

        Args:
            calls: Of the statement.
            text: The statement in MiniSpec.
        """

    def contradicted(self, problem: str) -> Verdict:
        """Returns that the plan contradicts its instruction, and remembers why."""
        self.problem = problem
        return Verdict.CONTRADICTED

    def finish(self) -> Verdict:
        """Returns how the whole plan stands."""
        return Verdict.EXPLAINED

    def restarted(self) -> "PlanCheck | None":
        """Returns the check of a replan after a failure.

        None by default: another way begins where the first one failed, and may need what was not asked for.
        """
        return None
