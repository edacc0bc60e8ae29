# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench resumption``: how often robots wait for resumed generations, with much and with little memory."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.profile import find_profile
from llm_planner_lab.bench.section7 import rounded
from llm_planner_lab.bench.timely.benchmark import Lab, TimelyBench
from llm_planner_lab.bench.timely.metrics import NOTICED_WAIT_S, policy_metrics
from llm_planner_lab.checkout import commit
from llm_planner_lab.simulation.backend import KVReturn
from llm_planner_lab.simulation.records import RunRecord
from llm_planner_lab.simulation.simulator import SimulationConfig, Simulator

PROFILE = "llama3-8b-rtx4090"
POLICIES = (SchedulerConfig().policy, "fcfs_segment")
FIRST_SEED = 300
"""The lead was chosen on traces with seeds 0 to 9."""
SAME = ("profile", "seeds", "first_seed", "duration_s")
"""What runs must share to stand side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A workload and an engine with so much memory.

    Attributes:
        workload: A preset of Table 3.
        load: Factor on its events and robots.
        num_kv_blocks: Of the KV cache, shared prefixes included; None for the profile's.
        reuses_prefixes: Whether the static part of prompts is computed once; else every generation has its own.
        can_offload: Whether KV moves to host memory where memory is short; else it is dropped, and computed again.
    """

    workload: str = "wid2"
    load: float = 4.0
    num_kv_blocks: int | None = None
    reuses_prefixes: bool = True
    can_offload: bool = True


def _scarce(workload: str, load: float, sizes: Sequence[int], *, reuses_prefixes: bool) -> tuple[Scene, ...]:
    scene = Scene(workload=workload, load=load, reuses_prefixes=reuses_prefixes)
    scarce = [replace(scene, num_kv_blocks=n, can_offload=offloads) for n in sizes for offloads in (True, False)]
    return (*scarce, scene)


