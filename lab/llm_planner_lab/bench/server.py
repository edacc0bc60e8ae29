# SPDX-License-Identifier: Apache-2.0
"""Times the server around the engine, without a model: ``python -m llm_planner_lab.bench.server``.

overhead   submit to the first segment, steps that take no time: queues, pipe, parser, gate stub aside
cancel     cancel to its Finished while every slot is busy and the child is in the middle of a long step
recovery   kill -9 of the child to the first segment from the next one; a model's loading time comes on top
look       what one view for `llm-planner top` takes from the loop, pickling included, by number of goals
"""

import functools
import json
import os
import pickle
import platform
import signal
import statistics
import threading
import time
from collections.abc import Callable
from typing import Annotated

import typer

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.config import PlannerConfig, SchedulerConfig
from llm_planner.core.request import PlanRequest
from llm_planner.robots.library import RobotLibrary
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.admission import Admission
from llm_planner.serving.child import ChildServer
from llm_planner.serving.events import Event, Finished, SegmentReady
from llm_planner.serving.fake import FakeBackend, FakeTiming
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.plan_preparer import PlanPreparer
from llm_planner.serving.replica import Factories

_PLAN = "exactly: mf(50);tc(90);mf(50);tc(90);mf(50);tc(90);"
_NUM_SLOTS = 16
NO_STEP_S = 1e-6
"""Of a step that shall not count: engines do take some time."""


def build_fake_loop(step_s: float) -> PlannerLoop:
    """Returns a loop over a scripted backend whose steps take ``step_s``, with the real parser, gate and prompts."""
    backend = FakeBackend(timing=FakeTiming(step_s=step_s, prompt_token_s=0.0, decode_s=0.0), sleep=time.sleep)
    config = SchedulerConfig(policy="fcfs_stream", max_num_seqs=_NUM_SLOTS, max_num_batched_tokens=100_000)
    scheduler = Scheduler(config, make_policy(config.policy), backend.info)
    preparer = PlanPreparer(backend=backend, tokenizer=backend.tokenizer, library=RobotLibrary())
    return PlannerLoop(backend=backend, scheduler=scheduler, preparer=preparer)


def overhead_request(name: str) -> PlanRequest:
    """Returns the request that is timed."""
    return PlanRequest(request_id=name, robot_id=name, robot_model="tello", instruction=_PLAN)


class _Stopwatch:
    """Runs a child server and notes when each event comes."""

    def __init__(self, step_s: float) -> None:
        self._changed = threading.Condition()
        self._segments: dict[str, list[float]] = {}
        self._ends: dict[str, float] = {}
        factory = functools.partial(build_fake_loop, step_s)
        admission = Admission(PlannerConfig(max_queued=10_000), RobotLibrary().names())
        self.server = ChildServer([Factories(factory)], book=GoalBook(admission, self._note), clock=MonotonicClock())
        self.server.start()
        self.server.wait_ready(60.0)

    def _note(self, event: Event) -> None:
        with self._changed:
            if isinstance(event, SegmentReady):
                self._segments.setdefault(event.request_id, []).append(time.perf_counter())
            elif isinstance(event, Finished):
                self._ends[event.request_id] = time.perf_counter()
            self._changed.notify_all()

    def _wait(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            if not self._changed.wait_for(condition, timeout=120.0):
                raise TimeoutError("the server said nothing for two minutes")

    def submit(self, name: str) -> float:
        """Submits a goal; returns when."""
        started_s = time.perf_counter()
        self.server.submit(overhead_request(name))
        return started_s

    def segment(self, name: str, number: int = 0) -> float:
        """Waits for a segment of a goal; returns when it came."""
        self._wait(lambda: len(self._segments.get(name, ())) > number)
        return self._segments[name][number]

    def num_segments(self, name: str) -> int:
        """Returns how many segments of a goal came."""
        return len(self._segments.get(name, ()))

    def cancel(self, name: str) -> float:
        """Cancels a goal; returns the seconds until its end was received."""
        started_s = time.perf_counter()
        self.server.cancel(name)
        self._wait(lambda: name in self._ends)
        return self._ends[name] - started_s


def measure_overhead(num_goals: int, pause_s: float = 0.0) -> list[float]:
    """Returns seconds from submit to the first segment, one goal after the other, ``pause_s`` between them."""
    watch = _Stopwatch(NO_STEP_S)
    seconds = []
    for index in range(num_goals):
        name = f"r{index}"
        started_s = watch.submit(name)
        seconds.append(watch.segment(name) - started_s)
        watch.cancel(name)
        time.sleep(pause_s)
    watch.server.close()
    return seconds


def measure_cancel(num_goals: int, step_s: float = 0.5) -> list[float]:
    """Returns seconds from cancel to its end, with more goals than slots and steps of ``step_s``."""
    watch = _Stopwatch(step_s)
    names = [f"r{index}" for index in range(num_goals)]
    for name in names:
        watch.submit(name)
    seconds = []
    for name in names:
        time.sleep(0.03)  # spread over the steps
        seconds.append(watch.cancel(name))
    watch.server.close()
    return seconds


def measure_recovery(num_kills: int) -> list[float]:
    """Returns seconds from kill -9 of the child to the next segment of a goal that it was planning."""
    seconds = []
    for _ in range(num_kills):
        watch = _Stopwatch(step_s=0.1)
        watch.submit("r")
        watch.segment("r")
        before = watch.num_segments("r")
        started_s = time.perf_counter()
        (child_pid,) = watch.server.child_pids  # it has just sent a segment
        os.kill(child_pid, signal.SIGKILL)
        seconds.append(watch.segment("r", before) - started_s)
        watch.server.close()
    return seconds


def measure_look(num_goals: int, num_looks: int = 200) -> list[float]:
    """Returns seconds per view of a loop that plans for ``num_goals``, all slots busy."""
    loop = build_fake_loop(0.0)
    for index in range(num_goals):
        name = f"r{index}"
        request = PlanRequest(request_id=name, robot_id=name, robot_model="tello", instruction=_PLAN)
        loop.submit(request, 0.0)
    for step in range(20):
        loop.step(0.02 * step)
    seconds = []
    for look in range(num_looks):
        started_s = time.perf_counter()
        pickle.dumps(loop.look(1.0 + 0.01 * look))
        seconds.append(time.perf_counter() - started_s)
    return seconds


def _summary(seconds: list[float]) -> dict[str, float | int]:
    percentiles = statistics.quantiles(seconds, n=100, method="inclusive")
    return {
        "p50_ms": round(1e3 * percentiles[49], 3),
        "p99_ms": round(1e3 * percentiles[98], 3),
        "max_ms": round(1e3 * max(seconds), 3),
        "n": len(seconds),
    }


def main(
    num_goals: Annotated[int, typer.Option(min=2, help="Goals per measurement.")] = 200,
    num_kills: Annotated[int, typer.Option(min=2, help="Children to kill.")] = 5,
) -> None:
    """Prints one JSON object."""
    results = {
        "overhead": _summary(measure_overhead(num_goals)),
        "cancel": _summary(measure_cancel(num_goals)),
        "recovery": _summary(measure_recovery(num_kills)),
        "look": {str(n): _summary(measure_look(n)) for n in (8, 1000)},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }
    typer.echo(json.dumps(results, indent=2))


if __name__ == "__main__":
    from llm_planner_lab.bench.server import main as run  # what is pickled for the engine has a name there

    typer.run(run)
