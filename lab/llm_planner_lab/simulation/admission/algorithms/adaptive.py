# SPDX-License-Identifier: Apache-2.0
"""The adaptive choice between A_min and A_l (section 5.1)."""

import random

from llm_planner.scheduling.admission.job import Job
from llm_planner.scheduling.policies.adaptive import CRITICAL_RATIO
from llm_planner_lab.simulation.admission.algorithms.a_l import AL
from llm_planner_lab.simulation.admission.algorithms.a_min import AMin
from llm_planner_lab.simulation.admission.algorithms.interface import Decision
from llm_planner_lab.simulation.admission.algorithms.packing import Packing


class Adaptive:
    """Is A_l if the ratio alpha = l / u of the workload is below 0.382, else A_min.

    Chosen at the first decision from the jobs that have come by then, by the mean of their ratios.
    """

    name = "adaptive"
    knows_lengths = False

    def __init__(self, capacity_tokens: int, rng: random.Random) -> None:
        self._capacity_tokens = capacity_tokens
        self._rng = rng
        self._early: list[Job] = []
        self.chosen: Packing | None = None

    def submit(self, job: Job) -> None:
        """Puts a job in line."""
        if self.chosen is None:
            self._early.append(job)
        else:
            self.chosen.submit(job)

    def decide(self, step: int) -> Decision:
        """Returns the decision of the policy that was chosen."""
        if self.chosen is None:
            self.chosen = self._choose()
        return self.chosen.decide(step)

    def _choose(self) -> Packing:
        ratios = [job.lower_tokens / job.upper_tokens for job in self._early]
        is_skewed = sum(ratios) < CRITICAL_RATIO * len(ratios)
        policy = (AL if is_skewed else AMin)(self._capacity_tokens, self._rng)
        for job in self._early:
            policy.submit(job)
        self._early.clear()
        return policy

    def finish(self, job_id: int) -> None:
        """Forgets a job that has ended."""
        if self.chosen is not None:
            self.chosen.finish(job_id)
