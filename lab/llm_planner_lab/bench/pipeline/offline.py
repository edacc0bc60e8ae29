# SPDX-License-Identifier: Apache-2.0
"""The offline scenario, section 5.2.1: all requests of a workload are there at the start."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llm_planner_lab.bench.pipeline.published import TABLE_1, Times, Workload
from llm_planner_lab.simulation.pipeline.profile import PipelineProfile
from llm_planner_lab.simulation.pipeline.request import PipelineRequest
from llm_planner_lab.simulation.pipeline.schedulers import (
    BASELINE,
    BOTH,
    OURS,
    TOKEN_BUDGET,
    VLLM_TODAY,
    build_scheduler,
)
from llm_planner_lab.simulation.pipeline.simulator import PipelineRun, simulate
from llm_planner_lab.simulation.pipeline.stages import Stages

OFFLINE = (BASELINE, TOKEN_BUDGET, BOTH, VLLM_TODAY, OURS)
PUBLISHED = (BASELINE, TOKEN_BUDGET, BOTH)


def run_workload(workload: Workload, name: str, profile: PipelineProfile, *, is_recorded: bool = False) -> PipelineRun:
    """Returns what becomes of a workload under the scheduler of that name."""
    requests = [
        PipelineRequest(
            request_id=number,
            num_prompt_tokens=workload.num_prompt_tokens,
            num_output_tokens=workload.num_output_tokens,
        )
        for number in range(workload.num_requests)
    ]
    stages = Stages(profile.num_stages, profile.times, is_recorded=is_recorded)
    return simulate(requests, build_scheduler(name, profile), stages)


def run_offline(
    profile: PipelineProfile,
    workloads: Sequence[Workload],
    names: Iterable[str],
    on_progress: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Returns one row per workload: what was published, and what each scheduler reaches here."""
    rows = []
    for workload in workloads:
        on_progress(f"workload {workload.name}")
        row: dict[str, Any] = {"name": workload.name, "published": _published(workload)}
        for name in names:
            row[name] = figures(run_workload(workload, name, profile))
        rows.append(row)
    return rows


def figures(run: PipelineRun) -> dict[str, Any]:
    """Returns what is reported of a run."""
    return {
        "completion_s": run.completion_s,
        "processing_s": run.processing_s,
        "idle_s": run.idle_s,
        "num_micro_batches": run.num_micro_batches,
        "num_preemptions": run.num_preemptions,
        "num_recomputed_tokens": run.num_recomputed_tokens,
    }


def summary(rows: Sequence[dict[str, Any]], name: str, against: str = BASELINE) -> dict[str, float]:
    """Returns speed-ups and reductions of idle time of one scheduler against another, over all workloads."""
    speedups = [row[against]["completion_s"] / row[name]["completion_s"] for row in rows]
    reductions = [1.0 - row[name]["idle_s"] / row[against]["idle_s"] for row in rows]
    return {
        "mean_speedup": statistics.fmean(speedups),
        "max_speedup": max(speedups),
        "min_speedup": min(speedups),
        "mean_idle_reduction": statistics.fmean(reductions),
        "max_idle_reduction": max(reductions),
        "min_idle_reduction": min(reductions),
    }


def fidelity(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Returns, per published column, how far simulated times are off, as fractions of the published ones.

    ``worst`` and ``mean_absolute`` are of Completion, ``mean_idle`` of Idle: that is the mean with its sign.
    """
    result = {}
    for name in PUBLISHED:
        known = [row for row in rows if row["published"] is not None]
        errors = [row[name]["completion_s"] / row["published"][name]["completion_s"] - 1.0 for row in known]
        if errors:
            idle = [row[name]["idle_s"] / row["published"][name]["idle_s"] - 1.0 for row in known]
            result[name] = {
                "mean_idle": statistics.fmean(idle),
                "worst": max(errors, key=abs),
                "mean_absolute": statistics.fmean(map(abs, errors)),
            }
    return result


def _published(workload: Workload) -> dict[str, dict[str, float]] | None:
    row = TABLE_1.get(workload)
    return None if row is None else {name: _times(times) for name, times in zip(PUBLISHED, row, strict=True)}


def _times(times: Times) -> dict[str, float]:
    return times._asdict()
