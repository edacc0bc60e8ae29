# SPDX-License-Identifier: Apache-2.0
"""Does each kind of fault to a fleet, and undoes it."""

import os
import random
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from llm_planner_lab.bench.chaos import machine
from llm_planner_lab.bench.chaos.checks import Span
from llm_planner_lab.bench.chaos.clock_step import StepClock
from llm_planner_lab.bench.chaos.fleet import DASHBOARD, ENGINE, PLANNER, RECORDER, WORLD, Processes
from llm_planner_lab.bench.chaos.hostile_client import HostileClient
from llm_planner_lab.bench.chaos.messages import Disorder
from llm_planner_lab.bench.chaos.schedule import Fault, FaultKind
from llm_planner_lab.bench.chaos.workload import Workload

GRACE_S = 2.0  # after which a process that went on has dealt with what it missed
RESTART_S = 60.0  # in which a process that was ended is no robot to be asked, unless it is back sooner
STARVED_S = 10.0  # in which a process that may allocate again ends, if it does


@dataclass(slots=True, kw_only=True)
class Injector:
    """Injects faults.

    Attributes:
        is_isolated: Whether there is a network namespace to cut.
        has_disk: Whether there is a small disk to fill.
        engine_kills_s: When an engine was killed.
        spans: By robot, when a fault hit its own process.
        planner_losses_s: When the planner was killed, stopped or cut off.
    """

    processes: Processes
    workload: Workload
    hostile: HostileClient
    clock: StepClock
    directory: Path
    seed: int
    is_isolated: bool
    has_disk: bool
    engine_kills_s: list[float] = field(default_factory=list)
    engine_stops_s: list[float] = field(default_factory=list)
    planner_kills_s: list[float] = field(default_factory=list)
    engine_gone_s: list[float] = field(default_factory=list)
    spans: dict[str, list[Span]] = field(default_factory=dict)
    _orphans: list[tuple[int, float]] = field(default_factory=list)

    def missing(self, kind: FaultKind) -> str:
        """Returns why a kind of fault cannot be injected here; empty if it can."""
        if kind is FaultKind.PARTITION and not self.is_isolated:
            return "needs a network namespace"
        if kind is FaultKind.DISK and not self.has_disk:
            return "needs a mount namespace"
        if kind is FaultKind.CLOCK and not self.clock.environment:
            return "needs a C compiler (cc) and glibc"
        if kind is FaultKind.KILL_WORLD and self.processes.composition.world is None:
            return "needs --sim mujoco"
        return ""

    def inject(self, fault: Fault) -> Callable[[], None] | None:
        """Does it; returns what undoes it, or None if it did not come about: its target was not there."""
        if fault.kind.name.startswith("KILL"):
            return self._kill(fault)
        if fault.kind.name.startswith("STOP"):
            return self._stop(fault)
        match fault.kind:
            case FaultKind.MESSAGES:
                Disorder(until_s=time.monotonic() + fault.duration_s).write(self.directory)
            case FaultKind.PARTITION:
                machine.set_loopback(is_up=False)
                return _connect
            case FaultKind.CLOCK:
                self.clock.step(fault.amount)
            case FaultKind.DISK:
                return self._fill_disk()
            case FaultKind.MEMORY:
                return self._starve(fault)
            case FaultKind.BURST:
                self.workload.burst(int(fault.amount))
            case FaultKind.MALFORMED:
                self._send_malformed(fault)
            case _:
                raise AssertionError("kills and stops are dealt with above")
        return _nothing

    def watch(self, now_s: float) -> None:
        """Notes how long an engine outlived its planner."""
        for pid, killed_s in [(p, s) for p, s in self._orphans if not machine.is_alive(p)]:
            self._orphans.remove((pid, killed_s))
            self.engine_gone_s.append(now_s - killed_s)

    def _kill(self, fault: Fault) -> Callable[[], None] | None:
        pid, engine = self.processes.pid(fault.target), self.processes.pid(ENGINE)
        if pid is None:
            return None
        now_s = time.monotonic()
        if fault.kind is FaultKind.KILL_ENGINE:
            self.engine_kills_s.append(now_s)
        if fault.kind is FaultKind.KILL_PLANNER:
            self.planner_kills_s.append(now_s)
            self._orphans += [(engine, now_s)] if engine else []
        self._hit(fault, pid, RESTART_S)
        os.kill(pid, signal.SIGKILL)
        return _nothing

    def _stop(self, fault: Fault) -> Callable[[], None] | None:
        pid = self.processes.pid(fault.target)
        if pid is None:
            return None
        if fault.kind is FaultKind.STOP_ENGINE and fault.duration_s > 5.0:
            self.engine_stops_s.append(time.monotonic())
        if fault.target not in (ENGINE, PLANNER):
            self._span(fault.target, fault.duration_s + GRACE_S)
        os.kill(pid, signal.SIGSTOP)

        def go_on() -> None:
            if machine.is_alive(pid):
                os.kill(pid, signal.SIGCONT)

        return go_on

    def _starve(self, fault: Fault) -> Callable[[], None] | None:
        pid = self.processes.pid(fault.target)
        size_mb = None if pid is None else machine.address_space_mb(pid)
        if pid is None or size_mb is None:
            return None
        self._hit(fault, pid, fault.duration_s + STARVED_S)
        limit = int((size_mb + fault.amount) * 2**20)
        resource.prlimit(pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))

        def restore() -> None:
            self.processes.blame(pid, time.monotonic() + STARVED_S)
            if machine.is_alive(pid):
                unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
                resource.prlimit(pid, resource.RLIMIT_AS, unlimited)

        return restore

    def _fill_disk(self) -> Callable[[], None]:
        if (recorder := self.processes.pid(RECORDER)) is not None:
            self.processes.blame(recorder)  # it says that the disk is full, and ends
        path = self.directory / "disk" / "ballast"
        with path.open("wb", buffering=0) as file:
            try:
                while file.write(bytes(2**16)) == 2**16:
                    pass
            except OSError:
                pass  # it is full
        return path.unlink

    def _send_malformed(self, fault: Fault) -> None:
        rng = random.Random(f"malformed {self.seed} {fault.index}")
        likely = (*(robot.name for robot in self.processes.composition.robots), *self.workload.active_goal_ids)
        self.workload.post(lambda: self._count_malformed(rng, int(fault.amount), likely))

    def _count_malformed(self, rng: random.Random, number: int, likely: tuple[str, ...]) -> None:
        self.workload.counts["malformed"] += self.hostile.send(rng, number, likely)

    def _hit(self, fault: Fault, pid: int, for_s: float) -> None:
        self.processes.blame(pid)
        if fault.target not in (ENGINE, PLANNER, WORLD, DASHBOARD):
            self._span(fault.target, for_s)

    def _span(self, robot: str, for_s: float) -> None:
        now_s = time.monotonic()
        self.spans.setdefault(robot, []).append(Span(now_s, now_s + for_s))


def _connect() -> None:
    machine.set_loopback(is_up=True)


def _nothing() -> None:
    """Nothing is to be undone."""
