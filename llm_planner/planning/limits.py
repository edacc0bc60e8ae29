# SPDX-License-Identifier: Apache-2.0
"""How large a plan may be. Grammar and safety gate share these numbers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLimits:
    """Bounds on one plan, whatever the robot.

    Attributes:
        max_calls: Skill calls in the worst case: loops multiplied, every conditional taken.
        max_loop_count: Repetitions of one loop.
        max_depth: Blocks inside one another.
        max_variable: Greatest index of a variable.
    """

    max_calls: int = 500
    max_loop_count: int = 100
    max_depth: int = 3
    max_variable: int = 99


DEFAULT_LIMITS = PlanLimits()
