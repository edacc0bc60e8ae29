# SPDX-License-Identifier: Apache-2.0
"""How many model steps, and how many seconds, a first segment takes: with and without forced tokens and drafts.

Each way is a planner of its own with the real prompts, grammars and gate; they take turns, task by task, so that what
disturbs the machine disturbs all alike. Robots do not wait and nothing is suspended: this is about the engine.
"""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from llm_planner.assembly import build_loop
from llm_planner.core.clock import MonotonicClock, ProcessorClock
from llm_planner.core.config import EngineConfig, PlannerConfig, SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Backend, Clock
from llm_planner.serving.events import Finished, SegmentReady
from llm_planner.serving.loop import PlannerLoop
from llm_planner_lab.bench.step_log import WatchedBackend
from llm_planner_lab.checkout import commit
from llm_planner_lab.tasks.sample import FAMILIES, FAMILY_NAMES, Difficulty, Task, sample

ELEVEN = tuple(FAMILIES)[:11]
"""The tasks of TimelyLLM, Table 2."""

MODES = ("off", "forced", "prompt", "always", "auto")
BLOCKS = ("whole", "open")
_DIFFICULTY = Difficulty(max_objects=40)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsBench:
    """What is measured.

    Attributes:
        backend: ``torch`` or ``vllm``.
        model: Checkpoint directory, or the name of a bundled model.
        modes: Of ``EngineConfig.lookahead``.
        blocks: How conditions are sent: as a whole, or part by part to robots that take open blocks.
        batch: How many tasks are planned together.
        families: Of ``tasks.sample``.
        per_family: Tasks of each.
        warm_up: Tasks of each family that are planned before, and not counted: other ones.
        threads: CPU threads; 0 leaves the choice to the planner.
        cpu_time: Whether seconds are those of the processor, which other programs disturb less.
    """

    backend: str = "torch"
    model: str = "planner-small"
    modes: tuple[str, ...] = MODES
    blocks: tuple[str, ...] = ("whole",)
    batch: int = 1
    families: tuple[str, ...] = ELEVEN
    per_family: int = 10
    warm_up: int = 5
    threads: int = 0
    cpu_time: bool = False
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What one way made of one task; all None without a first segment."""

    family: str
    text: str = ""
    num_tokens: int | None = None
    num_steps: int | None = None
    time_s: float | None = None
    num_plan_tokens: int = 0
    num_plan_steps: int = 0


class CountedBackend(WatchedBackend):
    """Counts the steps of each request."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend, lambda scheduled, _: self.num_steps.update(scheduled.num_scheduled_tokens.keys()))
        self.num_steps: Counter[str] = Counter()


@dataclass(slots=True)
class Side:
    """One way to plan."""

    name: str
    loop: PlannerLoop
    backend: CountedBackend
    clock: Clock
    takes_open_blocks: bool = False
    planned: list[Planned] = field(default_factory=list)

    def plan(self, tasks: Seq[Task], *, is_counted: bool) -> None:
        """Plans tasks together, to the end."""
        requests = {
            name: replace(task.request(name), takes_open_blocks=self.takes_open_blocks)
            for name, task in ((f"{len(self.planned)}-{index}", task) for index, task in enumerate(tasks))
        }
        self.backend.num_steps.clear()
        started_s = self.clock.now_s()
        events = [event for request in requests.values() for event in self.loop.submit(request, started_s)]
        first: dict[str, tuple[int, int, float]] = {}
        results: dict[str, Finished] = {}
        while True:
            for event in events:
                if isinstance(event, Finished):
                    results[event.request_id] = event
                elif isinstance(event, SegmentReady) and event.segment.index == 0:
                    num_steps, time_s = self.backend.num_steps[event.request_id], self.clock.now_s() - started_s
                    first[event.request_id] = (event.segment.num_tokens, num_steps, time_s)
            if len(results) == len(requests):
                break
            events = self.loop.step(self.clock.now_s())
        if is_counted:
            self.planned += [
                self._planned(task, results[name], first.get(name)) for name, task in zip(requests, tasks, strict=True)
            ]

    def _planned(self, task: Task, end: Finished, first: tuple[int, int, float] | None) -> Planned:
        text, metrics = end.result.plan, end.result.metrics
        if first is None:
            return Planned(family=task.family, text=text)
        num_tokens, num_steps, time_s = first
        return Planned(
            family=task.family,
            text=text,
            num_tokens=num_tokens,
            num_steps=num_steps,
            time_s=time_s,
            num_plan_tokens=metrics.num_output_tokens,
            num_plan_steps=self.backend.num_steps[end.request_id],
        )


