# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench artifact``: policies on the workloads that the authors of TimelyLLM published, simulated."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.profile import DecodeCost, EngineProfile, PrefillCost, find_profile
from llm_planner.robots.library import RobotLibrary
from llm_planner.scheduling.policies import make_policy
from llm_planner_lab.bench.timely.metrics import policy_metrics
from llm_planner_lab.checkout import commit
from llm_planner_lab.simulation.script import ScriptLibrary
from llm_planner_lab.simulation.simulator import SimulationConfig, simulate
from llm_planner_lab.simulation.tasks import TASKS
from llm_planner_lab.simulation.timelyllm_samples import SAMPLE_1, SAMPLE_2, trace
from llm_planner_lab.simulation.trace import Trace

PAPER_VLLM, PAPER_TIMELYLLM = 0.595, 0.815
"""Utility of urgent requests as a share of the maximum (TimelyLLM, Fig. 5a)."""
POLICIES = ("fcfs", "fcfs_stream", "fcfs_segment", "edf_segment", "pud_printed", "timelyllm_artifact", "tardiness")
WHOLE = "fcfs"
MAX_NUM_SEQS = 8
"""As the artifact starts vLLM."""
FACTORS, NUM_HALVINGS = (0.05, 20.0), 20

Run = Callable[[str, float], dict[str, Any]]
_Cost = TypeVar("_Cost", PrefillCost, DecodeCost)


def run_artifact(
    profile: str = "llama3-8b-rtx4090",
    policies: tuple[str, ...] = POLICIES,
    note: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Returns the JSON document: the policies' metrics on both workloads, with prompts that share prefixes and without.

    The engine is the profile's, slower by the one factor with which whole answers, first come, first served, reach on
    sample 2 the utility that the paper measured of vLLM: it is found before anything else runs.

    Raises:
        PlannerError: An unknown policy or profile; INVALID_CONFIG if no factor reaches the paper's figure.
    """
    for name in policies:
        make_policy(name)
    engine, scripts = find_profile(profile), ScriptLibrary(RobotLibrary())
    workloads = {"sample 2 (WID 1)": trace(SAMPLE_2), "sample 1 (WID 2)": trace(SAMPLE_1)}
    calibration, *_ = workloads.values()

    def run(policy: str, factor: float, *, reuses_prefixes: bool, workload: Trace = calibration) -> dict[str, Any]:
        scheduler = SchedulerConfig(policy=policy, max_num_seqs=MAX_NUM_SEQS)
        config = SimulationConfig(profile=slowed(engine, factor), scheduler=scheduler, reuses_prefixes=reuses_prefixes)
        return policy_metrics([simulate(workload, config, scripts)])

    cases = []
    for reuses_prefixes in (True, False):
        run_case = partial(run, reuses_prefixes=reuses_prefixes)
        factor = calibrated(run_case)
        for title, workload in workloads.items():
            found = {name: by_class(run_case(name, factor, workload=workload)) for name in policies}
            cases.append({"workload": title, "reuses_prefixes": reuses_prefixes, "factor": factor, "policies": found})
            note(f"{title}, prefixes {'' if reuses_prefixes else 'not '}reused, engine x {factor:.2f}")
            for name, metrics in found.items():
                shares = " ".join(f"{c} {100 * m['share_of_max']:7.2f} %" for c, m in metrics.items())
                note(f"  {name:18s} {shares}")
    return {
        "engine": "simulated",
        "profile": profile,
        "commit": commit(),
        "num_requests": {title: len(workload.requests) for title, workload in workloads.items()},
        "max_num_seqs": MAX_NUM_SEQS,
        "paper": {"vllm": PAPER_VLLM, "timelyllm": PAPER_TIMELYLLM},
        "cases": cases,
    }


def slowed(profile: EngineProfile, factor: float) -> EngineProfile:
    """Returns a profile whose prompts and decode steps take ``factor`` times as long."""
    return replace(profile, prefill=_times(profile.prefill, factor), decode=_times(profile.decode, factor))


def _times(cost: _Cost, factor: float) -> _Cost:
    values = {name: getattr(cost, name) for name in cost.__dataclass_fields__}
    return replace(cost, **{name: replace(value, value=factor * value.value) for name, value in values.items()})


def calibrated(run: Run) -> float:
    """Returns the factor with which whole answers reach the paper's figure of vLLM; raises as ``run_artifact``."""
    low, high = FACTORS
    if not _urgent(run(WHOLE, high)) < PAPER_VLLM < _urgent(run(WHOLE, low)):
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"no factor from {low:g} to {high:g} brings whole answers to {PAPER_VLLM:.1%}; take another profile",
        )
    for _ in range(NUM_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _urgent(run(WHOLE, middle)) > PAPER_VLLM else (low, middle)
    return math.sqrt(low * high)


def _urgent(metrics: Mapping[str, Any]) -> float:
    share: float = by_class(metrics)["urgent"]["share_of_max"]
    return share


def by_class(metrics: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Returns the figures of urgent and normal requests, each task type counting the same, as the artifact has it."""
    found = {}
    for name in ("urgent", "normal"):
        tasks = [m for task, m in metrics.items() if task.isdigit() and TASKS[int(task)].urgency.name.lower() == name]
        found[name] = {
            "n": metrics[name]["n"],
            "share_of_max": math.fsum(m["utility_share_of_max"] for m in tasks) / len(tasks),
            "response_mean_s": metrics[name]["response_time_s"]["mean"],
            "response_p99_s": metrics[name]["response_time_s"]["p99"],
            "deadline_hit": metrics[name]["deadline_hit"],
            "share_served": metrics[name]["share_served"],
        }
    return found
