# SPDX-License-Identifier: Apache-2.0
"""The whole benchmark: the ten workloads, and what comes with them; the JSON document."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner_lab.bench.pipeline.offline import OFFLINE, fidelity, run_offline, summary
from llm_planner_lab.bench.pipeline.online import OVERLOAD_PER_S, OVERLOADED, run_online
from llm_planner_lab.bench.pipeline.published import TABLE_1, Workload
from llm_planner_lab.bench.pipeline.sweeps import run_sweeps
from llm_planner_lab.bench.section7 import rounded
from llm_planner_lab.checkout import commit
from llm_planner_lab.simulation.pipeline.profile import DEFAULT_PIPELINE, PipelineProfile, find_pipeline
from llm_planner_lab.simulation.pipeline.schedulers import BOTH, NAMES, OURS, VLLM_TODAY


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineBench:
    """What is simulated.

    Attributes:
        profile: A name or a YAML file.
        workloads: Req/In/Out each.
        num_stages: Instead of the profile's.
        bandwidth_mbps: Instead of the profile's.
        token_budget: Instead of the profile's static budget.
        num_online_seeds: Traces of the online scenario; 0 leaves it out.
        has_sweeps: Whether bandwidth, stages and skew are varied.
    """

    profile: str = DEFAULT_PIPELINE
    workloads: tuple[Workload, ...] = tuple(TABLE_1)
    num_stages: int | None = None
    bandwidth_mbps: float | None = None
    token_budget: int | None = None
    num_online_seeds: int = 1
    has_sweeps: bool = True


def run_pipeline(bench: PipelineBench, on_progress: Callable[[str], None]) -> dict[str, Any]:
    """Returns the JSON document.

    Raises:
        PlannerError: INVALID_CONFIG if the profile is missing or broken, or a setting is outside its range.
    """
    profile = changed_profile(bench)
    rows = run_offline(profile, bench.workloads, OFFLINE, on_progress)
    parts: dict[str, Any] = {}
    if bench.num_online_seeds:
        seeds = range(1, bench.num_online_seeds + 1)
        parts["online"] = run_online(profile, seeds, on_progress)
        parts["overload"] = run_online(profile, seeds, on_progress, OVERLOAD_PER_S, OVERLOADED)
    if bench.has_sweeps:
        parts["sweeps"] = run_sweeps(profile, on_progress)
    return assemble(profile, rows, parts)


def assemble(profile: PipelineProfile, rows: list[dict[str, Any]], parts: dict[str, Any]) -> dict[str, Any]:
    """Returns the document of what was run."""
    both, ours = summary(rows, BOTH), summary(rows, OURS)
    document = {
        "workloads": rows,
        **{key: value for key, value in both.items() if not key.startswith("min_")},
        "ours": ours,
        "against_vllm_0_32": {"both": summary(rows, BOTH, VLLM_TODAY), "ours": summary(rows, OURS, VLLM_TODAY)},
        "fidelity": fidelity(rows),
        **parts,
        "setup": {
            "profile": profile.name,
            "num_stages": profile.num_stages,
            "bandwidth_mbps": profile.link.bandwidth_mbps.value,
            "num_kv_tokens": profile.num_kv_tokens,
            "max_num_batched_tokens": profile.max_num_batched_tokens,
            "schedulers": {name: NAMES[name] for name in OFFLINE},
            "time": "virtual: everything in this document is simulated, except what is called published",
            "commit": commit(),
        },
    }
    return dict(rounded(document))


def changed_profile(bench: PipelineBench) -> PipelineProfile:
    """Returns the profile with the changes that were asked for.

    Raises:
        PlannerError: INVALID_CONFIG if one of them is not possible, saying why.
    """
    profile = find_pipeline(bench.profile)
    if bench.token_budget is not None:
        try:
            profile = replace(profile, max_num_batched_tokens=bench.token_budget)
        except ValueError as error:
            raise PlannerError(ErrorCode.INVALID_CONFIG, f"--token-budget {bench.token_budget}: {error}") from error
    if bench.num_stages is not None:
        profile = profile.with_stages(bench.num_stages)
    if bench.bandwidth_mbps is not None:
        profile = profile.with_bandwidth(bench.bandwidth_mbps)
    return profile
