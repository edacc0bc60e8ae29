# SPDX-License-Identifier: Apache-2.0
"""First come, first served: the baselines of TimelyLLM, section 7."""

from collections.abc import Hashable

from llm_planner.scheduling.policies.interface import GenerationView, Rank


class Fcfs:
    """Serves in the order of arrival and delivers a plan when all of it has been generated: what vLLM does."""

    name = "fcfs"
    suspends = False
    streams = False

    def rank(self, generation: GenerationView, now_s: float) -> Rank:
        """Returns the arrival."""
        return (generation.arrival_s, generation.order)

    def sub_queue(self, generation: GenerationView) -> tuple[Hashable, Rank]:
        """Returns the one sub-queue there is: the order never changes."""
        return ((), (generation.arrival_s,))


class FcfsStream(Fcfs):
    """The robot begins with the first segment while the rest is being generated: "vLLM-stream" of the paper."""

    name = "fcfs_stream"
    streams = True


class FcfsSegment(FcfsStream):
    """Suspends while the robot executes (section 7.3.2); a suspended generation keeps the rank of its arrival."""

    name = "fcfs_segment"
    suspends = True
