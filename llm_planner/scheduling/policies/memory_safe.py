# SPDX-License-Identifier: Apache-2.0
"""What policies that look ahead in memory have in common: they count on an output length (Eq. 3 of A_min)."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable

from llm_planner.scheduling.policies.interface import GenerationView, Rank


class MemorySafe(ABC):
    """Base of policies under which a request starts only if its future, as far as it is counted on, fits.

    ``scheduling.memory_gate`` checks Eq. (3) for them, and preempts, if it must, the one that is the cheapest to
    start again, or the worst ranked.

    Attributes:
        capacity_tokens: Of the KV cache; set by the scheduler.
        is_memory_short: Whether the memory, not the slots, keeps ready generations waiting; set before every decision.
        yields_worst: Whether the worst ranked is preempted, because the rank counts what bringing it back costs.
    """

    capacity_tokens = 0
    is_memory_short = False
    yields_worst = False

    def note_complete(self, generation: GenerationView, others: Iterable[GenerationView]) -> None:  # noqa: B027
        """Is told of a generation that ended by itself, and of all that have not; may learn from them."""

    @abstractmethod
    def counted_tokens(self, generation: GenerationView, *, can_offload: bool) -> int:
        """Returns how many output tokens, generated ones included, are counted on; at least one more than these.

        Args:
            generation: Whose.
            can_offload: Whether preemption costs a move of its KV instead of its KV.
        """


class BoundOrder(MemorySafe):
    """The order of A_min: the smallest certified lower bound first."""

    suspends = True
    streams = True

    def rank(self, generation: GenerationView, now_s: float) -> Rank:
        """Returns (lower bound, order)."""
        return (float(generation.output_bounds[0]), generation.order)

    def sub_queue(self, generation: GenerationView) -> tuple[Hashable, Rank]:
        """Returns the one sub-queue there is: no request generates while it waits."""
        return ((), (float(generation.output_bounds[0]),))
