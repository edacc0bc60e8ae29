# SPDX-License-Identifier: Apache-2.0
"""Emergencies with time budgets over ROS, with all slots busy: in time at the robot, refused, or late.

Planner, its engine, the load and the robot that asks are processes of their own over DDS. The robot's times are from
asking to what its program has; decisions are those of the engine's journal. All are on one clock, the machine's
monotonic one. Emergencies are drawn by a seed; none is left out for its answer.
"""

import bisect
import os
import platform
import random
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import PlanRequest, PlanResult, Urgency
from llm_planner.core.segment import ReportStatus, Segment
from llm_planner.ros.composition import PLANNER, Composition, Fleet
from llm_planner.ros.network import Network, environment
from llm_planner.ros.plan_handle import PlanHandle
from llm_planner.ros.planner_client import PlannerClient
from llm_planner.ros.spinning import spinning
from llm_planner_lab.ros.budgets_planner import Turn, read_journal, serve
from llm_planner_lab.ros.latency_peers import TIMEOUT_S
from llm_planner_lab.ros.quantiles import nearest_rank
from llm_planner_lab.tasks.sample import Task, sample

LOAD_TIMEOUT_S = 120.0
"""For the model, and a profile of the engine."""
WARM_UP_S = 5.0
"""From the start of the load: all its robots have found the planner, and wait for a slot again and again."""
PAUSE_S = (0.05, 0.25)
"""Between two emergencies, drawn evenly: they come at any moment of a step."""
FAMILIES = ("avoid_injury", "prevent_collision", "evade_animal")
SCRIPTED = "exactly: mr(100);mf(50);"
AFTER_DECISION_S, BEFORE_END_S, SHARE_IN_TIME = 0.020, 0.050, 0.999
"""What refusals and first segments are held to."""
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetsBench:
    """What is measured.

    Attributes:
        budgets_s: Of the emergencies, which take turns.
        trials: Emergencies of each.
        robots: That keep the slots busy.
        slots: Of the planner, ``scheduler.max_num_seqs``.
        engine: ``torch`` for the bundled model, ``fake`` for a scripted one.
        seed: Of the emergencies, and of the pauses between them.
    """

    budgets_s: Sequence[float] = (1.0, 0.5, 0.2, 0.1)
    trials: int = 300
    robots: int = 16
    slots: int = 8
    engine: str = "torch"
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Emergency:
    """How one emergency went, in seconds.

    Attributes:
        asked_s: When the robot asked, on the machine's clock.
        first_s: From the asking until the first segment was there; None if none came.
        ended_s: From the asking until the result was there.
        response_time_s: The planner's own figure: from arrival to the first segment leaving.
        wcet_s: What the planner's first decision counted on at the worst, from arrival.
    """

    request_id: str
    budget_s: float
    asked_s: float
    first_s: float | None
    ended_s: float
    code: ErrorCode
    response_time_s: float | None
    wcet_s: float | None

    @property
    def is_refused(self) -> bool:
        """Whether the planner said that it would not keep the budget, instead of admitting it."""
        return self.first_s is None and self.code is ErrorCode.BUDGET_INFEASIBLE

    @property
    def is_in_time(self) -> bool:
        """Whether the robot had its first segment within the budget."""
        return self.first_s is not None and self.first_s <= self.budget_s


def ask(client: PlannerClient, instruction: str, scene: str, budget_s: float) -> Emergency:
    """Returns how one emergency went; blocks until it is over. The robot carries out every segment in no time."""
    request = PlanRequest(
        request_id=uuid.uuid4().hex,
        robot_id=client.robot_id,
        robot_model="tello",
        instruction=instruction,
        scene=scene,
        urgency=Urgency.URGENT,
        time_budget_s=budget_s,
    )
    first_s: list[float] = []
    ended_s: list[float] = []
    handles: list[PlanHandle] = []
    has_handle, has_ended = threading.Event(), threading.Event()
    began_s = time.monotonic()

    def on_segment(segment: Segment) -> None:
        if not first_s:
            first_s.append(time.monotonic() - began_s)
        has_handle.wait()
        handles[0].report(segment, ReportStatus.SUCCEEDED)

    def on_end(_: object) -> None:
        ended_s.append(time.monotonic() - began_s)
        has_ended.set()

    handle = client.ask(request, on_segment=on_segment)
    handles.append(handle)
    has_handle.set()
    handle.future.add_done_callback(on_end)
    result: PlanResult = handle.result(TIMEOUT_S)
    has_ended.wait()
    metrics = result.metrics
    return Emergency(
        request_id=request.request_id,
        budget_s=budget_s,
        asked_s=began_s,
        first_s=first_s[0] if first_s else None,
        ended_s=ended_s[0],
        code=result.error_code,
        response_time_s=metrics.response_time_s,
        wcet_s=metrics.wcet_s,
    )


