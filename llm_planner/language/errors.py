# SPDX-License-Identifier: Apache-2.0
"""The error of a plan that is not MiniSpec."""

from llm_planner.core.errors import ErrorCode, PlannerError


class PlanSyntaxError(PlannerError):
    """The text is not MiniSpec.

    Args:
        position: Index of the offending character, from 0.
        problem: What is wrong there.
    """

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(ErrorCode.PLAN_SYNTAX, f"the plan is not MiniSpec: at character {position}: {problem}")
        self.position = position
        self.problem = problem

    def __reduce__(self) -> tuple[type["PlanSyntaxError"], tuple[int, str]]:  # type: ignore[override]
        return PlanSyntaxError, (self.position, self.problem)
