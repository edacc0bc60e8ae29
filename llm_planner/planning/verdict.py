# SPDX-License-Identifier: Apache-2.0
"""What code says of a plan that a model wrote for an instruction."""

from collections.abc import Iterable
from enum import Enum
from typing import Protocol

from llm_planner.core.skill import SkillCall


class Verdict(Enum):
    """How a plan so far stands to its instruction."""

    EXPLAINED = "explained"
    DOUBTFUL = "doubtful"  # what follows may explain it
    CONTRADICTED = "contradicted"


class PlanCheck(Protocol):
    """Holds one plan against the words of its instruction, statement by statement."""

    @property
    def problem(self) -> str:
        """Why the plan contradicts its instruction; empty if it does not."""
        ...

    def feed(self, calls: Iterable[SkillCall], text: str, /) -> Verdict:
        """Returns how the plan stands with another statement.

        Args:
            calls: Of the statement.
            text: The statement in MiniSpec.
        """
        ...

    def finish(self) -> Verdict:
        """Returns how the whole plan stands."""
        ...

    def restarted(self) -> "PlanCheck | None":
        """Returns the check of a replan after a failure; None if another way may need what was not asked for."""
        ...
