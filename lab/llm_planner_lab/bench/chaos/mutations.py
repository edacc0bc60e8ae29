# SPDX-License-Identifier: Apache-2.0
"""Defects on purpose: a campaign that does not find them proves nothing."""

import os
from typing import Any

from llm_planner.core.segment import Segment
from llm_planner.core.skill import SkillCall
from llm_planner.robots.driver import SkillResult, SkillStatus
from llm_planner.robots.executor import SegmentExecutor
from llm_planner_lab.bench.chaos.patching import put, take

NAMES = ("foreign", "twice", "unadmitted", "deaf", "dies")
"""Carries out a segment of the goal before; carries one out twice; calls on its own; ignores silence; ends itself."""
EVERY = 2  # goals or segments: the fleet works between two defects


def install(defects: str, robot: str) -> None:
    """Breaks the robot of this process.

    Args:
        defects: A name for all robots, or ``robot=name`` for some, with commas between; empty for none.
        robot: The robot of this process.

    Raises:
        ValueError: For a name that is none.
    """
    pairs = dict(pair.split("=", 1) for pair in defects.split(",") if "=" in pair)
    name = pairs.get(robot, "") if pairs else defects
    if name and name not in NAMES:
        raise ValueError(f"no defect {name!r}; known are {', '.join(NAMES)}")
    if name:
        {"foreign": _foreign, "twice": _twice, "unadmitted": _unadmitted, "deaf": _deaf, "dies": _dies}[name]()


def _foreign() -> None:
    begin, add = take(SegmentExecutor, "begin"), take(SegmentExecutor, "add")
    last, count = list[Segment](), [0]

    def begin_with_old(executor: SegmentExecutor, request_id: str, now_s: float, **rest: Any) -> None:
        begin(executor, request_id, now_s, **rest)
        count[0] += 1
        if last and count[0] % EVERY == 0:
            executor._waiting[0] = last[0]  # noqa: SLF001
        last.clear()

    def add_noting(executor: SegmentExecutor, request_id: str, segment: Segment, now_s: float) -> bool:
        last[:] = last or [segment]
        return bool(add(executor, request_id, segment, now_s))

    put(SegmentExecutor, "begin", begin_with_old)
    put(SegmentExecutor, "add", add_noting)


def _twice() -> None:
    start, ended = take(SegmentExecutor, "_start_segment"), take(SegmentExecutor, "_segment_ended")
    current, count = list[Segment](), [0]

    def start_noting(executor: SegmentExecutor, segment: Segment, now_s: float) -> None:
        current[:] = [segment]
        start(executor, segment, now_s)

    def ended_twice(executor: SegmentExecutor, result: SkillResult, now_s: float) -> None:
        count[0] += 1
        ended(executor, result, now_s)
        if result.status is SkillStatus.SUCCEEDED and count[0] % EVERY == 0:
            executor._next_index -= 1  # noqa: SLF001
            executor._waiting[executor._next_index] = current[0]  # noqa: SLF001

    put(SegmentExecutor, "_start_segment", start_noting)
    put(SegmentExecutor, "_segment_ended", ended_twice)


def _unadmitted() -> None:
    start, count = take(SegmentExecutor, "_start_segment"), [0]

    def start_another(executor: SegmentExecutor, segment: Segment, now_s: float) -> None:
        count[0] += 1
        if count[0] % EVERY == 0:
            executor._driver.start(SkillCall("tp"), now_s)  # noqa: SLF001
            executor._driver.halt(now_s)  # noqa: SLF001
        start(executor, segment, now_s)

    put(SegmentExecutor, "_start_segment", start_another)


def _deaf() -> None:
    put(SegmentExecutor, "_mind_silence", lambda *_: None)


def _dies() -> None:
    begin, count = take(SegmentExecutor, "begin"), [0]

    def begin_or_die(executor: SegmentExecutor, request_id: str, now_s: float, **rest: Any) -> None:
        count[0] += 1
        if count[0] == EVERY:
            os._exit(3)
        begin(executor, request_id, now_s, **rest)

    put(SegmentExecutor, "begin", begin_or_die)
