# SPDX-License-Identifier: Apache-2.0
"""Runs a campaign: starts a fleet, keeps it busy, injects faults from a schedule, and checks what every robot did."""

import heapq
import itertools
import os
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from llm_planner.core.errors import PlannerError, code_name
from llm_planner.robots.library import RobotLibrary
from llm_planner.ros.network import Network, environment
from llm_planner.ros.spinning import spinning
from llm_planner_lab.bench.chaos import checks, journal, machine, memory
from llm_planner_lab.bench.chaos.checks import RobotCheck, Violation
from llm_planner_lab.bench.chaos.clock_step import StepClock
from llm_planner_lab.bench.chaos.fleet import ENGINE, PLANNER, Processes, compose, environment_of_break
from llm_planner_lab.bench.chaos.hostile_client import HostileClient
from llm_planner_lab.bench.chaos.injection import Injector
from llm_planner_lab.bench.chaos.schedule import MEANINGS, Fault, FaultKind, schedule
from llm_planner_lab.bench.chaos.workload import Workload, codes_of
from llm_planner_lab.checkout import commit

READY_TIMEOUT_S = 300.0  # a busy machine may take a minute to import Python modules eight times
POLL_S = 0.05
DRAIN_S = 30.0  # for goals that are under way at the end
GOAL_BOUND_S = 90.0
"""From acceptance to outcome: a plan, a hung engine (16 s), and a planner that starts again twice."""
DISK_MB = 256
SAMPLE_S = 2.0
EXAMPLES = 10  # of violations of each kind, in the document

Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a campaign does.

    Attributes:
        goals: It ends when this many goals have ended; 0 for no limit.
        seconds: It ends after this many seconds; 0 for no limit.
        kinds: Of faults.
        last_fault: Index of the last one; None for no last one.
        every_s: Mean time between two faults.
        backend: Of the planner.
        is_soak: Whether memory is the question: then every process must live, and growth is checked.
        defect: Of robots, on purpose (``mutations``).
        journals: Where to leave the journals and logs of all processes; None to forget them.
    """

    seed: int = 0
    goals: int = 0
    seconds: float = 60.0
    kinds: tuple[FaultKind, ...] = tuple(FaultKind)
    last_fault: int | None = None
    every_s: float = 4.0
    drones: int = 5
    arms: int = 1
    time_scale: float = 5.0
    backend: str = "fake"
    has_world: bool = False
    is_soak: bool = False
    defect: str = ""
    journals: Path | None = None


@dataclass(slots=True)
class _Run:
    """A campaign in progress."""

    plan: Plan
    processes: Processes
    workload: Workload
    injector: Injector
    commit: str = field(default_factory=commit)  # of the code that starts, not of what it becomes meanwhile
    began_s: float = 0.0
    closed_s: float = 0.0  # when robots were told nothing more
    injected: list[Fault] = field(default_factory=list)
    begins_s: list[float] = field(default_factory=list)
    num_missed: int = 0
    samples: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    due: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    sampled_s: float = 0.0

    def later(self, at_s: float, call: Callable[[], None]) -> None:
        """Makes a call at a time."""
        heapq.heappush(self.due, (at_s, next(self.numbers), call))

    def step(self) -> None:
        """Does what is due, and waits a little."""
        now_s = time.monotonic()
        while self.due and self.due[0][0] <= now_s:
            heapq.heappop(self.due)[2]()
        self.processes.tend(now_s)
        self.injector.watch(now_s)
        if now_s - self.sampled_s >= SAMPLE_S:
            self.sampled_s = now_s
            for name, pid in self.processes.all_pids().items():
                if (megabytes := machine.resident_mb(pid)) is not None:
                    self.samples.setdefault(f"{name} {pid}", []).append((now_s - self.began_s, megabytes))
        time.sleep(POLL_S)

    def inject(self, fault: Fault) -> None:
        """Does a fault now, and undoes it when its time is over."""
        undo = self.injector.inject(fault)
        if undo is None:
            self.num_missed += 1
            return
        self.injected.append(fault)
        self.begins_s.append(time.monotonic())
        if fault.duration_s:
            self.later(time.monotonic() + fault.duration_s, undo)


def run_campaign(plan: Plan, on_progress: Progress = lambda *_: None, *, is_isolated: bool = False) -> dict[str, Any]:
    """Returns the document of a campaign.

    Args:
        plan: What is done.
        on_progress: Told what goes on, and which share of it is done.
        is_isolated: Whether ``machine.isolate`` has worked.
    """
    os.environ.update(environment(Network.HOST, os.environ))
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="llm_planner_chaos_")))
        (directory / "disk").mkdir()
        has_disk = is_isolated and machine.mount(directory / "disk", DISK_MB)
        if has_disk:
            stack.callback(machine.unmount, directory / "disk")
        shared_before = machine.shared_memory()
        composition = compose(
            drones=plan.drones,
            arms=plan.arms,
            time_scale=plan.time_scale,
            backend=plan.backend,
            has_world=plan.has_world,
            directory=directory,
        )
        processes, clock = Processes(directory, composition), StepClock(directory)
        is_stepped = FaultKind.CLOCK in plan.kinds
        extra = environment_of_break(plan.defect) | (clock.environment if is_stepped else {})
        with spinning("llm_planner_chaos") as node:
            is_scripted = plan.backend == "fake"
            robots, pid_of = composition.robots, lambda name: processes.pid(name) or 0
            workload = Workload(node, robots, pid_of, plan.seed, is_scripted=is_scripted)
            hostile = HostileClient(node, [robot.name for robot in composition.robots])
            injector = Injector(
                processes=processes,
                workload=workload,
                hostile=hostile,
                clock=clock,
                directory=directory,
                seed=plan.seed,
                is_isolated=is_isolated,
                has_disk=has_disk,
            )
            run = _Run(plan, processes, workload, injector)
            processes.start(extra)
            try:
                ready_s = _get_ready(run, on_progress)
                skipped = _drive(run, on_progress)
            except PlannerError as error:
                what = f"the fleet gave up: {error}"
                run.violations.append(Violation(invariant="processes_ended", at_s=time.monotonic(), what=what))
                ready_s, skipped = 0.0, {}
            ended_s = time.monotonic()
            machine.set_loopback(is_up=True) if is_isolated else None
            alive = processes.all_pids()
            for pid in alive.values():
                os.kill(pid, 18)  # SIGCONT: nothing is stopped any more
            statuses = processes.fleet.stop()
        run.violations += _after_stop(statuses, alive, directory, shared_before)
        if plan.journals is not None:
            shutil.copytree(
                directory, plan.journals, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.so", "*.mcap")
            )
        return _document(run, ready_s, ended_s, skipped, directory)


def _get_ready(run: _Run, on_progress: Progress) -> float:
    """Waits until the fleet can work; returns how long that took.

    Raises:
        TimeoutError: If it cannot.
    """
    began_s = time.monotonic()
    while not (run.workload.is_planner_active and run.workload.knows_robots()):
        if time.monotonic() - began_s > READY_TIMEOUT_S:
            raise TimeoutError(f"the fleet is not ready after {READY_TIMEOUT_S:g} s")
        on_progress("starting the fleet", 0.0)
        run.processes.tend(time.monotonic())
        time.sleep(POLL_S)
    return time.monotonic() - began_s


def _drive(run: _Run, on_progress: Progress) -> dict[str, str]:
    """Keeps the fleet busy under faults until the campaign is over; returns why some kinds are left out."""
    plan = run.plan
    skipped = {kind.value: reason for kind in plan.kinds if (reason := run.injector.missing(kind))}
    kinds = [kind for kind in plan.kinds if kind.value not in skipped]
    faults = schedule(plan.seed, kinds, [r.name for r in run.processes.composition.robots], every_s=plan.every_s)
    fault = next(faults, None)
    run.began_s = time.monotonic()
    run.workload.is_open = True
    while (share := _share(run)) < 1.0:
        now_s = time.monotonic() - run.began_s
        is_last = fault is not None and plan.last_fault is not None and fault.index > plan.last_fault
        if fault is not None and not is_last and now_s >= fault.at_s:
            run.inject(fault)
            fault = next(faults)
        name = f"fault {run.injected[-1].index} {run.injected[-1].kind.value}" if run.injected else "no fault yet"
        on_progress(f"{run.workload.num_ended} goals, {name}", share)
        run.step()
    run.workload.is_open, run.closed_s = False, time.monotonic()
    drained_s = time.monotonic() + (GOAL_BOUND_S if run.injected else DRAIN_S)
    while time.monotonic() < drained_s and (run.workload.num_open or run.due):
        on_progress(f"{run.workload.num_open} goals are under way", 1.0)
        run.step()
    return skipped


def _share(run: _Run) -> float:
    plan, passed_s = run.plan, time.monotonic() - run.began_s
    shares = [run.workload.num_ended / plan.goals if plan.goals else 0.0]
    shares += [passed_s / plan.seconds if plan.seconds else 0.0]
    return max(shares)


def _after_stop(
    statuses: dict[str, int], alive: Collection[str], directory: Path, shared_before: set[str]
) -> list[Violation]:
    """Returns what the stopped fleet has left behind."""
    now_s = time.monotonic()
    found = checks.check_stop(statuses, alive, now_s)
    deadline_s = now_s + 3.0
    while machine.processes_of(directory) and time.monotonic() < deadline_s:
        time.sleep(POLL_S)
    for pid, command in machine.processes_of(directory).items():
        found.append(Violation(invariant="orphans", at_s=now_s, what=command))
        os.kill(pid, 9)
    left = sorted(machine.shared_memory() - shared_before)
    return found + [Violation(invariant="shared_memory", at_s=now_s, what=name) for name in left]


def _document(run: _Run, ready_s: float, ended_s: float, skipped: dict[str, str], directory: Path) -> dict[str, Any]:
    plan, workload = run.plan, run.workload
    engine = list(journal.read(directory / "engine.jsonl"))
    robots = _check_robots(run, checks.admitted_texts(engine), ended_s, directory)
    goals = list(workload.goals.values())
    alive = {name: [*ends, (run.processes.fleet.pids.get(name, 0), float("inf"))] for name, ends in _ends(run).items()}
    run.violations += [v for check in robots.values() for v in check.violations]
    run.violations += checks.check_goals(goals, ended_s, GOAL_BOUND_S, alive)
    run.violations += checks.check_success(goals, robots)
    run.violations += [
        Violation(invariant="processes_ended", at_s=at_s, what=line) for at_s, line in run.processes.unexpected
    ]
    run.violations += _lost_bursts(workload, ended_s)
    run.violations += checks.check_engine_starts(engine, _faults_of_engine(run))
    disturbing, kills_s = _disturbing(run), run.injector.engine_kills_s
    kills = checks.recoveries(engine, kills_s)
    num_judged, late = checks.check_engine(engine, kills_s, disturbing, run.closed_s or ended_s)
    run.violations += late
    growth = _growth(run)
    if plan.is_soak:
        run.violations += [
            Violation(invariant="memory_growth", at_s=ended_s, what=f"{name}: {g}")
            for name, g in growth.items()
            if g.is_growing
        ]
    counts = Counter(violation.invariant for violation in run.violations)
    return {
        "setup": {
            "commit": run.commit,
            "seed": plan.seed,
            "seconds": round(ended_s - run.began_s, 1) if run.began_s else 0.0,
            "drones": plan.drones,
            "arms": plan.arms,
            "time_scale": plan.time_scale,
            "backend": plan.backend,
            "sim": "mujoco" if plan.has_world else "kinematic",
            "every_s": plan.every_s,
            "is_soak": plan.is_soak,
            "processors": os.cpu_count(),
            "load": round(os.getloadavg()[0], 1),
        },
        "skipped": skipped,
        "faults": _count_faults(run),
        "goals": {
            "asked": len(goals),
            "accepted": workload.counts["accepted"],
            "ended": workload.counts["outcomes"],
            "codes": dict(codes_of(workload.goals).most_common()),
            "emergencies": workload.counts["emergency"],
            "cancels": workload.counts["cancel"],
            "burst": sum(burst.num_asked for burst in workload.bursts),
            "burst_codes": dict(Counter(code_name(c) for burst in workload.bursts for c in burst.codes).most_common()),
            "malformed_messages": workload.counts["malformed"],
            "segments": sum(check.num_segments for check in robots.values()),
            "calls": sum(check.num_calls for check in robots.values()),
        },
        "figures": {
            "fleet_ready_s": round(ready_s, 2),
            "engine_load_s": _summary([line["load_s"] for line in engine if line["kind"] == "ready"]),
            "engine_killed_served_again_s": _summary([r.after_s for r in kills]),
            "engine_killed_beyond_load_s": _summary([r.after_s - r.load_s for r in kills]),
            "engine_killed_beyond_load_undisturbed_s": _summary(
                [r.after_s - r.load_s for r in kills if not checks.is_disturbed(r.at_s, r.at_s + r.after_s, disturbing)]
            ),
            "engine_kills_judged": num_judged,
            "engine_stopped_served_again_s": _summary(
                [r.after_s for r in checks.recoveries(engine, run.injector.engine_stops_s)]
            ),
            "planner_killed_served_again_s": _summary(
                [r.after_s for r in checks.recoveries(engine, run.injector.planner_kills_s)]
            ),
            "engine_gone_after_planner_s": _summary(run.injector.engine_gone_s),
            "silence_rule_late_s": _summary([s for check in robots.values() for s in check.silence_delays_s]),
            "robot_without_processor_s": _summary([check.longest_starved_s for check in robots.values()]),
        },
        "invariants": {name: counts[name] for name in checks.INVARIANTS},
        "examples": [_example(run, v) for v in _first_of_each(run.violations)],
        "memory": {name: asdict(g) for name, g in growth.items()},
        "reproduce": _reproduce(run),
    }


def _check_robots(run: _Run, admitted: dict[str, set[str]], ended_s: float, directory: Path) -> dict[str, RobotCheck]:
    library, found = RobotLibrary(), {}
    for robot in run.processes.composition.robots:
        found[robot.name] = check = RobotCheck(
            robot=robot.name,
            model=library.get(robot.model),
            time_scale=run.plan.time_scale,
            admitted=admitted,
            faulted=run.injector.spans.get(robot.name, ()),
        )
        check.follow(journal.read(directory / f"robot_{robot.name}.jsonl"), ended_s)
    return found


def _ends(run: _Run) -> dict[str, list[tuple[int, float]]]:
    return {robot.name: run.processes.ends.get(robot.name, []) for robot in run.processes.composition.robots}


def _lost_bursts(workload: Workload, now_s: float) -> list[Violation]:
    return [
        Violation(
            invariant="goals_lost", at_s=burst.asked_s, what=f"{burst.num_asked - len(burst.codes)} goals of a burst"
        )
        for burst in workload.bursts
        if len(burst.codes) < burst.num_asked and now_s - burst.asked_s > GOAL_BOUND_S
    ]


def _disturbing(run: _Run) -> list[checks.Span]:
    """Returns the faults that hit engine, planner or network: how long the engine takes meanwhile says nothing."""
    harmless = (FaultKind.KILL_ROBOT, FaultKind.STOP_ROBOT, FaultKind.KILL_DASHBOARD, FaultKind.CLOCK)
    return [
        checks.Span(at_s, at_s + fault.duration_s)
        for fault, at_s in zip(run.injected, run.begins_s, strict=True)
        if fault.kind not in harmless
    ]


def _faults_of_engine(run: _Run) -> list[float]:
    """Returns when a fault may have ended the engine, or its planner."""
    return [
        at_s
        for fault, at_s in zip(run.injected, run.begins_s, strict=True)
        if fault.target in (ENGINE, PLANNER) and fault.kind is not FaultKind.BURST
    ]


def _growth(run: _Run) -> dict[str, memory.Growth]:
    """Returns the growth of every process that lived through the second three quarters of a campaign."""
    passed_s = max((s[-1][0] for s in run.samples.values()), default=0.0)
    found = {}
    for name, samples in run.samples.items():
        late = [sample for sample in samples if sample[0] >= 0.25 * passed_s]
        if samples[0][0] <= 0.25 * passed_s and (g := memory.growth(late)) is not None:
            found[name.partition(" ")[0]] = g
    return found


def _count_faults(run: _Run) -> dict[str, int]:
    counts = Counter(fault.kind.value for fault in run.injected)
    return {kind.value: counts[kind.value] for kind in run.plan.kinds} | {"missed": run.num_missed}


def _first_of_each(violations: Sequence[Violation]) -> list[Violation]:
    found, counts = [], Counter[str]()
    for violation in sorted(violations, key=lambda v: v.at_s):
        counts[violation.invariant] += 1
        if counts[violation.invariant] <= EXAMPLES:
            found.append(violation)
    return found


def _example(run: _Run, violation: Violation) -> dict[str, Any]:
    index = _fault_before(run, violation.at_s)
    return {
        "invariant": violation.invariant,
        "at_s": round(violation.at_s - run.began_s, 2),
        "fault": index,
        "what": violation.what,
    }


def _fault_before(run: _Run, at_s: float) -> int | None:
    """Returns the index of the last fault that had begun at a time."""
    before = [fault.index for fault, s in zip(run.injected, run.begins_s, strict=True) if s <= at_s]
    return before[-1] if before else None


def _reproduce(run: _Run) -> str:
    """Returns the command that repeats a campaign up to its first violation."""
    plan = run.plan
    first = min(run.violations, key=lambda v: v.at_s, default=None)
    index = None if first is None else _fault_before(run, first.at_s)
    names = ",".join(kind.value for kind in plan.kinds) or "none"
    kinds = "" if len(plan.kinds) == len(MEANINGS) else f" --faults {names}"
    kinds = " --soak" if plan.is_soak else kinds
    last = "" if index is None else f" --last-fault {index}"
    fleet = f" --drones {plan.drones} --arms {plan.arms} --time-scale {plan.time_scale:g} --every {plan.every_s:g}"
    end = f" --goals {plan.goals} --seconds {plan.seconds:g}"
    sim = " --sim mujoco" if plan.has_world else ""
    sim += f" --break {plan.defect}" if plan.defect else ""
    return f"llm-planner chaos --seed {plan.seed}{end}{kinds}{fleet}{sim} --backend {plan.backend}{last}"


def _summary(values: Sequence[float]) -> dict[str, float] | None:
    """Returns number, median and greatest of some values; None without any."""
    if not values:
        return None
    return {"n": len(values), "median": round(statistics.median(values), 3), "most": round(max(values), 3)}


__all__ = ["ENGINE", "Plan", "run_campaign"]
