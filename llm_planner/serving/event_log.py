# SPDX-License-Identifier: Apache-2.0
"""The event log of a planner: what happened to its goals, one JSON line per event.

{"event": "accepted", "time_s": ..., "request_id": ..., "instruction": ...}
{"event": "segment" | "report" | "finished", ...}
"""

from dataclasses import asdict
from typing import Any

from llm_planner.core.request import PlanRequest, PlanResult
from llm_planner.core.segment import BlockEdge, Segment, SegmentReport

FORMAT, VERSION = "lrtrace", 2
"""Of the lines, and of the files that hold them (docs/traces.md)."""
Line = dict[str, Any]


def accepted(request: PlanRequest, time_s: float) -> Line:
    """Returns the line that says what a robot asked, and when."""
    return {
        "event": "accepted",
        "time_s": time_s,
        "request_id": request.request_id,
        "robot_id": request.robot_id,
        "robot_model": request.robot_model,
        "urgency": request.urgency.name.lower(),
        "time_utility": asdict(request.time_utility),
        "instruction": request.instruction,
        "scene": request.scene,
        "start_pose": None if request.start_pose is None else asdict(request.start_pose),
    }


def segment_sent(request_id: str, segment: Segment, time_s: float) -> Line:
    """Returns the line that says which segment left the planner, and when."""
    return {
        "event": "segment",
        "time_s": time_s,
        "request_id": request_id,
        "index": segment.index,
        "text": segment.text,
        **({"is_replan": True} if segment.is_replan else {}),
        **({} if segment.block_edge is BlockEdge.NONE else {"block_edge": segment.block_edge.name.lower()}),
        "num_tokens": segment.num_tokens,
        "expected_s": segment.expected.p50_s,
        "expected_p90_s": segment.expected.p90_s,
        "generation_s": segment.generation_time_s,
    }


def reported(report: SegmentReport, time_s: float) -> Line:
    """Returns the line that says what a robot reported, and when that was received."""
    return {
        "event": "report",
        "time_s": time_s,
        "request_id": report.request_id,
        "index": report.index,
        "status": report.status.name.lower(),
        "duration_s": report.duration_s,
        **({"reason": report.reason} if report.reason else {}),
        **({"said": list(report.said)} if report.said else {}),
        **({"value": report.value} if report.value is not None else {}),
    }


def finished(result: PlanResult, time_s: float) -> Line:
    """Returns the line that says how a goal ended, and when."""
    return {
        "event": "finished",
        "time_s": time_s,
        "request_id": result.request_id,
        "error_code": int(result.error_code),
        "error_msg": result.error_msg,
        "num_prompt_tokens": result.metrics.num_prompt_tokens,
        "num_cached_tokens": result.metrics.num_cached_tokens,
    }
