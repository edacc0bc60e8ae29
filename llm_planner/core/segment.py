# SPDX-License-Identifier: Apache-2.0
"""Segments of a plan on their way to a robot, and the robot's reports on them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from llm_planner.core.pose import Pose
from llm_planner.core.skill import SkillCall, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedDuration:
    """How long a robot will take, in seconds: ``min_s <= p50_s <= p90_s``."""

    min_s: float
    p50_s: float
    p90_s: float

    def __add__(self, other: "ExpectedDuration") -> "ExpectedDuration":
        """Returns the duration of one thing after the other (adding p90 values is an upper bound)."""
        return ExpectedDuration(
            min_s=self.min_s + other.min_s, p50_s=self.p50_s + other.p50_s, p90_s=self.p90_s + other.p90_s
        )


LONGEST_DURATION_S = 1e7
"""Four months: longer than any segment takes."""
ZERO_DURATION = ExpectedDuration(min_s=0.0, p50_s=0.0, p90_s=0.0)
MAX_AHEAD = 1024  # segments that may wait on a robot for a missing one


class BlockEdge(Enum):
    """What a segment begins or ends, where a condition comes in parts."""

    NONE = 0  # a whole statement
    OPENS = 1  # ``?iv(cat){``: evaluated once; what follows up to the end of the block counts if it is true
    CLOSES = 2  # ``}``: ends the block that was opened last and not closed yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of a plan, checked by the safety gate, ready to be executed.

    It is a whole top-level statement; or, if its robot takes open blocks, the opening of a condition, a whole statement
    of its block, or the end of the block. The texts of a plan's segments, joined, are the plan.

    Attributes:
        index: Position in the plan, from 0, without gaps.
        text: The part in canonical MiniSpec, e.g. ``mf(100);``.
        calls: The flat skill calls in ``text``, in order of appearance, for those who show or count them. They are not
            what is to be run: conditions, loops, variables and returned values are in ``text`` only.
        expected: Duration on the robot that was asked.
        generation_time_s: From the start or resumption of its generation to the token that completed it.
        num_tokens: Tokens that the model wrote for it, up to the one that completed it; 0 if unknown, or if the segment
            before ended in the same token.
        is_replan: Whether it is a marker, which is not run: a segment failed, and the plan is written again from here.
            What lies between the two is void, and blocks that were open are no more. A marker has no text.
        block_edge: Whether it opens or closes a block.
    """

    index: int
    text: str
    calls: tuple[SkillCall, ...]
    expected: ExpectedDuration
    generation_time_s: float = 0.0
    num_tokens: int = 0
    is_replan: bool = False
    block_edge: BlockEdge = BlockEdge.NONE


def make_replan(index: int) -> Segment:
    """Returns the marker of a replan."""
    return Segment(index=index, text="", calls=(), expected=ZERO_DURATION, is_replan=True)


def first_of_statement(segments: Sequence[Segment], index: int) -> int:
    """Returns where the top-level statement begins that a segment is part of: where its outermost block was opened.

    Args:
        segments: From index 0 on, without gaps.
        index: Of the segment.
    """
    opened: list[int] = []
    for segment in segments[:index]:
        if segment.is_replan:
            opened.clear()
        elif segment.block_edge is BlockEdge.OPENS:
            opened.append(segment.index)
        elif segment.block_edge is BlockEdge.CLOSES:
            opened.pop()
    return opened[0] if opened else index


def num_open_blocks(segments: Iterable[Segment]) -> int:
    """Returns how many blocks are open behind the segments of a plan, which begin with index 0."""
    count = 0
    for segment in segments:
        count += {BlockEdge.OPENS: 1, BlockEdge.CLOSES: -1}.get(segment.block_edge, 0)
        if segment.is_replan:
            count = 0
    return count


def statement_text(segments: Sequence[Segment], index: int) -> str:
    """Returns the top-level statement that a segment is part of, as far as it is there, with its blocks closed.

    Args:
        segments: From index 0 on, without gaps.
        index: Of the segment.
    """
    text, num_open = "", 0
    for segment in segments[first_of_statement(segments, index) :]:
        if segment.is_replan:
            break
        text += segment.text
        num_open += {BlockEdge.OPENS: 1, BlockEdge.CLOSES: -1}.get(segment.block_edge, 0)
        if not num_open:
            break
    return text + "}" * num_open


def carried_out(segments: Sequence[Segment], failed: Iterable[int]) -> tuple[Segment, ...]:
    """Returns the segments of a plan with replans that were carried out, or will be: all but failed and void ones.

    A top-level statement counts as a whole: a block in which something failed has failed.

    Args:
        segments: From index 0 on, without gaps.
        failed: Indices of those that failed.
    """
    failures = sorted(failed)
    kept: list[Segment] = []
    for segment in segments:
        if segment.is_replan:
            last = max((index for index in failures if index < segment.index), default=segment.index)
            kept = [s for s in kept if s.index < first_of_statement(segments, last)]
        elif segment.index not in failures:
            kept.append(segment)
    return tuple(kept)


