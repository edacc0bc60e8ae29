# SPDX-License-Identifier: Apache-2.0
"""Order, batch limit and load shedding apart; and the default policy against all others on engines of many kinds."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from llm_planner.core.config import SchedulerConfig
from llm_planner.prediction.profile import EngineProfile, find_profile
from llm_planner_lab.bench.section7 import rounded
from llm_planner_lab.bench.timely.benchmark import Lab, TimelyBench
from llm_planner_lab.bench.timely.metrics import policy_metrics
from llm_planner_lab.checkout import commit
from llm_planner_lab.simulation.records import RunRecord
from llm_planner_lab.simulation.simulator import SimulationConfig, simulate

WORKLOAD = "wid2"
PROFILE = "llama3-8b-rtx4090"
FIRST_SEED = 200
"""Not of the traces of docs/benchmarks/timely.md. The batch limit was developed with this one in view."""
LIMITS = SchedulerConfig(resume_margin_s=0.15)
DEFAULT = SchedulerConfig().policy
ORDERS = ("fcfs_segment", "edf_segment", "pud_printed", "timelyllm_artifact", "tardiness")
RIVALS = (*ORDERS[:-1], "fcfs_stream", "gain_density", "pud")
LOADS = (0.5, 1.0, 2.0, 4.0, 8.0)
INTERCEPTS = (0.0, 0.3, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A simulated engine like that of ``PROFILE``.

    Attributes:
        intercept: What a prompt chunk costs however short it is, as a share of a decode step; 0 for the profile's own.
        hides_prompts: Whether prompt tokens are computed while a decode step reads the weights, or on top of it.
        reuses_prefixes: Whether the static part of prompts is computed once.
    """

    intercept: float = 0.0
    hides_prompts: bool = True
    reuses_prefixes: bool = True

    @property
    def profile(self) -> EngineProfile:
        """The profile, changed accordingly."""
        profile = find_profile(PROFILE)
        own = profile.prefill.c_s
        constant = replace(own, value=max(own.value, self.intercept * profile.decode.base_s.value))
        return replace(profile, prefill=replace(profile.prefill, c_s=constant), hides_prompts=self.hides_prompts)


