# SPDX-License-Identifier: Apache-2.0
"""What a robot asks for, and what it gets in the end."""

from dataclasses import dataclass, field
from enum import Enum

from llm_planner.core.errors import ErrorCode
from llm_planner.core.pose import Pose
from llm_planner.core.segment import Segment, SegmentMark, SegmentReport
from llm_planner.core.skill import Value
from llm_planner.core.time_utility import CHAT, NORMAL, URGENT, TimeUtility


class Urgency(Enum):
    """Preset of a request's time criticality (TimelyLLM, section 7.1)."""

    NORMAL = 0
    URGENT = 1
    CHAT = 2

    @property
    def time_utility(self) -> TimeUtility:
        """The preset that applies when a request brings no time utility of its own."""
        return {Urgency.NORMAL: NORMAL, Urgency.URGENT: URGENT, Urgency.CHAT: CHAT}[self]


class OverrunStrategy(Enum):
    """What happens to a request that exceeds its time budget (TimeBill, section 6.1; PARTIAL is ours).

    KILL ends it. SKIP_NEXT lets it go on, however late; what its robot asks until then is refused. PARTIAL closes the
    plan at its last whole statement, early enough that this is still in time.
    """

    KILL = 0
    SKIP_NEXT = 1
    PARTIAL = 2


class AtDeadline(Enum):
    """What happens to a goal whose time budget is over before what it covers has left the planner."""

    GOES_ON = 0
    IS_CLOSED = 1
    ENDS = 2