def draw_emergency(rng: random.Random) -> Task:
    """Returns an emergency of the templates that the bundled model was trained on."""
    return sample(rng, family=rng.choice(FAMILIES))


def send_emergencies(
    planner: str, bench: BudgetsBench, on_progress: Callable[[str, float], None] = lambda *_: None
) -> list[Emergency]:
    """Returns how all emergencies went; budgets take turns, so that all meet the same load."""
    rng, gone = random.Random(bench.seed), list[Emergency]()
    with spinning("budgets_robot") as node:
        client = PlannerClient(node, "tello", planner=planner)
        if not client.wait_for_planner(TIMEOUT_S):
            raise TimeoutError(f"no planner {planner} within {TIMEOUT_S:g} s")
        for number in range(bench.trials):
            on_progress("emergencies", number / bench.trials)
            for budget_s in bench.budgets_s:
                task = draw_emergency(rng)
                is_scripted = bench.engine == "fake"
                gone.append(ask(client, SCRIPTED if is_scripted else task.instruction, task.scene, budget_s))
                time.sleep(rng.uniform(*PAUSE_S))
    return gone


# --- What comes of it


def summarize(emergencies: Sequence[Emergency], decided_s: Mapping[str, float]) -> dict[str, Any]:
    """Returns counts, shares and percentiles, in milliseconds, of emergencies.

    Args:
        emergencies: At least one.
        decided_s: By request, when the turn began in which the engine ended it; none of those that the node refused
            because the engine had not decided.
    """
    refused = [e for e in emergencies if e.is_refused]
    admitted = [e for e in emergencies if not e.is_refused]
    answered = [(e, e.first_s) for e in admitted if e.first_s is not None]
    after_s = [e.asked_s + e.ended_s - decided_s[e.request_id] for e in refused if e.request_id in decided_s]
    before_s = [e.budget_s - e.ended_s for e in refused]
    return {
        "sent": len(emergencies),
        "refused": len(refused),
        "admitted": len(admitted),
        "in_time": sum(e.is_in_time for e in admitted),
        "late": sum(not e.is_in_time for e, _ in answered),
        "without_segment": dict(Counter(e.code.name for e in admitted if e.first_s is None)),
        "first_segment_ms": _quantiles([first_s for _, first_s in answered]),
        "lateness_ms": _quantiles([first_s - e.budget_s for e, first_s in answered]),
        "refusal_after_decision_ms": _quantiles(after_s),
        "refusal_before_end_ms": _quantiles([-s for s in before_s], sign=-1.0),
        "refused_too_late": sum(s > AFTER_DECISION_S for s in after_s),
        "refused_too_near_the_end": sum(s < BEFORE_END_S for s in before_s),
        "refused_by_the_node": sum(e.request_id not in decided_s for e in refused),
        "wcet": _bound([(e.response_time_s, e.wcet_s) for e in admitted]),
        "without_bound": sum(not e.wcet_s for e, _ in answered),
        "late_without_bound": sum(not (e.is_in_time or e.wcet_s) for e, _ in answered),
    }


def _quantiles(samples_s: Sequence[float], sign: float = 1.0) -> dict[str, float] | None:
    """Returns quantiles in milliseconds; with a sign of -1 of the samples' opposites, the least of which is worst."""
    ordered = sorted(samples_s)
    return {name: sign * 1e3 * nearest_rank(ordered, p) for name, p in QUANTILES.items()} if ordered else None


def _bound(pairs: Sequence[tuple[float | None, float | None]]) -> dict[str, Any]:
    """Returns how many response times were under their bound, and how much longer the bound is in the median."""
    known = [(time_s, bound_s) for time_s, bound_s in pairs if time_s and bound_s]
    ratios = sorted(bound_s / time_s for time_s, bound_s in known)
    return {
        "n": len(known),
        "under": sum(ratio >= 1.0 for ratio in ratios),
        "bound_over_measured_p50": nearest_rank(ratios, 0.5) if ratios else None,
    }


