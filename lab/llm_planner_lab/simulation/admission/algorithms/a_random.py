# SPDX-License-Identifier: Apache-2.0
"""A_random: the true lengths in random order, an auxiliary of the paper's proofs (Algorithm 4)."""

from llm_planner.scheduling.admission.job import Job
from llm_planner_lab.simulation.admission.algorithms.packing import Packing, Place


class ARandom(Packing):
    """Counts on the true output length and starts jobs in random order: what knowing lengths is worth without order."""

    name = "a_random"
    knows_lengths = True

    def assumed_tokens(self, job: Job) -> int:
        """Returns o."""
        return job.lower_tokens

    def place(self, job: Job) -> Place:
        """Returns the same for all."""
        return ()
