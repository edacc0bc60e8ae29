# SPDX-License-Identifier: Apache-2.0
"""First come, first served with segmented generation (TimelyLLM, section 7.3.2)."""

from llm_planner.scheduling.policies.fcfs_stream import FcfsStream


class FcfsSegment(FcfsStream):
    """Suspends while the robot executes; a suspended generation keeps the rank of its request's arrival."""

    name = "fcfs_segment"
    suspends = True