def load_figures(turns: Sequence[Turn], emergencies: Sequence[Emergency], slots: int) -> dict[str, Any]:
    """Returns how busy the engine was from the first emergency to the last.

    A slot is wanted by every goal that has one or would take one, behind a turn and until the next one has ended;
    the scheduler leaves some of them empty for the sake of urgent goals.
    """
    first_s = emergencies[0].asked_s
    last_s = emergencies[-1].asked_s + emergencies[-1].ended_s
    ends_s = [turn.ended_s for turn in turns]
    taken_s = wanted_s = 0.0
    for turn, until_s in zip(turns, [*ends_s[1:], last_s], strict=True):
        taken_s += _overlap_s(turn.ended_s, until_s, first_s, last_s) * (turn.num_running >= slots)
        wanted_s += _overlap_s(turn.ended_s, until_s, first_s, last_s) * (turn.num_wanting >= slots)
    before = [bisect.bisect_right(ends_s, e.asked_s) - 1 for e in emergencies]
    own = {e.request_id for e in emergencies}
    during = (turn for turn in turns if first_s <= turn.ended_s <= last_s)
    codes = (code for turn in during for request_id, code in turn.ended.items() if request_id not in own)
    lasted = [turn.ended_s - turn.began_s for turn in turns if first_s <= turn.began_s <= last_s]
    return {
        "share_of_time_all_slots_wanted": wanted_s / (last_s - first_s),
        "share_of_time_all_slots_taken": taken_s / (last_s - first_s),
        "share_of_emergencies_that_met_all_slots_wanted": sum(turns[i].num_wanting >= slots for i in before)
        / len(emergencies),
        "goals_by_code": dict(Counter(ErrorCode(code).name for code in codes)),
        "turn_ms": _quantiles(lasted),
        "took_s": last_s - first_s,
    }


def _overlap_s(began_s: float, ended_s: float, first_s: float, last_s: float) -> float:
    return max(0.0, min(ended_s, last_s) - max(began_s, first_s))


def document_of(bench: BudgetsBench, emergencies: Sequence[Emergency], turns: Sequence[Turn]) -> dict[str, Any]:
    """Returns the JSON document."""
    decided_s = {request_id: turn.began_s for turn in turns for request_id in turn.ended}
    by_budget = {budget_s: [e for e in emergencies if e.budget_s == budget_s] for budget_s in bench.budgets_s}
    return {
        "budgets": [{"budget_s": s, **summarize(of_it, decided_s)} for s, of_it in by_budget.items()],
        "all": summarize(emergencies, decided_s),
        "load": load_figures(turns, emergencies, bench.slots),
        "aims": {
            "share_in_time": SHARE_IN_TIME,
            "after_decision_ms": 1e3 * AFTER_DECISION_S,
            "before_end_ms": 1e3 * BEFORE_END_S,
        },
        "setup": {
            "engine": bench.engine,
            "robots": bench.robots,
            "slots": bench.slots,
            "seed": bench.seed,
            "load_average": os.getloadavg()[0],
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        },
    }


def run_budgets(bench: BudgetsBench, on_progress: Callable[[str, float], None]) -> dict[str, Any]:
    """Returns the JSON document of a run: starts planner and load, and ends them.

    Raises:
        TimeoutError: The planner did not become ready, or a goal did not end.
    """
    os.environ.update(environment(Network.HOST, os.environ))  # of the robot, which is this process, as of a fleet's
    fleet = Composition(drones=0, arms=0, planner={"backend": bench.engine, "scheduler.max_num_seqs": bench.slots})
    node = fleet.commands()[PLANNER]
    with tempfile.TemporaryDirectory(prefix="llm_planner_budgets_") as directory:
        path = Path(directory) / "journal.jsonl"
        command = [sys.executable, "-m", "llm_planner_lab.ros.budgets", str(path), *node[3:]]
        load = [sys.executable, "-m", "llm_planner_lab.ros.latency", "load"]
        load += ["--robots", str(bench.robots), "--engine", bench.engine]
        with Fleet({PLANNER: command}, log_dir=Path(directory)):
            on_progress("loading the model", 0.0)
            _wait_for_planner()
            with Fleet({"load": load}, log_dir=Path(directory)):
                time.sleep(WARM_UP_S)
                emergencies = send_emergencies(f"/{PLANNER}", bench, on_progress)
        with path.open(encoding="utf-8") as lines:
            turns = read_journal(lines)
    return document_of(bench, emergencies, turns)


def _wait_for_planner() -> None:
    with spinning("budgets_wait") as node:
        if not PlannerClient(node, "tello").wait_for_planner(LOAD_TIMEOUT_S):
            raise TimeoutError(f"the planner was not ready within {LOAD_TIMEOUT_S:g} s")


if __name__ == "__main__":  # the planner: what its engine process unpickles is in a module of its own
    sys.exit(serve(sys.argv[1:]))
