# SPDX-License-Identifier: Apache-2.0
"""A_l, promote-l: a job that outlives the lower bound counts with the upper bound and goes last (Algorithm 6)."""

import random

from llm_planner.scheduling.admission.job import Job
from llm_planner_lab.simulation.admission.algorithms.packing import Packing, Place


class AL(Packing):
    """Counts on l; a job that has generated l tokens and has not ended is cancelled, goes last, and counts with u.

    Made for outputs that are either l or u (section 5.1). Whatever the outputs are, memory never overflows: a job runs
    no longer than it was counted on.
    """

    name = "a_l"

    def __init__(self, capacity_tokens: int, rng: random.Random) -> None:
        super().__init__(capacity_tokens, rng)
        self._promoted: set[int] = set()
        self._ends: dict[int, list[int]] = {}  # by step, the jobs that have generated l tokens then
        self._num_promotions = 0

    def assumed_tokens(self, job: Job) -> int:
        """Returns l, then u."""
        return job.upper_tokens if job.job_id in self._promoted else job.lower_tokens

    def place(self, job: Job) -> Place:
        """Returns the front for jobs that have not been promoted, and for others the end."""
        return (float(self._num_promotions),) if job.job_id in self._promoted else (0.0,)

    def started(self, job: Job, step: int) -> None:
        """Remembers when it will have generated l tokens."""
        if job.job_id not in self._promoted and job.lower_tokens < job.upper_tokens:
            self._ends.setdefault(step + job.lower_tokens, []).append(job.job_id)

    def give_way(self, step: int) -> list[int]:
        """Returns the jobs that turn out to be long now."""
        promoted = [job_id for job_id in self._ends.pop(step, ()) if job_id in self.jobs]
        for job_id in promoted:
            self.memory.remove(job_id)
            self._promoted.add(job_id)
            self._num_promotions += 1
            self.enqueue(self.jobs[job_id])
        return promoted

    def finish(self, job_id: int) -> None:
        """Forgets a job that has ended."""
        super().finish(job_id)
        self._promoted.discard(job_id)
