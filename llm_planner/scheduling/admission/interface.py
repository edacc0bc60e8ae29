# SPDX-License-Identifier: Apache-2.0
"""What an admission policy is told, and what it answers: plain numbers; the clock counts steps of one token each."""

from dataclasses import dataclass
from typing import Protocol

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What changes before a step. Everything else that holds memory runs on.

    Attributes:
        start: Jobs that run from now on: from their first token, or behind those they had when they were suspended.
        cancel: Running jobs that lose their memory and all their tokens.
        suspend: Running jobs whose memory moves to the host; they lose no token.
    """

    start: tuple[int, ...] = ()
    cancel: tuple[int, ...] = ()
    suspend: tuple[int, ...] = ()


class AdmissionPolicy(Protocol):
    """Decides before every step which jobs hold memory. Each of these gets one token per step.

    A job that started at step p with a tokens holds ``s + a + (t - p)`` tokens at step t; what it holds at the end of
    its last step, ``s + o``, counts.
    """

    @property
    def name(self) -> str:
        """Its name on the command line."""
        ...

    @property
    def knows_lengths(self) -> bool:
        """Whether it is told the true output lengths, as intervals of one value: a benchmark, not to be had live."""
        ...

    def submit(self, job: Job) -> None:
        """Takes a job in that waits from now on."""
        ...

    def decide(self, step: int) -> Decision:
        """Returns what changes before step ``step``; called once for each step, in rising order."""
        ...

    def finish(self, job_id: int) -> None:
        """Notes that a running job has generated its last token in the step before the next decision."""
        ...
