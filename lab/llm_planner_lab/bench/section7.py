# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench section7``: every experiment of TimelyLLM's evaluation, as JSON, figures and one page."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llm_planner.core.config import SchedulerConfig
from llm_planner_lab.bench.decision import run_decision
from llm_planner_lab.bench.timely import figures
from llm_planner_lab.bench.timely.benchmark import Lab, TimelyBench, run_timely
from llm_planner_lab.simulation.workload import workload

POLICIES = ("fcfs", "fcfs_stream", "fcfs_segment", "edf_segment", "pud_printed", "gain_density", "pud", "tardiness")
WHOLE_STEP_POLICIES = ("fcfs_segment", "edf_segment", "pud_printed")
LIMITS = SchedulerConfig(resume_margin_s=0.15)
SMALL_STEPS_TOKENS = 192
LOADS = (0.5, 1.0, 2.0, 4.0)
BATCH_SIZES = (1, 2, 4, 6, 8, 12, 16)
QUEUES = (8, 1000, 10000)
FIRST_SEED = 100
"""The constants of the policies were chosen on traces with seeds 0 to 4; these were never looked at before."""
ADDITIVE_PROFILE = "llama3-8b-rtx4090-additive"
ADDITIVE_POLICIES = ("fcfs_segment", "edf_segment", "pud", "tardiness")
FLEETS = (25, 100, 200, 400, 600, 800, 1000)
FLEET_DURATION_S, FLEET_SLOTS = 60.0, 64


@dataclass(frozen=True, slots=True)
class Section7:
    """Runs the experiments.

    Args:
        lab: Shared traces and scripts.
        num_seeds: Traces per policy; one for the fleets.
        note: Receives one line per run.
    """

    lab: Lab
    num_seeds: int
    note: Callable[[str], None]

    def run(self) -> dict[str, Any]:
        """Returns all documents by the name of the experiment."""
        documents: dict[str, Any] = {}
        for wid in ("wid1", "wid2", "wid3"):
            for reuses in (True, False):
                name = f"{wid}{'' if reuses else '_no_reuse'}"
                documents[name] = self._timely(wid, reuses_prefixes=reuses)
        for wid in ("wid1", "wid2"):
            documents[f"{wid}_load"] = [self._timely(wid, load=load) for load in LOADS]
        documents["wid2_additive"] = [
            self._timely("wid2", load=load, profile=ADDITIVE_PROFILE, policies=ADDITIVE_POLICIES) for load in (1.0, 4.0)
        ]
        small = replace(LIMITS, max_num_batched_tokens=SMALL_STEPS_TOKENS)
        documents["wid2_small_steps"] = [
            self._timely("wid2", load=load, scheduler=small, policies=WHOLE_STEP_POLICIES) for load in (1.0, 4.0)
        ]
        documents["wid2_batch_size"] = [
            self._timely(
                "wid2",
                scheduler=replace(LIMITS, max_num_seqs=size),
                policies=("fcfs", "pud", "tardiness"),
            )
            for size in BATCH_SIZES
        ]
        documents["fleet"] = [self._fleet(num_robots) for num_robots in FLEETS]
        documents["decision"] = run_decision(QUEUES, "tardiness")
        return documents

    def _fleet(self, num_robots: int) -> dict[str, Any]:
        """Returns the run of a minute of WID 1, as busy per robot as there, with ``num_robots`` robots."""
        load = num_robots / workload("wid1").num_robots
        slots = replace(LIMITS, max_num_seqs=FLEET_SLOTS)
        document = self._timely(
            "wid1",
            load=load,
            duration_s=FLEET_DURATION_S,
            num_seeds=1,
            scheduler=slots,
            policies=("fcfs_segment", "tardiness"),
        )
        return {**document, "num_robots": num_robots}

    def _timely(self, wid: str, **changes: Any) -> dict[str, Any]:
        fields = {
            "policies": POLICIES,
            "num_seeds": self.num_seeds,
            "first_seed": FIRST_SEED,
            "scheduler": LIMITS,
            **changes,
        }
        return run_timely(TimelyBench(workload=wid, **fields), self.lab, self.note)


def draw(documents: Mapping[str, Any], lab: Lab, directory: Path) -> None:
    """Draws all figures."""
    for name in ("wid1", "wid2", "wid2_no_reuse", "wid3"):
        figures.draw_utility_by_task(documents[name], directory / f"timely_{name}_tasks.png")
    figures.draw_sweep(
        documents["wid2_batch_size"], "max_num_seqs", "batch size", directory / "timely_wid2_batch_size.png", "all"
    )
    for name in ("wid1", "wid2"):
        figures.draw_sweep(
            documents[f"{name}_load"], "load", "load, 1 = Table 3", directory / f"timely_{name}_load.png"
        )
    bench = TimelyBench(workload="wid2", num_seeds=1, first_seed=FIRST_SEED, scheduler=LIMITS)
    runs = {policy: [lab.run(bench, policy)] for policy in POLICIES}
    figures.draw_response_cdf(runs, "wid2, 1x load, prefixes reused, simulated", directory / "timely_wid2_cdf.png")
    for policy in ("fcfs", "tardiness"):
        figures.draw_two_rows(runs[policy][0], policy, directory / f"timely_two_rows_{policy}.png")


def rounded(value: Any) -> Any:
    """Returns a document with numbers of six significant digits."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
