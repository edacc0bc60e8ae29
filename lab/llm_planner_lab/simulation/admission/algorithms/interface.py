# SPDX-License-Identifier: Apache-2.0
"""What an admission policy is told, and what it answers: plain numbers; the clock counts steps of one token each."""

from dataclasses import dataclass
from typing import Protocol

from llm_planner.scheduling.admission.job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What changes before a step. Everything else that holds memory runs on.

    Attributes:
        start: Jobs that run from now on, from their first token.
        cancel: Running jobs that lose their memory and all their tokens.
    """

    start: tuple[int, ...] = ()
    cancel: tuple[int, ...] = ()


class AdmissionPolicy(Protocol):
    """Decides before every step which jobs hold memory. Each of these gets one token per step.

    A job that started at step p holds ``s + (t - p)`` tokens at step t; what it holds at the end of
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
