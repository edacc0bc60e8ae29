# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench timely``: policies side by side on the same traces, in virtual time or on a real planner."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from llm_planner.core.config import PlannerConfig, SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.profile import EngineProfile, find_profile
from llm_planner.robots.library import RobotLibrary
from llm_planner.scheduling.policies import make_policy, policy_names
from llm_planner_lab.bench.live import LiveRun, run_live
from llm_planner_lab.bench.live_stock import STOCK_POLICIES
from llm_planner_lab.bench.survey import Survey, survey
from llm_planner_lab.bench.timely.metrics import policy_metrics
from llm_planner_lab.bench.turns import rotated
from llm_planner_lab.checkout import commit
from llm_planner_lab.simulation.records import RunRecord
from llm_planner_lab.simulation.script import ScriptLibrary
from llm_planner_lab.simulation.simulator import SimulationConfig, simulate
from llm_planner_lab.simulation.trace import Trace, read_trace
from llm_planner_lab.simulation.workload import WORKLOADS, compose, workload

ENGINES = ("simulated", "live")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelyBench:
    """One experiment.

    Attributes:
        workload: A preset of Table 3, or the path of a trace file.
        policies: Which to compare, with a live vLLM also ``live_stock.STOCK_POLICIES``; all of ours if empty.
        profile: Name or path of an engine profile.
        num_seeds: Traces composed of a preset; a trace file is replayed once.
        first_seed: Of the first of them.
        load: Factor on events and robots of a preset.
        duration_s: Length of a composed trace; None for the preset's.
        engine: ``simulated``: virtual time, the profile's engine, the trace's plans. ``live``: real time, the engine of
            ``planner``, and its model's plans for the same instructions.
        planner: Of a live engine; policy and limits are those of this experiment.
    """

    workload: str = "wid1"
    policies: tuple[str, ...] = ()
    profile: str = "llama3-8b-rtx4090"
    num_seeds: int = 3
    first_seed: int = 0
    load: float = 1.0
    duration_s: float | None = None
    reuses_prefixes: bool = True
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    engine: str = "simulated"
    planner: PlannerConfig = field(default_factory=PlannerConfig)

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise PlannerError(ErrorCode.INVALID_CONFIG, f"no engine {self.engine!r}; known are {', '.join(ENGINES)}")
        if self.engine == "live" and not self.reuses_prefixes:
            raise PlannerError(
                ErrorCode.INVALID_CONFIG, "a live engine always reuses prefixes; leave --no-prefixes out"
            )
        for name in self.policies:
            if name not in STOCK_POLICIES:
                make_policy(name)
            elif self.engine != "live" or self.planner.backend != "vllm":
                raise PlannerError(
                    ErrorCode.INVALID_CONFIG, f"{name} is vLLM's own scheduler; it needs --engine live --backend vllm"
                )
        if self.num_seeds < 1:
            raise PlannerError(ErrorCode.INVALID_CONFIG, "a benchmark needs at least one seed")

    @property
    def trace_seeds(self) -> range:
        """Seeds of the composed traces."""
        return range(self.first_seed, self.first_seed + self.num_seeds)


@dataclass(slots=True)
class Lab:
    """What experiments share: robots, compiled plans, traces and what a model makes of them, each made once.

    Attributes:
        on_progress: Receives what is going on in real time, and which share of it is done.
    """

    robots: RobotLibrary = field(default_factory=RobotLibrary)
    on_progress: Callable[[str, float], None] = lambda _what, _share: None
    _scripts: ScriptLibrary | None = None
    _traces: dict[tuple[str, float, float | None, range], list[Trace]] = field(default_factory=dict)
    _surveys: dict[tuple[object, ...], list[Survey]] = field(default_factory=dict)

    @property
    def scripts(self) -> ScriptLibrary:
        """Compiled plans."""
        if self._scripts is None:
            self._scripts = ScriptLibrary(self.robots)
        return self._scripts

    def traces(self, bench: TimelyBench) -> list[Trace]:
        """Returns the traces of an experiment."""
        key = _trace_key(bench)
        if key not in self._traces:
            self._traces[key] = self._load(bench)
        return self._traces[key]

    def surveys(self, bench: TimelyBench) -> list[Survey]:
        """Returns the traces of an experiment as its live planner plans them."""
        key = (*_trace_key(bench), bench.planner)
        if key not in self._surveys:
            self._surveys[key] = [
                survey(trace, bench.planner, self.robots, partial(self.on_progress, f"{bench.workload}: plans"))
                for trace in self.traces(bench)
            ]
        return self._surveys[key]

    def _load(self, bench: TimelyBench) -> list[Trace]:
        if bench.workload not in WORKLOADS and Path(bench.workload).is_file():
            return [read_trace(Path(bench.workload), self.robots)]
        spec = workload(bench.workload).scaled(bench.load)
        spec = replace(spec, duration_s=bench.duration_s or spec.duration_s)
        return [compose(spec, seed, self.robots) for seed in bench.trace_seeds]

    def run(self, bench: TimelyBench, policy: str, index: int = 0) -> RunRecord:
        """Returns the run of one policy on one trace of an experiment."""
        if bench.engine == "live":
            return self.live_run(bench, policy, index).record
        scheduler = replace(bench.scheduler, policy=policy)
        profile: EngineProfile = find_profile(bench.profile)
        config = SimulationConfig(profile=profile, scheduler=scheduler, reuses_prefixes=bench.reuses_prefixes)
        return simulate(self.traces(bench)[index], config, self.scripts)

    def live_run(self, bench: TimelyBench, policy: str, index: int = 0) -> LiveRun:
        """Returns the run of one policy, in real time, on a trace as the live planner plans it."""
        found = self.surveys(bench)[index]
        what = f"{bench.workload} {bench.load:g}x, trace {index + 1} of {len(self.surveys(bench))}: {policy}"

        def on_progress(now_s: float) -> None:
            share = now_s / found.trace.duration_s if found.trace.duration_s else 1.0
            self.on_progress(what, min(1.0, share))

        stock_policy = policy if policy in STOCK_POLICIES else ""
        own = bench.scheduler if stock_policy else replace(bench.scheduler, policy=policy)
        config = replace(bench.planner, scheduler=own)
        return run_live(found.trace, found.bounds_s, config, on_progress, stock_policy)


