# SPDX-License-Identifier: Apache-2.0
"""What a server tells its owner about goals."""

from dataclasses import dataclass

from llm_planner.core.errors import PlannerError
from llm_planner.core.request import PlanResult
from llm_planner.core.segment import Segment


@dataclass(frozen=True, slots=True)
class SegmentReady:
    """A segment may go to the robot. Per request in order of index, without gaps, each once."""

    request_id: str
    segment: Segment


@dataclass(frozen=True, slots=True)
class PlanComplete:
    """Nothing will follow the ``num_segments`` delivered ones, unless one fails and is replanned, which ends so again.

    The robot may be at work yet.

    Attributes:
        is_partial: Whether the plan was closed to keep its time budget: the robot holds where it ends.
        verdict: Why the plan says itself that the task cannot be achieved; None if it does not. What was delivered is
            still carried out.
    """

    request_id: str
    num_segments: int
    is_partial: bool = False
    verdict: PlannerError | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """A request ended. Exactly once per request that was taken, and the last word on it."""

    result: PlanResult

    @property
    def request_id(self) -> str:
        """Which request ended."""
        return self.result.request_id


Event = SegmentReady | PlanComplete | Finished
