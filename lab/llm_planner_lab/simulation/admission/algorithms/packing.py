# SPDX-License-Identifier: Apache-2.0
"""What the policies of the paper have in common: jobs start in some order as long as Eq. (3) holds."""

import heapq
import random
from abc import ABC, abstractmethod

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.scheduling.admission.job import Job
from llm_planner.scheduling.admission.memory import FutureMemory
from llm_planner_lab.simulation.admission.algorithms.interface import Decision

Place = tuple[float, ...]


class Packing(ABC):
    """Starts waiting jobs in order until the first does not fit, each with an assumed output length.

    The paper selects the largest set in order; no job overtakes the first that does not fit: with prompts of
    different lengths, overtaking would starve the long ones.

    Args:
        capacity_tokens: M.
        rng: Breaks ties.
    """

    name = ""
    knows_lengths = False

    def __init__(self, capacity_tokens: int, rng: random.Random) -> None:
        self.memory = FutureMemory(capacity_tokens)
        self.rng = rng
        self.jobs: dict[int, Job] = {}
        self._waiting: list[tuple[Place, float, int]] = []

    @abstractmethod
    def assumed_tokens(self, job: Job) -> int:
        """Returns the output length that Eq. (3) counts on; >= 1."""

    @abstractmethod
    def place(self, job: Job) -> Place:
        """Returns where a job that waits stands in line, the smallest first; ties are broken at random."""

    def give_way(self, step: int) -> list[int]:
        """Returns running jobs that are cancelled, out of ``memory`` and in line again."""
        return []

    def submit(self, job: Job) -> None:
        """Puts a job in line.

        Raises:
            PlannerError: OUT_OF_MEMORY if it can never run, with the memory that it needs.
        """
        needed_tokens = job.prompt_tokens + self.assumed_tokens(job)
        if needed_tokens > self.memory.capacity_tokens:
            raise PlannerError(
                ErrorCode.OUT_OF_MEMORY,
                f"{self.name} counts on {needed_tokens} tokens for job {job.job_id}, the memory holds "
                f"{self.memory.capacity_tokens}; give it {needed_tokens} or more",
            )
        self.jobs[job.job_id] = job
        self.enqueue(job)

    def enqueue(self, job: Job) -> None:
        """Puts a job in line that holds no memory."""
        heapq.heappush(self._waiting, (self.place(job), self.rng.random(), job.job_id))

    def decide(self, step: int) -> Decision:
        """Returns which jobs are cancelled, and which start."""
        self.memory.advance(step)
        cancelled = self.give_way(step)
        started: list[int] = []
        while self._waiting:
            job = self.jobs[self._waiting[0][2]]
            output_tokens = self.assumed_tokens(job)
            if not self.memory.fits(job.prompt_tokens, step, output_tokens):
                break
            heapq.heappop(self._waiting)
            self.memory.add(job.job_id, job.prompt_tokens, step, output_tokens)
            self.started(job, step)
            started.append(job.job_id)
        return Decision(start=tuple(started), cancel=tuple(cancelled))

    def started(self, job: Job, step: int) -> None:  # noqa: B027 - a hook: most policies have nothing to note
        """Notes that a job starts at ``step``."""

    def finish(self, job_id: int) -> None:
        """Forgets a job that has ended."""
        self.memory.remove(job_id)
        del self.jobs[job_id]
