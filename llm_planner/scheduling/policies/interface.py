# SPDX-License-Identifier: Apache-2.0
"""What a scheduling policy is: an order, and two habits."""

from collections.abc import Hashable
from typing import Protocol

from llm_planner.core.request import PlanRequest

Rank = tuple[float, ...]


class GenerationView(Protocol):
    """What a policy may look at."""

    @property
    def request(self) -> PlanRequest:
        """What was asked: urgency, time utility, time budget."""
        ...

    @property
    def arrival_s(self) -> float:
        """When the request arrived."""
        ...

    @property
    def order(self) -> int:
        """Rank of arrival: unique, rising."""
        ...

    @property
    def num_segments(self) -> int:
        """Complete segments so far; 0 for an initial generation."""
        ...

    @property
    def num_segment_steps(self) -> int:
        """Steps that yielded tokens since the last segment boundary."""
        ...

    @property
    def num_output_tokens(self) -> int:
        """Tokens generated so far."""
        ...

    @property
    def output_bounds(self) -> tuple[int, int]:
        """Shortest and longest output that are still possible, in tokens; what was generated is certain."""
        ...

    @property
    def predicted_bounds(self) -> tuple[int, int]:
        """Shortest and longest output that were predicted; without a prediction, one token and the most allowed."""
        ...

    @property
    def num_prompt_tokens(self) -> int:
        """Prompt length, cached tokens included."""
        ...

    @property
    def is_offloaded(self) -> bool:
        """Whether its KV is in host memory."""
        ...

    @property
    def num_uncomputed_tokens(self) -> int:
        """Tokens to compute before the next one comes out: a prompt, or a few when decoding."""
        ...

    @property
    def is_decoding(self) -> bool:
        """Whether it has no prompt to compute."""
        ...

    @property
    def robot_idle_at_s(self) -> float:
        """When its robot will have nothing left to do; the arrival before the first segment."""
        ...


class Policy(Protocol):
    """Ranks generations. One policy, one file."""

    @property
    def name(self) -> str:
        """The name in the configuration."""
        ...

    @property
    def suspends(self) -> bool:
        """Whether a generation is suspended at segment boundaries while its robot executes."""
        ...

    @property
    def streams(self) -> bool:
        """Whether segments are delivered while the plan is being generated, or the whole plan at its end."""
        ...

    def rank(self, generation: GenerationView, now_s: float) -> Rank:
        """Returns a finite sort key: the smallest is served first. Ends with ``order``, so that it is total."""
        ...

    def sub_queue(self, generation: GenerationView) -> tuple[Hashable, Rank]:
        """Returns a sub-queue and the place in it, for a generation that waits.

        At any time, of two generations in one sub-queue the one with the smaller place (or, equal, of smaller order)
        has the smaller rank. A policy that cannot guarantee that gives each generation a sub-queue of its own.
        """
        ...
