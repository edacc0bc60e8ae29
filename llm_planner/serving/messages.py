# SPDX-License-Identifier: Apache-2.0
"""What an engine process and its parent tell each other."""

from dataclasses import dataclass

from llm_planner.core.errors import PlannerError
from llm_planner.core.segment import SegmentReport
from llm_planner.serving.events import Event
from llm_planner.serving.goal_record import GoalRecord
from llm_planner.serving.view import LoopStatus, LoopView


@dataclass(frozen=True, slots=True)
class Cancel:
    """Parent to child: forget this goal."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Report:
    """Parent to child: what a robot reported, and when it was received."""

    report: SegmentReport
    received_at_s: float

    @property
    def request_id(self) -> str:
        """Which goal it is about."""
        return self.report.request_id


@dataclass(frozen=True, slots=True)
class Look:
    """Parent to child: send a view. The parent sends no second one before it has the answer."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Child to parent: the loop turns. The first one says that it is ready.

    The loop's thread sends it, between two turns. A thread of its own would say that the process lives, which the
    parent knows anyhow, and would go on while the loop hangs in a step, which the parent must notice.

    Attributes:
        status: How busy the loop is.
        longest_turn_s: Its longest command or step so far: as long as it may well say nothing.
    """

    status: LoopStatus
    longest_turn_s: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Child to parent: the answer to ``Look``; None if there is none, because something unexpected happened."""

    view: LoopView | None


@dataclass(frozen=True, slots=True)
class Admitted:
    """Child to parent: it was decided to keep the time budget of this goal. It brings the goal no further.

    Attributes:
        is_capped: With a token cap; it is said again if that is decided later.
    """

    request_id: str
    is_capped: bool = False


@dataclass(frozen=True, slots=True)
class StartFailed:
    """Child to parent: the loop could not be built."""

    error: PlannerError


GoalMessage = GoalRecord | Cancel | Report
ParentMessage = GoalMessage | Look | None
"""Parent to child; a record: plan for this goal. None: end."""
LoopMessage = Heartbeat | Snapshot | Admitted | Event
ChildMessage = LoopMessage | StartFailed
