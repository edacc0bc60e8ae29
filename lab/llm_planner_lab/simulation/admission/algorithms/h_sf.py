# SPDX-License-Identifier: Apache-2.0
"""H-SF: hindsight, shortest first: the benchmark of the paper (section 3.1, Algorithm 3), and a harder one."""

from llm_planner.scheduling.admission.job import Job
from llm_planner_lab.simulation.admission.algorithms.packing import Packing, Place


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


class HSFVolume(HSF):
    """As H-SF, but the one that takes the least memory times steps goes first: ``o (s + o / 2)``.

    Not in the paper. Memory is what is short, so this is Smith's rule for it; where prompts differ it is better.
    """

    name = "h_sf_volume"

    def place(self, job: Job) -> Place:
        """Returns memory times steps."""
        return (job.lower_tokens * (job.prompt_tokens + job.lower_tokens / 2.0),)