SCENES = (
    (Engine(), 1.0),
    (Engine(), 4.0),
    (Engine(reuses_prefixes=False), 1.0),
    (Engine(hides_prompts=False), 4.0),
    (Engine(hides_prompts=False, intercept=1.0), 4.0),
)
"""Engines and loads of the table of factors: with time to spare, near saturation, and overloaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverloadBench:
    """The two experiments on one set of traces.

    Attributes:
        num_seeds: Traces of each load.
        first_seed: Of the traces.
        duration_s: In which requests arrive.
        note: Receives a line per result.
    """

    num_seeds: int = 3
    first_seed: int = FIRST_SEED
    duration_s: float = 20.0
    note: Callable[[str], None] = lambda _: None
    lab: Lab = field(default_factory=Lab)

    def metrics(self, engine: Engine, load: float, scheduler: SchedulerConfig) -> dict[str, Any]:
        """Returns what a scheduler achieves: of all, urgent and normal requests, and how many steps it took."""
        bench = TimelyBench(
            workload=WORKLOAD,
            load=load,
            num_seeds=self.num_seeds,
            first_seed=self.first_seed,
            duration_s=self.duration_s,
        )
        config = SimulationConfig(profile=engine.profile, scheduler=scheduler, reuses_prefixes=engine.reuses_prefixes)
        runs = [simulate(trace, config, self.lab.scripts) for trace in self.lab.traces(bench)]
        return {**_shares(runs), "num_steps": sum(run.num_steps for run in runs)}

    def factors(self) -> Iterator[dict[str, Any]]:
        """Yields a row per engine, load, order, batch limit and shedding."""
        for (engine, load), order, limit, sheds in product(SCENES, ORDERS, ("off", "on"), (False, True)):
            scheduler = replace(LIMITS, policy=order, batch_limit=limit, sheds_load=sheds)
            metrics = self.metrics(engine, load, scheduler)
            self.note(f"{about(engine, load)}, {order}, limit {limit}, shedding {sheds}: {_line(metrics)}")
            yield {**_fields(engine, load), "order": order, "batch_limit": limit, "sheds_load": sheds, **metrics}

    def comparisons(
        self, cells: Iterable[tuple[Engine, float]] | None = None, rivals: Iterable[str] = RIVALS
    ) -> Iterator[dict[str, Any]]:
        """Yields a row per engine and load: what the default and each other policy achieve, as they are."""
        for engine, load in all_cells() if cells is None else cells:
            policies = {
                name: self.metrics(engine, load, replace(LIMITS, policy=name)) for name in (DEFAULT, *tuple(rivals))
            }
            row = {**_fields(engine, load), "policies": policies}
            self.note(
                f"{about(engine, load)}: {shortfall(row):.1f} points below the best, {urgent_gap(row):.1f} below EDF"
            )
            yield row


def all_cells() -> Iterator[tuple[Engine, float]]:
    """Yields every engine and load of the comparison."""
    for intercept, hides, reuses, load in product(INTERCEPTS, (True, False), (True, False), LOADS):
        yield Engine(intercept=intercept, hides_prompts=hides, reuses_prefixes=reuses), load


def shortfall(row: Mapping[str, Any]) -> float:
    """Returns how far the default is below the best policy in mean utility, in points of the maximum; < 0: above."""
    shares = {name: metrics["all"]["share_of_max"] for name, metrics in row["policies"].items()}
    return 100 * float(max(share for name, share in shares.items() if name != DEFAULT) - shares[DEFAULT])


def urgent_gap(row: Mapping[str, Any]) -> float:
    """Returns how far the default is below EDF in the utility of urgent requests, in points; < 0: above."""
    urgent = {name: metrics["urgent"]["share_of_max"] for name, metrics in row["policies"].items()}
    return 100 * float(urgent["edf_segment"] - urgent[DEFAULT])


def about(engine: Engine, load: float) -> str:
    """Returns an engine and a load in words."""
    way = "hidden" if engine.hides_prompts else "on top"
    return (
        f"{load:g}x, prefixes {'reused' if engine.reuses_prefixes else 'not reused'}, prompts {way}, "
        f"constant {engine.intercept:g}"
    )


def document(bench: OverloadBench, parts: Mapping[str, Iterable[dict[str, Any]]]) -> dict[str, Any]:
    """Returns the JSON document of the parts that were run."""
    about_run = {
        "workload": WORKLOAD,
        "profile": PROFILE,
        "seeds": bench.num_seeds,
        "first_seed": bench.first_seed,
        "duration_s": bench.duration_s,
        "max_num_seqs": LIMITS.max_num_seqs,
        "max_num_batched_tokens": LIMITS.max_num_batched_tokens,
        "commit": commit(),
    }
    return {name: {**about_run, "rows": rounded(list(rows))} for name, rows in parts.items()}


def engine_of(row: Mapping[str, Any]) -> Engine:
    """Returns the engine of a row."""
    return Engine(**{name: row[name] for name in ("intercept", "hides_prompts", "reuses_prefixes")})


def _fields(engine: Engine, load: float) -> dict[str, Any]:
    return {
        "load": load,
        "intercept": engine.intercept,
        "hides_prompts": engine.hides_prompts,
        "reuses_prefixes": engine.reuses_prefixes,
    }


def _shares(runs: list[RunRecord]) -> dict[str, Any]:
    metrics = policy_metrics(runs)
    return {
        name: {
            "share_of_max": metrics[name]["utility_share_of_max"],
            "ci95": metrics[name]["utility_share_of_max_ci95"],
            "mean": metrics[name]["utility_mean"],
            "share_served": metrics[name]["share_served"],
            "share_shed": metrics[name]["share_shed"],
        }
        for name in ("all", "urgent", "normal")
    }


def _line(metrics: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {100 * metrics[name]['share_of_max']:.1f} %" for name in ("all", "urgent", "normal"))