SCENES = (
    *(Scene(workload="wid1", load=load) for load in (1.0, 2.0, 4.0)),
    *(Scene(load=load) for load in (1.0, 2.0)),
    *_scarce("wid2", 4.0, (200, 300), reuses_prefixes=True),
    *_scarce("wid1", 1.0, (300, 600), reuses_prefixes=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumptionBench:
    """The experiment on one set of traces.

    Attributes:
        num_seeds: Traces of each workload and load.
        first_seed: Of the traces.
        duration_s: In which requests arrive.
        note: Receives a line per result.
    """

    num_seeds: int = 10
    first_seed: int = FIRST_SEED
    duration_s: float = 60.0
    note: Callable[[str], None] = lambda _: None
    lab: Lab = field(default_factory=Lab)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yields a row per scene and policy."""
        for scene in SCENES:
            for policy in POLICIES:
                row = {**asdict(scene), "policy": policy, **_metrics(self.simulators(scene, policy))}
                self.note(_line(row))
                yield row

    def simulators(self, scene: Scene, policy: str) -> list[Simulator]:
        """Returns a simulator for each trace, which has not run yet."""
        bench = TimelyBench(
            workload=scene.workload,
            load=scene.load,
            num_seeds=self.num_seeds,
            first_seed=self.first_seed,
            duration_s=self.duration_s,
        )
        profile = find_profile(PROFILE)
        config = SimulationConfig(
            profile=replace(profile, num_kv_blocks=scene.num_kv_blocks or profile.num_kv_blocks),
            scheduler=SchedulerConfig(policy=policy),
            reuses_prefixes=scene.reuses_prefixes,
            can_offload=scene.can_offload,
        )
        return [Simulator(trace, config, self.lab.scripts) for trace in self.lab.traces(bench)]

    def document(self, label: str, known: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the JSON document: what ``known`` has under other labels, and this run under ``label``.

        Raises:
            PlannerError: INVALID_CONFIG if those runs had other traces or another profile.
        """
        run: dict[str, Any] = {
            "profile": PROFILE,
            "seeds": self.num_seeds,
            "first_seed": self.first_seed,
            "duration_s": self.duration_s,
            "resume_margin_s": SchedulerConfig().resume_margin_s,
            "commit": commit(),
        }
        document = {**known, label: run}
        _require_same(document)
        run["rows"] = rounded(list(self.rows()))
        return document


def _metrics(simulators: Sequence[Simulator]) -> dict[str, Any]:
    runs = [simulator.run() for simulator in simulators]
    metrics = policy_metrics(runs)
    resumed = [found for simulator, run in zip(simulators, runs, strict=True) for found in resumptions(simulator, run)]
    return {
        "resumed": waits([wait_s for _, wait_s in resumed]),
        "returned": waits([wait_s for kv_return, wait_s in resumed if kv_return is not KVReturn.NOTHING]),
        "later": waits([wait_s for run in runs for record in run.requests for wait_s in record.later_waits_s]),
        "utility": {
            name: {
                "share_of_max": metrics[name]["utility_share_of_max"],
                "ci95": metrics[name]["utility_share_of_max_ci95"],
            }
            for name in ("all", "urgent", "normal")
        },
    }


def resumptions(simulator: Simulator, run: RunRecord) -> Iterator[tuple[KVReturn, float]]:
    """Yields where the KV of each resumed generation came from, and how long its robot waited."""
    for record in run.requests:
        for number, wait_s in record.resumptions:
            yield simulator.kv_returns[record.request_id][number], wait_s


def waits(waits_s: Sequence[float]) -> dict[str, Any]:
    """Returns how often and how long robots waited; no share and no mean of nothing."""
    num, num_waited = len(waits_s), sum(wait_s > NOTICED_WAIT_S for wait_s in waits_s)
    return {
        "n": num,
        "share_waited": num_waited / num if num else None,
        "mean_wait_s": math.fsum(waits_s) / num if num else None,
    }


def _require_same(document: Mapping[str, Any]) -> None:
    for name in SAME:
        if len({run[name] for run in document.values()}) > 1:
            values = ", ".join(f"{label}: {run[name]}" for label, run in document.items())
            message = f"runs with different {name} do not stand side by side ({values}); use another --output"
            raise PlannerError(ErrorCode.INVALID_CONFIG, message)


def facts(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the page shows beyond the document: the rows of all labels side by side, and scenes in words.

    Raises:
        PlannerError: INVALID_CONFIG if the runs had other traces or another profile.
        KeyError: A run lacks a scene that the first one has.
    """
    _require_same(document)
    runs = {label: {_key(row): row for row in run["rows"]} for label, run in document.items()}
    sides = [{label: rows[key] for label, rows in runs.items()} for key in next(iter(runs.values()))]
    return {"labels": list(document), "sides": sides, "about": about}


def _key(row: Mapping[str, Any]) -> tuple[object, ...]:
    return (*(row[field.name] for field in fields(Scene)), row["policy"])


def about(row: Mapping[str, Any]) -> str:
    """Returns a scene in words."""
    if row["num_kv_blocks"] is None:
        memory = "the profile's memory"
    else:
        memory = f"{row['num_kv_blocks']} blocks, KV {'offloaded' if row['can_offload'] else 'dropped'}"
    prefixes = "" if row["reuses_prefixes"] else ", prefixes not reused"
    return f"{row['workload']} {row['load']:g}x{prefixes}, {memory}"


def _line(row: Mapping[str, Any]) -> str:
    resumed, utility = row["resumed"], row["utility"]["all"]
    waits = "no resumption"
    if resumed["n"]:
        waits = f"waited {100 * resumed['share_waited']:.1f} % of {resumed['n']}, {1e3 * resumed['mean_wait_s']:.1f} ms"
    return f"{about(row)}, {row['policy']}: {waits}; utility {100 * utility['share_of_max']:.1f} %"
