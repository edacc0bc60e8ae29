# SPDX-License-Identifier: Apache-2.0
"""Messages to the core's dataclasses and back; whatever comes in from the network is checked here.

Strings that are not UTF-8 reach Python with U+FFFD in the place of the broken bytes, so that character is the sign of
a broken encoding.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TypeVar

import llm_planner.msg as msgs
from llm_planner.action import PlanTask
from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import BudgetScope, OverrunStrategy, PlanRequest, PlanResult, Urgency
from llm_planner.core.segment import (
    BlockEdge,
    ExpectedDuration,
    MarkStatus,
    ReportStatus,
    Segment,
    SegmentMark,
    SegmentReport,
)
from llm_planner.core.skill import SkillCall, Value
from llm_planner.core.validation import (
    require_goal_id,
    require_length,
    require_max_tokens,
    require_printable,
    require_robot_id,
    require_time_budget,
)
from llm_planner.ros import metrics, poses
from llm_planner.ros.situations import from_situation, to_situation
from llm_planner.ros.time_utilities import from_time_utility, to_time_utility

E = TypeVar("E", bound=Enum)

_ENUMS: Mapping[type[Enum], tuple[ErrorCode, str]] = {
    Urgency: (ErrorCode.INVALID_URGENCY, "urgency"),
    OverrunStrategy: (ErrorCode.INVALID_OVERRUN, "overrun"),
    BudgetScope: (ErrorCode.INVALID_TIME_BUDGET, "budget_scope"),
    ReportStatus: (ErrorCode.INVALID_ARGUMENT, "status"),
    MarkStatus: (ErrorCode.INVALID_ARGUMENT, "status"),
    BlockEdge: (ErrorCode.INVALID_ARGUMENT, "block_edge"),
}
"""What is said of a number that is none of an enum's."""
ANONYMOUS = "anonymous"
"""The client of all goals that name none: the limit of goals per client counts for them together."""
_REPLACEMENT_CHARACTER = "\ufffd"
MAX_NAME_LENGTH = 128
"""Characters of the name of a robot model or a function: what is longer names nothing."""
MAX_SKILLS = 256
"""Names in ``allowed_skills`` or ``unsupported_skills``."""
MAX_DURATION_S = 1e9
MAX_REASON_LENGTH = 1000
"""Characters of what a robot says of a failure; more is cut."""
MAX_TEXT_LENGTH = 262_144
"""Characters of a text that a call was given or returned."""
MAX_SAID = 64
"""Texts that one segment may say; more are dropped."""


def to_request(goal: PlanTask.Goal, goal_id: str, config: PlannerConfig | None = None) -> PlanRequest:
    """Returns the request that a goal message stands for. Lengths come first: a refusal must not cost a long text.

    Args:
        goal: From any client.
        goal_id: Its id.
        config: Its limits hold; those of a planner without settings if None.

    Raises:
        PlannerError: A 1xx code for the first field that is not as ``PlanTask.action`` says.
    """
    limits = config or PlannerConfig()
    require_robot_id(goal.robot_id)
    require_length(goal.instruction, "instruction", limits.max_instruction_bytes)
    require_length(goal.scene, "scene", limits.max_scene_bytes)
    require_length(goal.plan, "plan", limits.max_instruction_bytes)
    if len(goal.robot_model) > MAX_NAME_LENGTH:
        what = f"no robot model has a name of {len(goal.robot_model)} characters"
        raise PlannerError(ErrorCode.UNKNOWN_ROBOT_MODEL, what)
    if len(goal.time_utility.function) > MAX_NAME_LENGTH:
        what = f"no time utility function has a name of {len(goal.time_utility.function)} characters"
        raise PlannerError(ErrorCode.INVALID_TIME_UTILITY, what)
    urgency = to_enum(Urgency, goal.urgency)
    _require_readable(goal, "robot_model", "instruction", "scene", "plan")
    return PlanRequest(
        request_id=goal_id,
        robot_id=goal.robot_id,
        client_id=goal.client_id or ANONYMOUS,
        robot_model=goal.robot_model,
        instruction=goal.instruction,
        scene=goal.scene,
        urgency=urgency,
        time_utility=to_time_utility(goal.time_utility, urgency),
        time_budget_s=require_time_budget(goal.time_budget_s or None),
        overrun=to_enum(OverrunStrategy, goal.overrun),
        budget_scope=to_enum(BudgetScope, goal.budget_scope),
        allowed_skills=frozenset(_to_skill_names(goal.allowed_skills)) or None,
        plan=goal.plan,
        plan_only=goal.plan_only,
        start_pose=poses.to_pose(goal.robot_pose) if goal.has_start_pose else None,
        unsupported_skills=_to_skill_names(goal.unsupported_skills),
        takes_open_blocks=goal.takes_open_blocks,
        **({"max_tokens": goal.max_tokens} if goal.max_tokens else {}),
    )


