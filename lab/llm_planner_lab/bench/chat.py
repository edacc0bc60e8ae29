# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench chat``: whole answers against paragraphs and sentences (TimelyLLM, section 7.4.2), simulated."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.profile import find_profile
from llm_planner.robots.library import RobotLibrary
from llm_planner.scheduling.policies import make_policy
from llm_planner_lab.bench.timely.metrics import policy_metrics
from llm_planner_lab.checkout import commit
from llm_planner_lab.simulation.script import ScriptLibrary
from llm_planner_lab.simulation.simulator import SimulationConfig, simulate
from llm_planner_lab.simulation.trace import ChatSegments, Trace
from llm_planner_lab.simulation.workload import compose, workload

UNITS: tuple[ChatSegments, ...] = ("paragraph", "sentence")
WHOLE = "fcfs"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatBench:
    """One comparison.

    Attributes:
        policies: Run with paragraphs and with sentences; whole answers are vLLM's ``fcfs``.
        profile: Name or path of an engine profile.
        num_seeds: Traces.
        load: Factor on events and people.
        duration_s: Length of a trace.
    """

    policies: tuple[str, ...] = ("pud", "tardiness")
    profile: str = "llama3-8b-rtx4090"
    num_seeds: int = 3
    load: float = 1.0
    duration_s: float = 300.0
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)

    def __post_init__(self) -> None:
        for name in self.policies:
            make_policy(name)
        if self.num_seeds < 1:
            raise PlannerError(ErrorCode.INVALID_CONFIG, "a benchmark needs at least one seed")


def run_chat(bench: ChatBench, note: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Returns the JSON document of a comparison: the metrics of ``bench timely`` per way to answer."""
    robots = RobotLibrary()
    scripts = ScriptLibrary(robots)
    ways = [("whole answer", WHOLE, UNITS[-1])]
    ways += [(f"{unit}s, {policy}", policy, unit) for policy in bench.policies for unit in UNITS]
    metrics: dict[str, Any] = {}
    for name, policy, unit in ways:
        metrics[name] = _measure(bench, policy, _traces(bench, unit, robots), scripts)
        note(summary_line(name, metrics[name]))
    return {
        "workload": "chat",
        "load": bench.load,
        "engine": "simulated",
        "profile": bench.profile,
        "seeds": bench.num_seeds,
        "duration_s": bench.duration_s,
        "commit": commit(),
        "ways": metrics,
    }


def _traces(bench: ChatBench, unit: ChatSegments, robots: RobotLibrary) -> list[Trace]:
    spec = replace(workload("chat").scaled(bench.load), duration_s=bench.duration_s, chat_segments=unit)
    return [compose(spec, seed, robots) for seed in range(bench.num_seeds)]


def _measure(bench: ChatBench, policy: str, traces: Sequence[Trace], scripts: ScriptLibrary) -> dict[str, Any]:
    scheduler = replace(bench.scheduler, policy=policy)
    config = SimulationConfig(profile=find_profile(bench.profile), scheduler=scheduler)
    metrics: dict[str, Any] = policy_metrics([simulate(trace, config, scripts) for trace in traces])["all"]
    return metrics


def summary_line(name: str, metrics: Mapping[str, Any]) -> str:
    """Returns one line for people: means of utility (at most 1), response and waiting time."""
    response_s, waiting_s = metrics["response_time_s"]["mean"], metrics["waiting_time_s"]["mean"]
    return (
        f"{name:24s} utility {metrics['utility_mean']:7.3f}  response {response_s:5.2f} s  waiting {waiting_s:5.2f} s"
    )
