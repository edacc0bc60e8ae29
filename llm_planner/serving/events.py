"""What a server tells its owner about goals."""

from dataclasses import dataclass

from llm_planner.core.request import PlanResult
from llm_planner.core.segment import Segment


@dataclass(frozen=True, slots=True)
class SegmentReady:
    """A segment may go to the robot. Per request in order of index, without gaps, each once."""

    request_id: str
    segment: Segment


@dataclass(frozen=True, slots=True)
class PlanComplete:
    """The whole plan of ``num_segments`` was delivered; the robot may still be at work. At most once per request."""

    request_id: str
    num_segments: int


@dataclass(frozen=True, slots=True)
class Finished:
    """A request ended. Exactly once per request that was taken, and the last word on it."""

    result: PlanResult

    @property
    def request_id(self) -> str:
        """Which request ended."""
        return self.result.request_id


Event = SegmentReady | PlanComplete | Finished
