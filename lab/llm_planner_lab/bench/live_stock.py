# SPDX-License-Identifier: Apache-2.0
"""vLLM's own scheduler in a live replay: the planner around it stays, with its parser, its gate and its segments."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from llm_planner.assembly import build_loop
from llm_planner.core.config import PlannerConfig, SchedulerConfig
from llm_planner.core.interfaces import Backend
from llm_planner.serving.loop import PlannerLoop
from llm_planner_lab.bench.step_log import LoggedBackend

if TYPE_CHECKING:
    from vllm.config.scheduler import SchedulerPolicy

    from llm_planner.backends.vllm.backend import VllmBackend

STOCK_POLICIES = {"vllm_fcfs": "fcfs", "vllm_priority": "priority"}
"""Names that stand for vLLM's own policies where a benchmark takes the names of ours."""
UNLIMITED = SchedulerConfig(policy="fcfs_stream", max_num_seqs=1024, max_num_batched_tokens=1_000_000)
"""Hands every request to vLLM at once. Segments go out as soon as they are complete; no request is suspended."""


def build_stock_loop(config: PlannerConfig, path: Path, policy: str, priorities: Mapping[str, int]) -> PlannerLoop:
    """Returns a loop whose vLLM schedules by itself, within the limits of ``config``.

    Args:
        config: With backend vllm.
        path: Of the log of steps.
        policy: One of ``STOCK_POLICIES``.
        priorities: By request id, what a client of vLLM would give it: the smallest comes first.
    """
    config = replace(config, waits_for_plan_s=0.0, scheduler=replace(config.scheduler, policy=UNLIMITED.policy))
    limits = replace(UNLIMITED, network_latency_s=config.scheduler.network_latency_s)
    watch = partial(_stock, path, STOCK_POLICIES[policy], config.scheduler.max_num_seqs, priorities)
    return build_loop(config, watch=watch, limits=limits)


def _stock(path: Path, policy: str, num_slots: int, priorities: Mapping[str, int], backend: Backend) -> LoggedBackend:
    from llm_planner_lab.bench.vllm_stock import use_stock

    use_stock(
        cast("VllmBackend", backend),
        cast("SchedulerPolicy", policy),
        num_slots,
        lambda request_id: priorities.get(request_id, 0),
    )
    return LoggedBackend(path, backend)