def make_side(bench: StepsBench, mode: str, blocks: str) -> Side:
    """Returns a planner with one mode of lookahead, ready to plan."""
    config = PlannerConfig(
        backend=bench.backend,
        engine=EngineConfig(model=bench.model, lookahead=mode, num_threads=bench.threads),
        scheduler=SchedulerConfig(policy="fcfs_stream", max_num_seqs=bench.batch, max_num_batched_tokens=65536),
        max_queued=max(64, bench.batch),
        min_confidence=0.0,  # every plan is decoded whole: what is counted is steps
        waits_for_plan_s=0.0,  # to the first segment, and to the last
    )
    counted: list[CountedBackend] = []

    def watch(backend: Backend) -> Backend:
        counted.append(CountedBackend(backend))
        return counted[0]

    loop = build_loop(config, do_clients_report=False, watch=watch)
    takes_open_blocks = blocks == "open"
    name = f"{mode}, open blocks" if takes_open_blocks else mode
    return Side(name, loop, counted[0], ProcessorClock() if bench.cpu_time else MonotonicClock(), takes_open_blocks)


def run_steps(bench: StepsBench, note: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Returns the figures of all modes, as docs/engine.md describes them.

    Raises:
        PlannerError: INVALID_CONFIG for an unknown family or mode.
    """
    if unknown := sorted(set(bench.families) - set(FAMILY_NAMES)):
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"no tasks {unknown}; known are {', '.join(FAMILY_NAMES)}")
    if unknown := sorted(set(bench.blocks) - set(BLOCKS)):
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"no blocks {unknown}; known are {', '.join(BLOCKS)}")
    rng = Random(bench.seed)
    groups = {
        is_counted: _groups(_draw(rng, bench.families, count), bench.batch)
        for is_counted, count in ((False, bench.warm_up), (True, bench.per_family))
    }
    sides = [make_side(bench, mode, blocks) for mode in bench.modes for blocks in bench.blocks]
    try:
        for is_counted, batches in groups.items():
            what = "measuring" if is_counted else "warming up"
            note(f"{what}: {sum(map(len, batches))} tasks in {len(batches)} batches")
            for index, tasks in enumerate(batches):
                turn = index % len(sides)
                for side in (*sides[turn:], *sides[:turn]):
                    side.plan(tasks, is_counted=is_counted)
    finally:
        for side in sides:
            side.loop.close()
    return {
        "model": sides[0].backend.info.model,
        "device": sides[0].backend.info.device,
        "commit": commit(),
        "seed": bench.seed,
        "batch": bench.batch,
        "is_processor_time": bench.cpu_time,
        "warm_up_per_family": bench.warm_up,
        "same_plans": all([p.text for p in side.planned] == [p.text for p in sides[0].planned] for side in sides),
        "modes": {side.name: _by_family(side.planned) for side in sides},
    }


def _draw(rng: Random, families: Seq[str], per_family: int) -> list[Task]:
    """Returns held-out tasks, the families in turn."""
    return [sample(rng, _DIFFICULTY, held_out=True, family=name) for _ in range(per_family) for name in families]


def _groups(tasks: list[Task], size: int) -> list[list[Task]]:
    return [tasks[start : start + size] for start in range(0, len(tasks), size)]


def _by_family(planned: Iterable[Planned]) -> dict[str, dict[str, Any]]:
    all_planned = list(planned)
    figures = {"all": _figures(all_planned)}
    for family in dict.fromkeys(p.family for p in all_planned):
        figures[family] = _figures([p for p in all_planned if p.family == family])
    return figures


def _figures(planned: Seq[Planned]) -> dict[str, Any]:
    """Returns steps and seconds of the tasks that got a first segment, and how many did."""
    served = [p for p in planned if p.num_tokens and p.num_steps and p.time_s]
    if not served:
        return {"n": 0, "share_served": 0.0}
    times_s = sorted(p.time_s or 0.0 for p in served)
    num_tokens, num_steps = sum(p.num_tokens or 0 for p in served), sum(p.num_steps or 0 for p in served)
    return {
        "n": len(served),
        "share_served": len(served) / len(planned),
        "tokens": num_tokens / len(served),
        "steps": num_steps / len(served),
        "steps_per_token": num_steps / num_tokens,
        "plan_steps_per_token": sum(p.num_plan_steps for p in served) / sum(p.num_plan_tokens for p in served),
        "first_segment_s": {
            "mean": statistics.fmean(times_s),
            "p50": statistics.median(times_s),
            "p95": times_s[min(len(times_s) - 1, int(0.95 * len(times_s)))],
        },
    }
