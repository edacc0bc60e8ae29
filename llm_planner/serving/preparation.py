"""What the loop needs of a request before it can be scheduled."""

from dataclasses import dataclass
from typing import Protocol

from llm_planner.core.request import PlanRequest
from llm_planner.core.step import Sequence
from llm_planner.planning.session import PlanSession


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request ready to be scheduled.

    Attributes:
        num_delivered_tokens: Trailing prompt tokens that are segments delivered before a restart.
    """

    sequence: Sequence
    session: PlanSession
    num_delivered_tokens: int = 0


class Preparer(Protocol):
    """Prepares requests."""

    def prepare(self, request: PlanRequest) -> Prepared:
        """Returns the request ready to be scheduled, or raises PlannerError."""
        ...