def _to_skill_names(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of skills in a goal.

    Raises:
        PlannerError: INVALID_ARGUMENT for more, or longer ones, than a robot model can have.
    """
    if len(names) > MAX_SKILLS or any(len(name) > MAX_NAME_LENGTH or not name.isidentifier() for name in names):
        what = f"allowed_skills and unsupported_skills must be at most {MAX_SKILLS} names of skills"
        raise PlannerError(ErrorCode.INVALID_ARGUMENT, what)
    return tuple(names)


def to_enum(cls: type[E], number: int) -> E:
    """Returns a member of an enum from the wire.

    Raises:
        PlannerError: INVALID_URGENCY, INVALID_OVERRUN, INVALID_TIME_BUDGET or INVALID_ARGUMENT, by the enum.
    """
    try:
        return cls(number)
    except ValueError:
        code, name = _ENUMS[cls]
        known = ", ".join(f"{m.value} ({m.name})" for m in cls)
        raise PlannerError(code, f"{name} is {number}; it must be one of {known}") from None


def to_goal(request: PlanRequest) -> PlanTask.Goal:
    """Returns the goal message of a request; the time utility travels only where it is not the preset.

    Numbers and booleans are converted: rclpy sends others (``2`` seconds, NumPy's) as wrong ones, without an error.

    Raises:
        PlannerError: INVALID_ENCODING for text that a message would cut (at a NUL) or cannot hold (surrogates),
            INVALID_TIME_BUDGET for a budget of 0 and INVALID_MAX_TOKENS for 0 tokens, which a message would turn into
            none, INVALID_ARGUMENT for an empty set of allowed skills, which it would turn into all.
    """
    _require_readable(request, "instruction", "scene", "plan")
    require_time_budget(request.time_budget_s)
    require_max_tokens(request.max_tokens)
    for field in ("allowed_skills", "unsupported_skills"):
        if isinstance(getattr(request, field), str):  # which would be read letter by letter
            raise PlannerError(ErrorCode.INVALID_ARGUMENT, f"{field} is a text; give a collection of names of skills")
    if request.allowed_skills is not None and not request.allowed_skills:
        what = "no skill is allowed, which a message would turn into all; name some, or leave allowed_skills at None"
        raise PlannerError(ErrorCode.INVALID_ARGUMENT, what)
    goal = PlanTask.Goal(
        robot_id=request.robot_id,
        client_id=request.client_id,
        robot_model=request.robot_model,
        instruction=request.instruction,
        scene=request.scene,
        urgency=request.urgency.value,
        time_budget_s=float(request.time_budget_s or 0.0),
        overrun=request.overrun.value,
        budget_scope=request.budget_scope.value,
        max_tokens=int(request.max_tokens),
        allowed_skills=sorted(request.allowed_skills or ()),
        plan=request.plan,
        plan_only=bool(request.plan_only),
        time_utility=from_time_utility(request.time_utility, request.urgency),
        unsupported_skills=list(request.unsupported_skills),
        takes_open_blocks=bool(request.takes_open_blocks),
    )
    if request.start_pose is not None:
        goal.has_start_pose = True
        goal.robot_pose = poses.from_pose(request.start_pose)
    return goal


def to_report(message: msgs.SegmentReport) -> SegmentReport:
    """Returns a robot's report. Call it once the goal is known: of a stranger's message nothing is read.

    A value or duration that is out of range is left out: that the segment has ended counts.

    Raises:
        PlannerError: UNKNOWN_GOAL if the goal id is none, INVALID_ARGUMENT for anything else that is out of range.
    """
    goal_id = require_goal_id(message.goal_id)
    status = to_enum(ReportStatus, message.status)
    is_waiting = status is ReportStatus.FAILED and message.has_situation
    return SegmentReport(
        request_id=goal_id,
        index=message.index,
        status=status,
        duration_s=_readable_duration(message.duration_s),
        value=_readable_value(message.value),
        reason=message.reason[:MAX_REASON_LENGTH],
        situation=to_situation(message.situation) if is_waiting else None,
        is_permanent=message.is_permanent,
        enters_block=message.enters_block,
        said=_to_said(message.said),
    )


def _to_said(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(text[:MAX_REASON_LENGTH] for text in texts[:MAX_SAID])


def from_mark(mark: SegmentMark, index: int) -> msgs.SegmentMark:
    """Returns the message of how a segment went."""
    return msgs.SegmentMark(
        index=index,
        status=mark.status.value,
        reason=mark.reason,
        value=msgs.Value() if mark.value is None else from_value(mark.value),
        said=list(mark.said),
    )


def to_mark(message: msgs.SegmentMark) -> SegmentMark:
    """Returns how a segment went.

    Raises:
        PlannerError: INVALID_ARGUMENT for an unknown status or a value that ``to_value`` refuses.
    """
    return SegmentMark(
        status=to_enum(MarkStatus, message.status),
        reason=message.reason[:MAX_REASON_LENGTH],
        value=to_value(message.value),
        said=_to_said(message.said),
    )


def _readable_duration(duration_s: float) -> float:
    """Returns a duration within its limits, 0 for one that is not known: that the segment has ended counts."""
    return min(max(duration_s, 0.0), MAX_DURATION_S) if math.isfinite(duration_s) else 0.0


def _readable_value(message: msgs.Value) -> Value | None:
    """Returns the value of a report; None for one that cannot be read, as a sensor's infinity for "no echo"."""
    try:
        return to_value(message)
    except PlannerError:
        return None


def from_report(report: SegmentReport) -> msgs.SegmentReport:
    """Returns the message of a report, its numbers and booleans converted as in ``to_goal``.

    Raises:
        PlannerError: INVALID_ARGUMENT or INVALID_POSE for a situation that the planner would ignore.
    """
    situation = report.situation
    return msgs.SegmentReport(
        goal_id=report.request_id,
        index=report.index,
        status=report.status.value,
        duration_s=float(report.duration_s),
        value=msgs.Value() if report.value is None else from_value(report.value),
        has_situation=situation is not None,
        situation=msgs.Situation() if situation is None else from_situation(situation),
        reason=report.reason,
        is_permanent=bool(report.is_permanent),
        enters_block=bool(report.enters_block),
        said=list(report.said),
    )


def to_segment(message: msgs.Segment, goal_id: str) -> Segment:
    """Returns a segment that came from the planner for a goal.

    Raises:
        PlannerError: UNKNOWN_GOAL if it belongs to another goal, INVALID_ARGUMENT if a value or duration is not as
            ``Segment.msg`` says.
    """
    if message.goal_id != goal_id:
        raise PlannerError(
            ErrorCode.UNKNOWN_GOAL, f"a segment for goal {goal_id} belongs to goal {message.goal_id[:80]!r}"
        )
    durations = (message.expected_min_s, message.expected_p50_s, message.expected_p90_s, message.generation_time_s)
    if not all(math.isfinite(d) and d >= 0 for d in durations):
        raise PlannerError(ErrorCode.INVALID_ARGUMENT, f"durations must be finite and >= 0; got {durations}")
    return Segment(
        index=message.index,
        text=message.text,
        calls=tuple(_to_call(call) for call in message.calls),
        expected=ExpectedDuration(min_s=durations[0], p50_s=durations[1], p90_s=durations[2]),
        generation_time_s=message.generation_time_s,
        is_replan=message.is_replan,
        block_edge=to_enum(BlockEdge, message.block_edge),
    )


def from_segment(segment: Segment, goal_id: str, *, is_last: bool = False) -> msgs.Segment:
    """Returns the message of a segment."""
    return msgs.Segment(
        goal_id=goal_id,
        index=segment.index,
        text=segment.text,
        calls=[msgs.SkillCall(name=c.name, arguments=[from_value(v) for v in c.arguments]) for c in segment.calls],
        expected_min_s=segment.expected.min_s,
        expected_p50_s=segment.expected.p50_s,
        expected_p90_s=segment.expected.p90_s,
        generation_time_s=segment.generation_time_s,
        is_replan=segment.is_replan,
        block_edge=segment.block_edge.value,
        is_last=is_last,
    )


def to_result(message: PlanTask.Result, goal_id: str) -> PlanResult:
    """Returns the result of a goal; a number that this version does not know becomes ENGINE_FAILED, named in the text.

    Raises:
        PlannerError: UNKNOWN_GOAL or INVALID_ARGUMENT if a segment is not as ``to_segment`` wants it.
    """
    code, text = to_error(message.error_code, message.error_msg)
    return PlanResult(
        request_id=goal_id,
        error_code=code,
        error_msg=text,
        segments=tuple(to_segment(s, goal_id) for s in message.segments),
        metrics=metrics.to_metrics(message.metrics),
        candidates=tuple(message.candidates),
        marks=tuple(to_mark(mark) for mark in message.marks),
    )


def from_result(result: PlanResult) -> PlanTask.Result:
    """Returns the message of a result."""
    last = len(result.segments) - 1
    return PlanTask.Result(
        error_code=int(result.error_code),
        error_msg=result.error_msg,
        plan=result.plan,
        segments=[from_segment(s, result.request_id, is_last=i == last) for i, s in enumerate(result.segments)],
        metrics=metrics.from_metrics(result.metrics),
        candidates=list(result.candidates),
        marks=[from_mark(mark, index) for index, mark in enumerate(result.marks)],
    )


def to_value(message: msgs.Value) -> Value | None:
    """Returns the literal in a message, or None for NONE.

    Raises:
        PlannerError: INVALID_ARGUMENT for an unknown type, a number that is not finite, or a text that is too long.
    """
    readers: dict[int, Callable[[], Value | None]] = {
        msgs.Value.NONE: lambda: None,
        msgs.Value.NUMBER: lambda: float(message.number_value),
        msgs.Value.TEXT: lambda: str(message.text_value),
        msgs.Value.BOOLEAN: lambda: bool(message.boolean_value),
    }
    if message.type not in readers:
        raise PlannerError(
            ErrorCode.INVALID_ARGUMENT, f"a value has type {message.type}, which Value.msg does not know"
        )
    value = readers[message.type]()
    if isinstance(value, float) and not math.isfinite(value):
        raise PlannerError(ErrorCode.INVALID_ARGUMENT, f"a number must be finite; got {value}")
    if isinstance(value, str) and len(value) > MAX_TEXT_LENGTH:
        raise PlannerError(ErrorCode.INVALID_ARGUMENT, f"a text of {len(value)} characters is too long")
    return value


def from_value(value: Value) -> msgs.Value:
    """Returns the message of a literal."""
    if isinstance(value, bool):
        return msgs.Value(type=msgs.Value.BOOLEAN, boolean_value=value)
    if isinstance(value, str):
        return msgs.Value(type=msgs.Value.TEXT, text_value=value)
    return msgs.Value(type=msgs.Value.NUMBER, number_value=float(value))


def to_error(number: int, text: str) -> tuple[ErrorCode, str]:
    """Returns an error code from the wire and its message; an unknown number becomes ENGINE_FAILED."""
    try:
        return ErrorCode(number), text
    except ValueError:
        return ErrorCode.ENGINE_FAILED, f"{text} (error code {number} is unknown to this version)"


def _to_call(message: msgs.SkillCall) -> SkillCall:
    arguments = tuple(to_value(argument) for argument in message.arguments)
    return SkillCall(message.name, tuple(a for a in arguments if a is not None))


def _require_readable(goal: PlanTask.Goal | PlanRequest, *names: str) -> None:
    """Checks that texts could be decoded and hold no control characters but tab and line ends."""
    for name in names:
        text = getattr(goal, name)
        if _REPLACEMENT_CHARACTER in text:
            raise PlannerError(ErrorCode.INVALID_ENCODING, f"{name} is not valid UTF-8")
        require_printable(text, name)
