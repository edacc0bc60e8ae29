# SPDX-License-Identifier: Apache-2.0
"""H-SF: hindsight, shortest first: the benchmark of the paper (section 3.1, Algorithm 3)."""

from llm_planner.scheduling.admission.interface import Job
from llm_planner.scheduling.admission.packing import Packing, Place


class HSF(Packing):
    """Counts on the true output length o, the shortest output first.

    It ignores the length of prompts and never gives memory back before a job ends, so it is no lower bound.
    """

    name = "h_sf"
    knows_lengths = True

    def assumed_tokens(self, job: Job) -> int:
        """Returns o."""
        return job.lower_tokens

    def place(self, job: Job) -> Place:
        """Returns o."""
        return (float(job.lower_tokens),)
