# SPDX-License-Identifier: Apache-2.0
"""Tardiness with memory safety: our order, and no request starts that would preempt another one later."""

from llm_planner.scheduling.policies.interface import GenerationView
from llm_planner.scheduling.policies.memory_safe import MemorySafe
from llm_planner.scheduling.policies.tardiness import Tardiness


class TardinessSafe(Tardiness, MemorySafe):
    """The order and the batch limit of ``tardiness``; Eq. (3) with what preemption would cost.

    Where KV can only be dropped, the upper bound counts, so that no request is preempted as long as predictions hold.
    Where it can be offloaded, preemption costs a move and waiting costs utility: the middle of the interval counts.
    """

    name = "tardiness_safe"

    def counted_tokens(self, generation: GenerationView, *, can_offload: bool) -> int:
        """Returns u, or the middle of the interval."""
        lower, upper = generation.output_bounds
        return (lower + upper) // 2 if can_offload else upper
