# SPDX-License-Identifier: Apache-2.0
"""First come, first served, segments delivered as they appear ("vLLM-stream" of TimelyLLM, section 7)."""

from llm_planner.scheduling.policies.fcfs import Fcfs


class FcfsStream(Fcfs):
    """As ``Fcfs``, but the robot begins with the first segment while the rest is being generated."""

    name = "fcfs_stream"
    streams = True
