# SPDX-License-Identifier: Apache-2.0
"""A_max: every job is taken for as long as it can be (section 3.2, Algorithm 1)."""

import random

import numpy as np
from numpy.typing import NDArray

from llm_planner.scheduling.admission.job import Job
from llm_planner_lab.simulation.admission.algorithms.interface import Decision
from llm_planner_lab.simulation.admission.algorithms.packing import Packing, Place

_Integers = NDArray[np.int64]


class AMax(Packing):
    """Counts on the upper bound u, so that no job is ever cancelled; what fits starts at random, until nothing does.

    Deviation: the paper starts a random set of the largest size that fits, and has one prompt length and one interval,
    where every maximal set is of the largest size. With several, we draw one job after the other among those that
    still fit, which is as random and keeps Eq. (3).
    """

    name = "a_max"

    def __init__(self, capacity_tokens: int, rng: random.Random) -> None:
        super().__init__(capacity_tokens, rng)
        self._draw = np.random.default_rng(rng.getrandbits(32))
        self._ids: _Integers = np.empty(0, np.int64)
        self._prompts: _Integers = np.empty(0, np.int64)
        self._uppers: _Integers = np.empty(0, np.int64)

    def assumed_tokens(self, job: Job) -> int:
        """Returns u."""
        return job.upper_tokens

    def place(self, job: Job) -> Place:
        """Returns the same for all."""
        return ()

    def decide(self, step: int) -> Decision:
        """Returns which jobs start."""
        self._take_in()
        self.memory.advance(step)
        started: list[int] = []
        while len(self._ids):
            fitting = np.flatnonzero(self.memory.fit(self._prompts, step, self._uppers))
            if not len(fitting):
                break
            place = int(self._draw.choice(fitting))
            job_id = int(self._ids[place])
            self.memory.add(job_id, int(self._prompts[place]), step, int(self._uppers[place]))
            started.append(job_id)
            keep = np.arange(len(self._ids)) != place
            self._ids, self._prompts, self._uppers = self._ids[keep], self._prompts[keep], self._uppers[keep]
        return Decision(start=tuple(started))

    def _take_in(self) -> None:
        """Moves jobs that came from the line into the arrays."""
        if not self._waiting:
            return
        jobs = [self.jobs[job_id] for _, _, job_id in self._waiting]
        self._waiting.clear()
        self._ids = np.append(self._ids, [job.job_id for job in jobs])
        self._prompts = np.append(self._prompts, [job.prompt_tokens for job in jobs])
        self._uppers = np.append(self._uppers, [job.upper_tokens for job in jobs])
