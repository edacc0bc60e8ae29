# SPDX-License-Identifier: Apache-2.0
"""What an owner (a ROS node, the command line) sees of the planner."""

from dataclasses import dataclass
from typing import Protocol

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanRequest
from llm_planner.core.segment import SegmentReport
from llm_planner.serving.view import LoopStatus, LoopView


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """How a server is.

    Attributes:
        is_ready: Whether it plans now. While it starts or restarts it takes goals, which wait.
        num_restarts: How often the engine was restarted.
        request_ids: Unfinished goals.
        loop: The last word of the loop; None before the first.
        view: The last answer to ``PlanServer.look``; None before the first.
        error: Why it takes no goals any more; None while it does.
        num_replicas: Engines that there shall be.
        num_ready: Engines that plan now.
        silent_s: For how long the engine has said nothing, if that is longer than it should be; None while it answers,
            or starts.
    """

    is_ready: bool
    num_restarts: int
    request_ids: tuple[str, ...]
    loop: LoopStatus | None
    view: LoopView | None = None
    error: PlannerError | None = None
    silent_s: float | None = None
    num_replicas: int = 1
    num_ready: int = 1


class PlanServer(Protocol):
    """Plans for goals. ``submit``, ``cancel``, ``report``, ``look`` and ``status`` never block, on any thread.

    Goals are records in a ``GoalBook`` that the owner gives to the server; what happens to them is announced there, in
    order. Every request that ``submit`` takes ends with exactly one ``Finished``.
    """

    def start(self) -> None:
        """Begins to serve."""
        ...

    def wait_ready(self, timeout_s: float) -> bool:
        """Returns whether it plans, after waiting for it; raises PlannerError if it never will. The one that blocks."""
        ...

    def submit(self, request: PlanRequest) -> None:
        """Takes a request and enters it in the book, or raises PlannerError if it is refused; then no event follows."""
        ...

    def cancel(self, request_id: str, code: ErrorCode = ErrorCode.CANCELLED, message: str = "cancelled") -> bool:
        """Ends a goal at once, whatever the engine does; returns False if it has ended already."""
        ...

    def report(self, report: SegmentReport) -> None:
        """Takes a robot's word on a segment, if it changes anything."""
        ...

    def look(self) -> None:
        """Asks the loop for a view; ``status.view`` holds it soon, between two steps."""
        ...

    @property
    def status(self) -> ServerStatus:
        """How it is."""
        ...

    def close(self) -> None:
        """Ends all goals with SHUTTING_DOWN and frees everything; safe to call twice."""
        ...
