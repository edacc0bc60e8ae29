# SPDX-License-Identifier: Apache-2.0
"""A request whose output length is only known to lie in an interval: plain numbers."""

from dataclasses import dataclass

from llm_planner.core.errors import ErrorCode, PlannerError


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A request as a policy sees it: its output length o is only known to lie in an interval.

    Attributes:
        job_id: Unique.
        prompt_tokens: s: what it holds besides its output; 0 or more.
        lower_tokens: l: shortest output, >= 1.
        upper_tokens: u: longest output.
    """

    job_id: int
    prompt_tokens: int
    lower_tokens: int
    upper_tokens: int

    def __post_init__(self) -> None:
        numbers = (self.prompt_tokens, self.lower_tokens, self.upper_tokens)
        if not all(isinstance(number, int) for number in numbers):
            raise PlannerError(
                ErrorCode.INVALID_CONFIG, f"job {self.job_id}: {numbers} must be whole numbers of tokens"
            )
        if self.prompt_tokens < 0 or self.lower_tokens < 1 or self.lower_tokens > self.upper_tokens:
            raise PlannerError(
                ErrorCode.INVALID_CONFIG,
                f"job {self.job_id}: a prompt of {self.prompt_tokens} tokens and outputs from {self.lower_tokens} to "
                f"{self.upper_tokens}; it takes 0 <= prompt and 1 <= lower <= upper",
            )
