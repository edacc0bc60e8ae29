# SPDX-License-Identifier: Apache-2.0
"""One instruction of a robot, from the asking to its outcome."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from builtin_interfaces.msg import Time

import llm_planner.msg as msgs
from llm_planner.core.errors import ErrorCode, is_of_the_plan
from llm_planner.core.request import PlanResult, Urgency
from llm_planner.core.segment import ReportStatus, Segment, SegmentReport
from llm_planner.ros import conversions, metrics
from llm_planner.ros.plan_handle import CARRIED_OUT, PlanHandle
from llm_planner.srv import Instruct


class Follower(Protocol):
    """Is told how an instruction goes, all its plans included."""

    def follow(self, segments: Sequence[msgs.SegmentOutcome]) -> None:
        """Takes all segments of the present plan, in order, whenever one of them began or ended."""

    def note_outcome(self, outcome: msgs.PlanOutcome, *, is_last: bool) -> None:
        """Takes how a plan ended; another one follows unless it is the last."""


@dataclass(slots=True, kw_only=True)
class Mission:
    """What was asked, what came, and how it went.

    Attributes:
        order: As it came in.
        goal_id: Of the plan that was asked for.
        handle: Of that plan; another one until the planner is asked.
        asked_at: System time.
        num_replans: How many plans before this one asked for a new plan.
        is_given_up: Whether the robot does nothing for it any more.
        stopped_because: Why it was stopped; empty if it was not.
        world: The world when the robot was done with it, JSON.
        reflexes: What the robot did meanwhile without asking.
        is_in_reflex: Whether the last of them is not over.
        follower: Is told how it goes; None if no client asked.
        fault: The unexpected error of the robot because of which it was given up; empty without any.
        held_since_s: When it was asked, on the client's clock, if the planner could not be asked at once.
        has_failed: Whether a segment has failed, and the robot does not wait for another way.
    """

    order: Instruct.Request
    goal_id: str
    asked_at: Time
    num_replans: int = 0
    follower: Follower | None = None
    is_given_up: bool = False
    stopped_because: str = ""
    world: str = ""
    reflexes: list[msgs.Reflex] = field(default_factory=list)
    is_in_reflex: bool = False
    fault: str = ""
    held_since_s: float = 0.0
    handle: PlanHandle = field(init=False)
    has_failed: bool = False
    _outcomes: dict[int, msgs.SegmentOutcome] = field(default_factory=dict)

    @property
    def is_settled(self) -> bool:
        """Whether nothing that came is left to be carried out: what follows a failure is void up to the next replan."""
        is_void = False
        for _, outcome in sorted(self._outcomes.items()):
            if outcome.segment.is_replan or outcome.status == msgs.SegmentOutcome.FAILED:
                is_void = not outcome.segment.is_replan
            elif outcome.status == msgs.SegmentOutcome.NOT_RUN and not is_void:
                return self.has_failed
        return True

    def is_unanswered(self, result: PlanResult) -> bool:
        """Whether the planner ended an emergency without an answer, though no client had called it off.

        What it delivered of a plan that it did not understand to the end, or that the gate refused, is none; nor is
        what was carried out of a plan that cannot be gone on with, unless that is so because it failed on the robot.
        """
        is_urgent = self.order.urgency == Urgency.URGENT.value and not self.order.plan_only
        is_called_off = self.is_given_up or result.error_code in (ErrorCode.CANCELLED, ErrorCode.SUPERSEDED)
        has_failed = any(outcome.status == msgs.SegmentOutcome.FAILED for outcome in self._outcomes.values())
        is_cut = result.error_code is ErrorCode.NOT_ACHIEVED and not has_failed
        has_answer = bool(result.segments) and not (is_cut or is_of_the_plan(result.error_code))
        return is_urgent and not is_called_off and not has_answer and not self.reflexes

    def receive(self, segment: Segment, now: Time) -> None:
        """Notes a segment that came; of each index the first one counts."""
        if segment.index not in self._outcomes:
            message = conversions.from_segment(segment, self.goal_id)
            self._outcomes[segment.index] = msgs.SegmentOutcome(segment=message, received_at=now)

    def note(self, report: SegmentReport, now: Time) -> None:
        """Notes the robot's word on a segment of this goal."""
        if (outcome := self._outcomes.get(report.index)) is None:
            return  # a reflex before the first segment
        if report.status is ReportStatus.STARTED:
            outcome.started_at = now
            return
        self.has_failed |= report.status is ReportStatus.FAILED and report.situation is None
        outcome.status, outcome.finished_at = report.status.value, now
        outcome.duration_s, outcome.reason = report.duration_s, report.reason
        outcome.said = list(report.said)
        if report.value is not None:
            outcome.value = conversions.from_value(report.value)

    @property
    def segments(self) -> list[msgs.SegmentOutcome]:
        """How each segment that came went so far, in order."""
        return [self._outcomes[index] for index in sorted(self._outcomes)]

    def outcome(self, *, robot_id: str, robot_model: str, now: Time) -> msgs.PlanOutcome:
        """Returns the message that ends the mission; the plan's result must be there."""
        result = self.handle.result(0.0)
        error_code, error_msg = result.error_code, result.error_msg
        if self.stopped_because and error_code not in CARRIED_OUT:
            error_code, error_msg = ErrorCode.STOPPED, self.stopped_because
        elif error_code is ErrorCode.CANCELLED and self.reflexes:
            error_msg = f"the robot's reflex ended it: {self.reflexes[0].reason}"
        elif error_code is ErrorCode.CANCELLED and self.fault:
            error_msg = self.fault
        if self._outcomes and result.error_code is ErrorCode.NONE:
            self._outcomes[max(self._outcomes)].segment.is_last = True
        return msgs.PlanOutcome(
            robot_id=robot_id,
            robot_model=robot_model,
            goal_id=self.goal_id,
            tag=self.order.tag,
            instruction=self.order.instruction,
            urgency=self.order.urgency,
            asked_at=self.asked_at,
            finished_at=now,
            error_code=int(error_code),
            error_msg=error_msg,
            plan=result.plan,
            segments=self.segments,
            reflexes=self.reflexes,
            metrics=metrics.from_metrics(result.metrics),
            candidates=list(result.candidates),
            world=self.world,
        )
