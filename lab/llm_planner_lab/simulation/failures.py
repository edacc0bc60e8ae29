# SPDX-License-Identifier: Apache-2.0
"""Robots that fail: what a trace says of segments that do not work out."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.model import RobotKind
from llm_planner_lab.simulation.trace import SegmentFailure, Trace, TraceRequest

MAX_SHARE = 0.9
REASONS: Mapping[RobotKind, Sequence[str]] = {
    RobotKind.DRONE: ("something is in the way", "it is not in sight", "the wind is too strong"),
    RobotKind.GROUND: ("something is in the way", "it is not in sight", "a wheel slips"),
    RobotKind.ARM: ("the grasp was lost", "it is out of reach", "something is in the way"),
}


def with_failures(trace: Trace, share: float, seed: int, robots: RobotLibrary) -> Trace:
    """Returns the trace with robots that fail; arrivals, plans and durations stay as they are.

    Whenever a robot carries a segment out, a second try included, it fails with probability ``share``: after a uniform
    part of its time, with a reason for its kind of robot. Answers in words do not fail.

    Args:
        trace: Without failures, or they are replaced.
        share: 0 to 0.9.
        seed: The same one gives the same failures.
        robots: The trace's.

    Raises:
        PlannerError: INVALID_CONFIG for another share.
    """
    if not 0 <= share <= MAX_SHARE:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"a share of failures is 0 to {MAX_SHARE}, not {share}")
    rng = random.Random(f"{trace.name}/{seed}/failures")

    def drawn(row: TraceRequest) -> TraceRequest:
        reasons = REASONS[robots.get(row.robot_model).kind]
        failures: list[SegmentFailure] = []
        for place, duration_s in enumerate(() if row.urgency == "chat" else row.durations_s):
            while rng.uniform(0.0, 1.0) < share:
                after_s = rng.uniform(0.0, duration_s)
                failures.append(SegmentFailure(segment=place, duration_s=after_s, reason=rng.choice(reasons)))
        return replace(row, failures=tuple(failures))

    return replace(trace, requests=tuple(map(drawn, trace.requests)), about={**trace.about, "failures": share})
