# SPDX-License-Identifier: Apache-2.0
"""Which fault comes when: all of it follows from a seed."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum


class FaultKind(Enum):
    """What can be done to a fleet."""

    KILL_ENGINE = "kill-engine"
    KILL_PLANNER = "kill-planner"
    KILL_ROBOT = "kill-robot"
    KILL_WORLD = "kill-world"
    KILL_DASHBOARD = "kill-dashboard"
    STOP_ENGINE = "stop-engine"
    STOP_PLANNER = "stop-planner"
    STOP_ROBOT = "stop-robot"
    MESSAGES = "messages"
    PARTITION = "partition"
    CLOCK = "clock"
    DISK = "disk"
    MEMORY = "memory"
    BURST = "burst"
    MALFORMED = "malformed"


MEANINGS = {
    FaultKind.KILL_ENGINE: "SIGKILL to the engine process",
    FaultKind.KILL_PLANNER: "SIGKILL to the planner node",
    FaultKind.KILL_ROBOT: "SIGKILL to a robot node",
    FaultKind.KILL_WORLD: "SIGKILL to the physical world (with --sim mujoco)",
    FaultKind.KILL_DASHBOARD: "SIGKILL to the dashboard",
    FaultKind.STOP_ENGINE: "SIGSTOP to the engine, SIGCONT later",
    FaultKind.STOP_PLANNER: "SIGSTOP to the planner node, SIGCONT later",
    FaultKind.STOP_ROBOT: "SIGSTOP to a robot node, SIGCONT later",
    FaultKind.MESSAGES: "messages dropped, delayed, duplicated, reordered",
    FaultKind.PARTITION: "no message gets through at all (network namespace)",
    FaultKind.CLOCK: "the system time steps, forwards or backwards",
    FaultKind.DISK: "the disk of logs and recording is full",
    FaultKind.MEMORY: "a process may not allocate memory (RLIMIT_AS)",
    FaultKind.BURST: "many goals at once from one client",
    FaultKind.MALFORMED: "malformed messages on every topic, service and action",
}
SIGKILL_SPACING_S = 25.0
"""Between two ends of one process: ``up`` gives up on one that ends four times within a minute."""
STOPS_S = (0.5, 2.0, 7.0)
"""Durations of SIGSTOP: one that goes unnoticed, one that warns of the engine, one above every client timeout."""
PARTITIONS_S = (0.5, 3.0, 8.0)
STEPS_S = (-3600.0, -30.0, -2.0, 2.0, 30.0, 3600.0)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        index: Its number in the schedule, from 0.
        at_s: When it begins, from the beginning of the campaign.
        target: Name of the process that it hits; empty for all.
        duration_s: Until it is undone; 0 for what cannot be.
        amount: How much, in the unit of its kind: goals, messages, seconds of a clock step.
    """

    index: int
    at_s: float
    kind: FaultKind
    target: str = ""
    duration_s: float = 0.0
    amount: float = 0.0


def schedule(seed: int, kinds: Sequence[FaultKind], robots: Sequence[str], *, every_s: float) -> Iterator[Fault]:
    """Yields faults without an end, in order of time. Their kinds take turns in an order that is drawn again each time.

    Args:
        seed: Of everything.
        kinds: Which faults.
        robots: Names of the robots.
        every_s: Mean time between two faults.
    """
    rng = random.Random(f"faults {seed}")
    at_s, turn = 0.0, list[FaultKind]()
    ended_s: dict[str, float] = {}
    index = 0
    while kinds:
        turn = turn or rng.sample(list(kinds), len(kinds))
        at_s += rng.uniform(0.5, 1.5) * every_s
        kind = turn.pop()
        fault = _draw(rng, index, at_s, kind, robots)
        if kind.name.startswith("KILL") or kind is FaultKind.MEMORY:
            at_s = max(at_s, ended_s.get(fault.target, -SIGKILL_SPACING_S) + SIGKILL_SPACING_S)
            ended_s[fault.target] = at_s
        yield Fault(index, round(at_s, 3), kind, fault.target, fault.duration_s, fault.amount)
        index += 1


def _draw(  # noqa: C901, PLR0911 -- one case per kind
    rng: random.Random, index: int, at_s: float, kind: FaultKind, robots: Sequence[str]
) -> Fault:
    robot = rng.choice(list(robots))
    match kind:
        case FaultKind.KILL_ENGINE | FaultKind.KILL_PLANNER | FaultKind.KILL_WORLD | FaultKind.KILL_DASHBOARD:
            return Fault(index, at_s, kind, kind.value.removeprefix("kill-"))
        case FaultKind.KILL_ROBOT:
            return Fault(index, at_s, kind, robot)
        case FaultKind.STOP_ENGINE | FaultKind.STOP_PLANNER:
            return Fault(index, at_s, kind, kind.value.removeprefix("stop-"), rng.choice(STOPS_S))
        case FaultKind.STOP_ROBOT:
            return Fault(index, at_s, kind, robot, rng.choice(STOPS_S))
        case FaultKind.PARTITION:
            return Fault(index, at_s, kind, "", rng.choice(PARTITIONS_S))
        case FaultKind.CLOCK:
            return Fault(index, at_s, kind, "", 0.0, rng.choice(STEPS_S))
        case FaultKind.MEMORY:
            return Fault(index, at_s, kind, rng.choice(("engine", "planner", robot)), 3.0, rng.choice((0.0, 4.0, 32.0)))
        case FaultKind.BURST:
            return Fault(index, at_s, kind, "planner", 0.0, rng.choice((20.0, 100.0, 300.0)))
        case FaultKind.MALFORMED:
            return Fault(index, at_s, kind, "", 0.0, 200.0)
        case FaultKind.MESSAGES | FaultKind.DISK:
            return Fault(index, at_s, kind, "", rng.uniform(2.0, 6.0))