def _trace_key(bench: TimelyBench) -> tuple[str, float, float | None, range]:
    return (bench.workload, bench.load, bench.duration_s, bench.trace_seeds)


def run_timely(bench: TimelyBench, lab: Lab, note: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Returns the JSON document of an experiment (docs/benchmarks/timely.md describes it).

    Policies take turns, trace by trace, and each trace begins with another one of them: a machine that gets slower
    does so for all of them.
    """
    names = bench.policies or policy_names()
    traces = lab.traces(bench)
    if bench.engine == "live":
        lab.surveys(bench)  # no part of any policy's time
    timed = {name: _TimedRuns() for name in names}
    for index in range(len(traces)):
        for name in rotated(names, index):
            timed[name].add(partial(lab.run, bench, name, index))
    policies = {name: policy_metrics(done.runs) for name, done in timed.items()}
    engine = {name: engine_metrics(done, is_live=bench.engine == "live") for name, done in timed.items()}
    for name in names:
        note(summary_line(bench, name, policies[name], engine[name]))
    return {
        "workload": bench.workload,
        "load": bench.load,
        "duration_s": bench.duration_s,
        "engine": bench.engine,
        **(_live_fields(bench, lab) if bench.engine == "live" else {"profile": bench.profile}),
        "reuses_prefixes": bench.reuses_prefixes,
        "seeds": len(traces),
        "first_seed": bench.first_seed,
        "num_requests": sum(len(trace.requests) for trace in traces),
        "num_left_out": sum(int(trace.about.get("num_left_out", 0)) for trace in traces),
        "max_num_seqs": bench.scheduler.max_num_seqs,
        "max_num_batched_tokens": bench.scheduler.max_num_batched_tokens,
        "commit": commit(),
        "policies": policies,
        "engine_metrics": engine,
    }


@dataclass(slots=True)
class _TimedRuns:
    """Runs of one policy, and what they took in real time."""

    runs: list[RunRecord] = field(default_factory=list)
    wall_s: float = 0.0
    cpu_s: float = 0.0

    def add(self, run: Callable[[], RunRecord]) -> None:
        started_s, started_cpu_s = time.perf_counter(), time.process_time()
        self.runs.append(run())
        self.wall_s += time.perf_counter() - started_s
        self.cpu_s += time.process_time() - started_cpu_s


def _live_fields(bench: TimelyBench, lab: Lab) -> dict[str, Any]:
    """Returns what a document says of a live engine."""
    unplanned: Counter[str] = Counter()
    for found in lab.surveys(bench):
        unplanned.update(found.num_unplanned)
    return {
        "profile": None,
        "backend": bench.planner.backend,
        "model": bench.planner.engine.model,
        "device": lab.surveys(bench)[0].device,
        "num_unplanned": dict(unplanned),
    }


def engine_metrics(done: _TimedRuns, *, is_live: bool) -> dict[str, float]:
    """Returns totals of the engine, and how quick a simulation was; a live run has its time in another process."""
    virtual_s, busy_s = sum(run.end_s for run in done.runs), sum(run.busy_s for run in done.runs)
    metrics = {
        "busy_share": busy_s / virtual_s if virtual_s else 0.0,
        "num_steps": sum(run.num_steps for run in done.runs),
        "virtual_s": virtual_s,
    }
    if is_live:
        return metrics
    return metrics | {
        "wall_s": done.wall_s,
        "cpu_s": done.cpu_s,
        "virtual_over_wall": virtual_s / done.wall_s if done.wall_s else 0.0,
        "virtual_over_cpu": virtual_s / done.cpu_s if done.cpu_s else 0.0,
    }


def summary_line(
    bench: TimelyBench, name: str, classes: Mapping[str, Mapping[str, Any]], engine: Mapping[str, float]
) -> str:
    """Returns one line for people who wait."""
    shares = " ".join(f"{c} {100 * m['utility_share_of_max']:7.2f} %" for c, m in classes.items() if not c.isdigit())
    reuse = "reused" if bench.reuses_prefixes else "not reused"
    if bench.engine == "live":
        speed = f"live, engine busy {100 * engine['busy_share']:.0f} % of the time"
    else:
        speed = f"{engine['virtual_over_wall']:.0f}x real time"
    return f"{bench.workload} {bench.load:g}x, prefixes {reuse}, {name:13s} {shares}  ({speed})"
