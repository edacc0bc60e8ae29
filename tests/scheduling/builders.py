# SPDX-License-Identifier: Apache-2.0
"""Builders with defaulted arguments for tests of the scheduler."""

import sys
from typing import Any

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.execution_time import EngineTimes
from llm_planner.core.interfaces import BackendInfo
from llm_planner.core.request import PlanRequest
from llm_planner.core.segment import ExpectedDuration, ReportStatus, Segment, SegmentReport
from llm_planner.core.step import SchedulerOutput, Sequence, StepOutput
from llm_planner.scheduling.execution_tracker import ExecutionTracker
from llm_planner.scheduling.generation import Generation
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler

NETWORK_S = 0.008


def make_expected(seconds: float = 1.0, min_s: float | None = None, p90_s: float | None = None) -> ExpectedDuration:
    return ExpectedDuration(
        min_s=seconds if min_s is None else min_s, p50_s=seconds, p90_s=seconds if p90_s is None else p90_s
    )


def make_segment(index: int = 0, seconds: float = 1.0, **expected: float) -> Segment:
    return Segment(index=index, text="a();", calls=(), expected=make_expected(seconds, **expected))


def make_report(
    index: int = 0, status: ReportStatus = ReportStatus.SUCCEEDED, duration_s: float = 1.0, request_id: str = "r"
) -> SegmentReport:
    return SegmentReport(request_id=request_id, index=index, status=status, duration_s=duration_s)


def make_tracker(arrival_s: float = 0.0, network_latency_s: float = NETWORK_S) -> ExecutionTracker:
    return ExecutionTracker(arrival_s, network_latency_s)


def make_generation(
    request_id: str = "r", num_prompt_tokens: int = 20, num_cached_tokens: int = 0, arrival_s: float = 0.0
) -> Generation:
    request = PlanRequest(request_id=request_id, robot_id=request_id, robot_model="tello", instruction="go")
    sequence = Sequence(
        request_id=request_id,
        prompt_token_ids=tuple(range(num_prompt_tokens)),
        prefix_id="system" if num_cached_tokens else None,
        num_cached_tokens=num_cached_tokens,
    )
    return Generation(
        request=request,
        sequence=sequence,
        arrival_s=arrival_s,
        execution=make_tracker(arrival_s),
        max_output_tokens=512,
    )


def make_scheduler(
    policy: str = "fcfs_segment",
    num_kv_blocks: int = 1000,
    block_size: int = 4,
    can_offload: bool = True,
    num_host_blocks: int = sys.maxsize,
    can_insert: bool = True,
    keeps_kv: bool = False,
    num_stages: int = 1,
    times: EngineTimes | None = None,
    **config: Any,
) -> Scheduler:
    info = BackendInfo(
        model="fake",
        num_kv_blocks=num_kv_blocks,
        block_size=block_size,
        max_model_len=num_kv_blocks * block_size,
        can_offload=can_offload,
        num_host_blocks=num_host_blocks,
        can_insert=can_insert,
        keeps_kv=keeps_kv,
        num_stages=num_stages,
    )
    return Scheduler(SchedulerConfig(policy=policy, **config), make_policy(policy), info, times)


def run(
    scheduler: Scheduler,
    scheduled: SchedulerOutput,
    now_s: float = 0.0,
    segments: dict[str, float] | None = None,
    duration_s: float = 0.01,
) -> None:
    """Executes a step as a backend would; ``segments`` maps requests that complete one to its seconds."""
    running = {g.request_id: g for g in scheduler.generations}
    token_ids = {
        request_id: (7,)
        for request_id, num_tokens in scheduled.num_scheduled_tokens.items()
        if running[request_id].num_uncomputed_tokens == num_tokens
    }
    for request_id, seconds in (segments or {}).items():
        execution = running[request_id].execution
        execution.deliver(make_segment(execution.num_delivered, seconds), now_s)
    output = StepOutput(token_ids=token_ids, duration_s=duration_s)
    scheduler.update(scheduled, output, dict.fromkeys(segments or {}, 1), now_s)
    scheduler.check_integrity()
