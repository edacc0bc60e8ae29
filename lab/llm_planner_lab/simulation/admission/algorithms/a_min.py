# SPDX-License-Identifier: Apache-2.0
"""A_min: every job is taken for as short as it can still be (section 4, Algorithms 2 and 5)."""

import heapq
import random

from llm_planner.scheduling.admission.job import Job
from llm_planner_lab.simulation.admission.algorithms.packing import Packing, Place


class AMin(Packing):
    """Counts on a certified lower bound, the smallest first; what overflows is cancelled, the smallest first.

    ``bounds`` is o-tilde: l at first, and after a cancellation the tokens that the job had generated. With an l of its
    own for each job this is Algorithm 5.

    Deviation: a running job that has outlived its bound counts with one more token (``FutureMemory``). To the letter
    its indicator in Eq. (3) is 0, and the memory that it holds would be given away in every step. And a bound never
    falls: the paper sets it to the tokens generated even where l was more.
    """

    name = "a_min"

    def __init__(self, capacity_tokens: int, rng: random.Random) -> None:
        super().__init__(capacity_tokens, rng)
        self.bounds: dict[int, int] = {}
        self._started: dict[int, int] = {}
        self._running: list[tuple[int, float, int, int]] = []  # heap: bound, tie, id, start; stale if it restarted

    def submit(self, job: Job) -> None:
        """Puts a job in line."""
        self.bounds[job.job_id] = job.lower_tokens
        super().submit(job)

    def assumed_tokens(self, job: Job) -> int:
        """Returns o-tilde."""
        return self.bounds[job.job_id]

    def place(self, job: Job) -> Place:
        """Returns o-tilde."""
        return (float(self.bounds[job.job_id]),)

    def started(self, job: Job, step: int) -> None:
        """Records a job that may have to yield."""
        self._started[job.job_id] = step
        heapq.heappush(self._running, (self.bounds[job.job_id], self.rng.random(), job.job_id, step))

    def give_way(self, step: int) -> list[int]:
        """Returns the jobs that are cancelled until the rest has room for its next tokens."""
        cancelled: list[int] = []
        while self.memory.used_tokens(step + 1) > self.memory.capacity_tokens:
            _, _, job_id, started = heapq.heappop(self._running)
            if self._started.get(job_id) != started:
                continue
            self.memory.remove(job_id)
            del self._started[job_id]
            self.bounds[job_id] = max(self.bounds[job_id], step - started)
            self.enqueue(self.jobs[job_id])
            cancelled.append(job_id)
        return cancelled

    def finish(self, job_id: int) -> None:
        """Forgets a job that has ended."""
        super().finish(job_id)
        del self._started[job_id], self.bounds[job_id]