class BudgetScope(Enum):
    """What must have left the planner when a time budget is over: what lets the robot begin, or everything."""

    FIRST_SEGMENT = 0
    WHOLE_PLAN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """One goal of one robot; immutable.

    Attributes:
        request_id: Unique; the ROS goal id in hexadecimal when it came over ROS.
        robot_id: The robot that asked. A robot has at most one goal at a time.
        client_id: The sender of this, as it names itself; empty within one process, where no limit per client counts.
        time_utility: What an answer is worth as time goes by; by default the preset of ``urgency``.
        robot_model: Name of its robot model (``tello``).
        instruction: Natural language, untrusted.
        scene: What the robot sees, untrusted; may be empty.
        time_budget_s: Hard limit from arrival to what ``budget_scope`` says; None for none.
        overrun: What happens if the budget cannot be kept.
        budget_scope: What the budget covers.
        max_tokens: Most tokens that the plan may have.
        allowed_skills: Names or aliases of the skills that the plan may use; None for all of the robot model.
        plan: A plan in MiniSpec that a person has confirmed: it passes the gate, and no model is asked.
        plan_only: Whether nothing is delivered: the result shows the plan.
        start_pose: Where the robot is, so that the safety gate counts from there; None for the model's start pose.
        unsupported_skills: Skills of its model that this robot cannot carry out, likewise: no plan may call them.
        takes_open_blocks: Whether the robot can begin a condition before its block is written (``Segment.block_edge``).
        delivered: Segments that the robot already has, when a goal goes on after a restart of the engine.
        failures: What it said of those among them that failed, and after which the plan was replanned: one for each
            replan in ``delivered``, and maybe one more.
    """

    request_id: str
    robot_id: str
    robot_model: str
    instruction: str
    client_id: str = ""
    scene: str = ""
    urgency: Urgency = Urgency.NORMAL
    time_utility: TimeUtility = None  # type: ignore[assignment]  # that of its urgency: see __post_init__
    time_budget_s: float | None = None
    overrun: OverrunStrategy = OverrunStrategy.KILL
    budget_scope: BudgetScope = BudgetScope.FIRST_SEGMENT
    max_tokens: int = 512
    allowed_skills: frozenset[str] | None = None
    plan: str = ""
    plan_only: bool = False
    start_pose: Pose | None = None
    unsupported_skills: tuple[str, ...] = ()
    takes_open_blocks: bool = False
    delivered: tuple[Segment, ...] = ()
    failures: tuple[SegmentReport, ...] = ()

    def __post_init__(self) -> None:
        if self.time_utility is None:  # what is no urgency is refused when it is sent
            preset = self.urgency.time_utility if isinstance(self.urgency, Urgency) else NORMAL  # type: ignore[unreachable]
            object.__setattr__(self, "time_utility", preset)

    def supersedes(self, other: "PlanRequest") -> bool:
        """Returns whether it takes the place of its robot's other goal: an urgent one does that of one that is not.

        What is only shown takes no place.
        """
        return self.urgency is Urgency.URGENT and other.urgency is not Urgency.URGENT and not self.plan_only

    @property
    def has_whole_plan_budget(self) -> bool:
        """Whether a time budget covers the whole plan: then its generation does not wait for the robot."""
        return self.time_budget_s is not None and self._covers_whole_plan

    @property
    def _covers_whole_plan(self) -> bool:
        """Whether a budget would: any does of a plan that is only shown, since nothing of it is delivered before."""
        return self.plan_only or self.budget_scope is BudgetScope.WHOLE_PLAN

    def budget_ends_at_s(self, arrival_s: float, num_segments: int, is_plan_complete: bool) -> float | None:
        """Returns when the time budget is over; None if there is none, or what it covers has been delivered.

        Args:
            arrival_s: When the request arrived.
            num_segments: Segments that were delivered.
            is_plan_complete: Whether nothing will be added to the plan.
        """
        is_covered = is_plan_complete or (self.budget_scope is BudgetScope.FIRST_SEGMENT and num_segments > 0)
        return None if self.time_budget_s is None or is_covered else arrival_s + self.time_budget_s

    def closes_in_time(self, *, is_capped: bool) -> bool:
        """Returns whether the plan is closed in time, behind its last whole statement, if it is not whole then.

        This is so if the client asked for it (PARTIAL), and under a token cap, where no whole plan is guaranteed, but
        not under SKIP_NEXT, which waits for all of it. A first segment is never cut.

        Args:
            is_capped: Whether the budget is kept with a token cap.
        """
        if self.overrun is OverrunStrategy.KILL:
            return self._covers_whole_plan and is_capped
        return self.overrun is OverrunStrategy.PARTIAL

    def at_deadline(self, num_segments: int, *, is_capped: bool = False) -> AtDeadline:
        """Returns what happens when the time budget is over: the one rule, for the engine's process and its parent.

        Args:
            num_segments: Segments that were delivered: a plan without any cannot be closed.
            is_capped: As in ``closes_in_time``.
        """
        if self.overrun is OverrunStrategy.SKIP_NEXT:
            return AtDeadline.GOES_ON
        return AtDeadline.IS_CLOSED if num_segments and self.closes_in_time(is_capped=is_capped) else AtDeadline.ENDS


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMetrics:
    """Times and counts of one finished request; symbols are defined in docs/metrics.md.

    Attributes:
        response_time_s: From arrival to the first segment leaving the planner; None if none left.
        waiting_time_s: Time that the robot stood still waiting for the planner, all segments.
        execution_time_s: Time that the robot spent executing, as reported (or estimated where not reported).
        time_utility: Utility of the time from arrival to the robot's first action, as reported (or estimated where not
            reported); 0 if what was asked was not achieved, None without a response.
        num_prompt_tokens: Prompt length, cached tokens included.
        num_cached_tokens: Of these, how many came from the prefix store.
        num_suspensions: How often the generation was suspended.
        num_replans: How often the rest of the plan was replanned after a segment that failed.
        num_inserted_tokens: Prompt tokens that were inserted for that behind what the model had written.
        confidence: How sure the model was of its least sure statement since the last replan, 0 to 1; None where the
            goal ended before.
        plan_time_s: From arrival to the last segment leaving the planner; None if more should have come.
        predicted_output_tokens: Expected length of the plan; None without a prediction.
        predicted_time_s: Expected time from arrival to what the time budget covers; None without a prediction.
        wcet_s: Worst case of the same.
        eviction_ratio: Share of the prompt's KV that was removed, 0 to 1.
        measures: Measures taken to keep the time budget, in the order in which they were tried.
    """

    response_time_s: float | None = None
    waiting_time_s: float = 0.0
    execution_time_s: float = 0.0
    time_utility: float | None = None
    num_prompt_tokens: int = 0
    num_cached_tokens: int = 0
    num_output_tokens: int = 0
    num_suspensions: int = 0
    num_replans: int = 0
    num_inserted_tokens: int = 0
    confidence: float | None = None
    plan_time_s: float | None = None
    predicted_output_tokens: int | None = None
    predicted_time_s: float | None = None
    wcet_s: float | None = None
    eviction_ratio: float = 0.0
    measures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """How a request ended: the whole plan, or a numbered reason why not.

    Attributes:
        candidates: With NOT_UNDERSTOOD: plans that may have been meant, for a person to confirm; the plan itself where
            only that was asked for.
        marks: How each of ``segments`` went on the robot; empty where they are not kept.
    """

    request_id: str
    error_code: ErrorCode = ErrorCode.NONE
    error_msg: str = ""
    segments: tuple[Segment, ...] = ()
    candidates: tuple[str, ...] = ()
    metrics: PlanMetrics = field(default_factory=PlanMetrics)
    marks: tuple[SegmentMark, ...] = ()

    @property
    def plan(self) -> str:
        """The plan as text, as far as it was delivered."""
        return "".join(segment.text for segment in self.segments)

    @property
    def findings(self) -> str:
        """What the robot said, found or measured, in order; empty for nothing."""
        found = [text for mark in self.marks for text in (*mark.said, *_shown(mark.value))]
        return "; ".join(found)


def _shown(value: Value | None) -> tuple[str, ...]:
    if value is None:
        return ()
    return (f"{value:.10g}" if isinstance(value, float) and not isinstance(value, bool) else str(value),)
