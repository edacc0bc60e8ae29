# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench replicas``: what a second engine process brings on this machine, and what the end of one costs.

Robots ask for one plan after the other (a closed loop), and carry segments out in no time, so that the planner alone
sets the pace. One replica and several take turns; in the last run one engine process is killed.
"""

import os
import queue
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llm_planner.assembly import build_server
from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanRequest
from llm_planner.core.segment import ReportStatus, SegmentReport
from llm_planner.serving.child import ChildServer
from llm_planner.serving.events import Event, Finished, PlanComplete, SegmentReady
from llm_planner.serving.goal_book import GoalBook
from llm_planner_lab.bench.overhead import table2_requests
from llm_planner_lab.bench.timely.metrics import quantile
from llm_planner_lab.checkout import commit

WARM_UP_S = 2.0
START_TIMEOUT_S = 300.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaBench:
    """What is run.

    Attributes:
        config: Of the planner; its number of replicas is replaced.
        num_replicas: Compared with one.
        num_robots: That always have a goal.
        duration_s: Of each run, without the warm-up.
        num_repeats: Runs with one replica, and as many with several.
    """

    config: PlannerConfig
    num_replicas: int = 2
    num_robots: int = 32
    duration_s: float = 20.0
    num_repeats: int = 5


def run_replicas(
    bench: ReplicaBench, on_progress: Callable[[str, float], None] = lambda _what, _share: None
) -> dict[str, Any]:
    """Returns the JSON document: goals per second with one replica and with several, in turn, and one run with a kill.

    Raises:
        PlannerError: The engine does not start, or no goal came to a good end.
    """
    runs: dict[int, list[dict[str, Any]]] = {1: [], bench.num_replicas: []}
    num_runs = 2 * bench.num_repeats + 1
    for number in range(bench.num_repeats):
        order = list(runs) if number % 2 == 0 else list(reversed(runs))
        for place, num_replicas in enumerate(order):
            on_progress(f"{num_replicas} engine processes", (2 * number + place) / num_runs)
            runs[num_replicas].append(_run(bench, num_replicas))
    on_progress("one of them is killed", (num_runs - 1) / num_runs)
    killed = _run(bench, bench.num_replicas, kills=True)
    ratios = [
        many["goals_per_s"] / one["goals_per_s"] for one, many in zip(runs[1], runs[bench.num_replicas], strict=True)
    ]
    return {
        "model": bench.config.engine.model,
        "backend": bench.config.backend,
        "policy": bench.config.scheduler.policy,
        "commit": commit(),
        "num_cores": os.cpu_count(),
        "num_threads": bench.config.engine.num_threads,
        "num_replicas": bench.num_replicas,
        "num_robots": bench.num_robots,
        "duration_s": bench.duration_s,
        "num_repeats": bench.num_repeats,
        "ratio": {"median": statistics.median(ratios), "least": min(ratios), "most": max(ratios)},
        "runs": {str(number): _summary(of_number) for number, of_number in runs.items()},
        "killed": killed,
    }


def _summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        name: statistics.median(run[name] for run in runs)
        for name in ("goals_per_s", "tokens_per_s", "first_segment_p50_s", "first_segment_p99_s", "share_good")
    } | {"cpu": {name: statistics.median(run["cpu"][name] for run in runs) for name in runs[0]["cpu"]}}


class _Fleet:
    """Robots that ask, one plan after the other, and carry out what comes in no time."""

    def __init__(self, num_robots: int) -> None:
        self._tasks = [request for ways in table2_requests().values() for request in ways]
        self._num_robots = num_robots
        self._num_asked = 0
        self._asked_at_s: dict[str, float] = {}
        self._next_index: dict[str, int] = {}
        self.events: queue.SimpleQueue[tuple[float, Event]] = queue.SimpleQueue()
        self.ended: list[tuple[float, Finished]] = []
        self.first_s: list[tuple[float, float]] = []
        self.num_repeated = 0

    def post(self, event: Event) -> None:
        """Takes an event of the server, under its lock."""
        self.events.put((time.monotonic(), event))

    def drive(self, server: ChildServer, until_s: float) -> None:
        """Answers events until a moment."""
        while (left_s := until_s - time.monotonic()) > 0:
            try:
                at_s, event = self.events.get(timeout=left_s)
            except queue.Empty:
                return
            self._answer(server, at_s, event)

    def ask(self, server: ChildServer, robot: int) -> None:
        """Asks for the next plan of a robot."""
        request = self._request(robot)
        self._asked_at_s[request.request_id] = time.monotonic()
        self._next_index[request.request_id] = 0
        server.submit(request)

    @property
    def unfinished(self) -> list[str]:
        """Goals that have not ended."""
        return list(self._asked_at_s)

    def _request(self, robot: int) -> PlanRequest:
        task = self._tasks[(robot + self._num_asked) % len(self._tasks)]
        self._num_asked += 1
        return replace(task, request_id=f"{robot}/{self._num_asked}", robot_id=f"robot_{robot}")

    def _answer(self, server: ChildServer, at_s: float, event: Event) -> None:
        match event:
            case SegmentReady(request_id, segment):
                if segment.index == 0:
                    self.first_s.append((at_s, at_s - self._asked_at_s[request_id]))
                self.num_repeated += segment.index != self._next_index[request_id]
                self._next_index[request_id] = segment.index + 1
                report = SegmentReport(request_id=request_id, index=segment.index, status=ReportStatus.SUCCEEDED)
                server.report(report)
            case Finished(result):
                self.ended.append((at_s, event))
                del self._asked_at_s[result.request_id], self._next_index[result.request_id]
                self.ask(server, int(result.request_id.split("/")[0]))
            case PlanComplete():
                pass


def _run(bench: ReplicaBench, num_replicas: int, *, kills: bool = False) -> dict[str, Any]:
    """Returns the figures of one run; a run with a kill lasts as long before it as behind it."""
    room = replace(bench.config, max_queued=2 * bench.num_robots + 2, urgent_share=0.0)
    config = replace(room, replicas=num_replicas, min_confidence=0.0)  # no plan ends because the model was not sure
    fleet = _Fleet(bench.num_robots)
    server = build_server(config, GoalBook(post=fleet.post))
    assert isinstance(server, ChildServer)
    server.start()
    try:
        server.wait_ready(START_TIMEOUT_S)
        _wait_for_all(server, num_replicas)
        for robot in range(bench.num_robots):
            fleet.ask(server, robot)
        fleet.drive(server, time.monotonic() + WARM_UP_S)
        pids = server.child_pids
        began_s, before_s = time.monotonic(), [_cpu_s(pid) for pid in (os.getpid(), *pids)]
        if kills:
            fleet.drive(server, began_s + bench.duration_s / 2)
            return _killed(bench, fleet, server, began_s)
        fleet.drive(server, began_s + bench.duration_s)
        after_s = [_cpu_s(pid) for pid in (os.getpid(), *pids)]
    finally:
        server.close()
    shares = [(after - before) / bench.duration_s for before, after in zip(before_s, after_s, strict=True)]
    return _figures(fleet, began_s, bench.duration_s) | {
        "cpu": {"host": shares[0], "engine": statistics.mean(shares[1:])}
    }


def _wait_for_all(server: ChildServer, num_replicas: int) -> None:
    until_s = time.monotonic() + START_TIMEOUT_S
    while server.status.num_ready < num_replicas:
        if time.monotonic() > until_s:
            raise PlannerError(ErrorCode.ENGINE_FAILED, f"not all of {num_replicas} engine processes started")
        time.sleep(0.05)


def _killed(bench: ReplicaBench, fleet: _Fleet, server: ChildServer, began_s: float) -> dict[str, Any]:
    """Kills an engine process; returns what became of the goals that were under way."""
    under_way = set(fleet.unfinished)
    killed_at_s = time.monotonic()
    os.kill(server.child_pids[0], signal.SIGKILL)
    behind_s = killed_at_s + bench.duration_s / 2
    while under_way & set(fleet.unfinished) and time.monotonic() < killed_at_s + START_TIMEOUT_S:
        fleet.drive(server, time.monotonic() + 0.05)
    fleet.drive(server, behind_s)
    ends = {e.result.request_id: (at_s, e.result) for at_s, e in fleet.ended if e.result.request_id in under_way}
    one_s = bench.duration_s / 2
    return {
        "num_under_way": len(under_way),
        "num_ended": len(ends),
        "num_failed": sum(result.error_code is ErrorCode.ENGINE_FAILED for _, result in ends.values()),
        "num_repeated_segments": fleet.num_repeated,
        "all_ended_after_s": max((at_s - killed_at_s for at_s, _ in ends.values()), default=0.0),
        "goals_per_s_before": _figures(fleet, began_s, killed_at_s - began_s)["goals_per_s"],
        "goals_per_s_behind": _figures(fleet, killed_at_s, one_s)["goals_per_s"],
        "num_restarts": server.status.num_restarts,
        "num_ready": server.status.num_ready,
    }


def _figures(fleet: _Fleet, began_s: float, duration_s: float) -> dict[str, Any]:
    ended = [event.result for at_s, event in fleet.ended if began_s <= at_s < began_s + duration_s]
    first_s = sorted(taken_s for at_s, taken_s in fleet.first_s if began_s <= at_s < began_s + duration_s)
    if not ended or not first_s:
        raise PlannerError(ErrorCode.ENGINE_FAILED, "no goal came to an end in a run; make it longer")
    return {
        "goals_per_s": len(ended) / duration_s,
        "tokens_per_s": sum(result.metrics.num_output_tokens for result in ended) / duration_s,
        "first_segment_p50_s": quantile(first_s, 0.5),
        "first_segment_p99_s": quantile(first_s, 0.99),
        "share_good": sum(result.error_code is ErrorCode.NONE for result in ended) / len(ended),
    }


def _cpu_s(pid: int) -> float:
    """Returns the processor time that a process has taken (proc(5): utime and stime)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