class ReportStatus(Enum):
    """What a robot says of a segment."""

    STARTED = 1
    SUCCEEDED = 2
    FAILED = 3
    SKIPPED = 4  # in the block of a condition that was false, or its end; or behind the return that ended the plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Where a robot stands, and what it sees there.

    Attributes:
        scene: As in ``PlanRequest``; untrusted.
        pose: None if it does not know.
    """

    scene: str = ""
    pose: Pose | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentReport:
    """A robot's word on one segment: sharpens the estimate of when it will be idle.

    Attributes:
        duration_s: Measured execution time; 0 with STARTED, and if it was not measured.
        value: What the last call of the segment returned, if anything.
        reason: Why it failed; empty otherwise.
        situation: Given with FAILED by a robot that stands and waits for a replan; None if it has given
            the goal up.
        is_permanent: With FAILED: no other plan can help.
        said: With SUCCEEDED and FAILED: what the robot said meanwhile; where its plan returned, the answer in words.
        enters_block: With SUCCEEDED of a segment that opens a block: whether its condition was true.
    """

    request_id: str
    index: int
    status: ReportStatus
    duration_s: float = 0.0
    value: Value | None = None
    reason: str = ""
    situation: Situation | None = None
    is_permanent: bool = False
    said: tuple[str, ...] = ()
    enters_block: bool = False

    @property
    def measured_s(self) -> float | None:
        """The execution time in seconds; None if it was not measured, or is no time that a segment can take."""
        return self.duration_s if 0 < self.duration_s <= LONGEST_DURATION_S else None


class MarkStatus(Enum):
    """How a segment went in the end."""

    NOT_RUN = 0
    SUCCEEDED = 2
    FAILED = 3
    SKIPPED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentMark:
    """How one segment of a goal went.

    Attributes:
        reason: Why it failed; empty otherwise.
        value: What its last call returned, if anything.
        said: What the robot said meanwhile; where its plan returned, the answer in words.
    """

    status: MarkStatus = MarkStatus.NOT_RUN
    reason: str = ""
    value: Value | None = None
    said: tuple[str, ...] = ()


def marks_of(segments: Sequence[Segment], reports: Iterable[SegmentReport]) -> tuple[SegmentMark, ...]:
    """Returns how each segment of a plan went, by the robot's reports.

    The end of a segment implies the end of those before it whose reports were lost, unless they were void: behind a
    failure, up to the replan. In the block of a condition that was false they were skipped: the opening says so, or
    what was skipped of the block, unless the plan may have returned before.

    Args:
        segments: From index 0 on, without gaps.
        reports: Those that counted; of each segment the first end counts.
    """
    ends: dict[int, SegmentReport] = {}
    for report in reports:
        if report.status is not ReportStatus.STARTED:
            ends.setdefault(report.index, report)
    last_end = max(ends, default=-1)
    marks: list[SegmentMark] = []
    is_void = False
    skips: list[bool] = []  # by open block
    skipped_blocks = _skipped_blocks(segments, ends)
    for segment in segments:
        is_void &= not segment.is_replan
        end = ends.get(segment.index)
        is_skipped = any(skips)
        if segment.is_replan:
            skips.clear()
        elif segment.block_edge is BlockEdge.OPENS:
            is_false = segment.index in skipped_blocks or (end is not None and not end.enters_block)
            skips.append(is_skipped or is_false)
        elif segment.block_edge is BlockEdge.CLOSES:
            skips.pop()
        if end is not None:
            status, is_void = MarkStatus[end.status.name], end.status is ReportStatus.FAILED
            marks.append(SegmentMark(status=status, reason=end.reason, value=end.value, said=end.said))
        elif segment.is_replan or is_void or segment.index > last_end:
            marks.append(SegmentMark())
        else:
            marks.append(SegmentMark(status=MarkStatus.SKIPPED if is_skipped else MarkStatus.SUCCEEDED))
    return tuple(marks)


def _skipped_blocks(segments: Sequence[Segment], ends: Mapping[int, SegmentReport]) -> set[int]:
    """Returns the openings of blocks that were skipped as a whole, as a segment in them or their end says."""
    found: set[int] = set()
    opened: list[int] = []
    may_have_returned = False
    for segment in segments:
        end = ends.get(segment.index)
        is_skipped = end is not None and end.status is ReportStatus.SKIPPED
        if is_skipped and opened and not may_have_returned:
            found.add(opened[-1])
        may_have_returned |= "->" in segment.text and not is_skipped
        if segment.is_replan:
            opened.clear()
            may_have_returned = False
        elif segment.block_edge is BlockEdge.OPENS:
            opened.append(segment.index)
        elif segment.block_edge is BlockEdge.CLOSES:
            opened.pop()
    return found
