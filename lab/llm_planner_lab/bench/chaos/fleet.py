# SPDX-License-Identifier: Apache-2.0
"""The processes of a campaign: the product's fleet, with journals in planner and robots."""

import math
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from llm_planner.ros.composition import DASHBOARD, PLANNER, RECORDER, WORLD, Composition, Fleet
from llm_planner_lab.bench.chaos import machine
from llm_planner_lab.bench.chaos.journal import BREAK, DIRECTORY

ENGINE = "engine"
JOURNALED = {
    "llm_planner.ros.planner_node": "llm_planner_lab.bench.chaos.planner_process",
    "llm_planner.ros.robot_node": "llm_planner_lab.bench.chaos.robot_process",
}


def journaled(commands: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Returns the commands of a composition with planner and robots that keep journals."""
    return {name: [JOURNALED.get(word, word) for word in command] for name, command in commands.items()}


@dataclass(slots=True)
class Processes:
    """A fleet under test, and what has happened to its processes.

    Attributes:
        directory: Of the campaign: journals, and a small disk for what processes write.
        composition: The processes to start.
        ends: By name, process ids and when each had ended.
        unexpected: What ended although no fault had ended it.
    """

    directory: Path
    composition: Composition
    fleet: Fleet = field(init=False)
    ends: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    unexpected: list[tuple[float, str]] = field(default_factory=list)
    _pids: dict[str, int] = field(default_factory=dict)
    _blamed_until_s: dict[int, float] = field(default_factory=dict)

    def start(self, extra: Mapping[str, str]) -> None:
        """Starts all processes.

        Args:
            extra: Environment of theirs alone.
        """
        disk = self.directory / "disk"
        own = {DIRECTORY: str(self.directory), "ROS_LOG_DIR": str(disk), **extra}
        before = {name: os.environ.get(name) for name in own}
        os.environ.update(own)
        again = replace(self.composition, scenario=None, record=None)
        self.fleet = Fleet(
            journaled(self.composition.commands()), log_dir=disk, restart_commands=journaled(again.commands())
        )
        try:
            self.fleet.start()
        finally:  # the fleet has its environment, and this process shall not look like one of them
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        self._pids = self.fleet.pids

    def blame(self, pid: int, until_s: float = math.inf) -> None:
        """Notes that a fault may end a process until then."""
        self._blamed_until_s[pid] = until_s

    def tend(self, now_s: float) -> None:
        """Starts again what has ended; notes what was no fault's doing.

        Raises:
            PlannerError: If planner or world ended too often.
        """
        for line in self.fleet.tend(now_s):
            name = line.partition(" ")[0]
            pid = self._pids.get(name, 0)
            self.ends.setdefault(name, []).append((pid, now_s))
            if now_s > self._blamed_until_s.get(pid, -math.inf):
                self.unexpected.append((now_s, line))
        self._pids = self.fleet.pids

    def pid(self, name: str) -> int | None:
        """Returns the living process of a name; None while there is none."""
        if not self._pids:  # not started yet
            return None
        if name == ENGINE:
            planner = self.pid(PLANNER)
            return None if planner is None else machine.engine_pid(planner)
        pid = self.fleet.pids.get(name)
        return pid if pid is not None and machine.is_alive(pid) else None

    def all_pids(self) -> dict[str, int]:
        """Returns all living processes by name, the engine included."""
        names = (ENGINE, *self.fleet.pids)
        return {name: pid for name in names if (pid := self.pid(name)) is not None}


def free_port() -> int:
    """Returns a TCP port that is free on this host now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def compose(
    *, drones: int, arms: int, time_scale: float, backend: str, has_world: bool, directory: Path
) -> Composition:
    """Returns a fleet for a campaign: planner, robots, dashboard, and a recorder that writes to the small disk."""
    from llm_planner.ros.composition import World

    return Composition(
        drones=drones,
        arms=arms,
        time_scale=time_scale,
        planner={"backend": backend},
        world=World(port=free_port()) if has_world else None,
        dashboard_port=free_port(),
        record=directory / "disk" / "record.mcap",
    )


__all__ = ["DASHBOARD", "ENGINE", "PLANNER", "RECORDER", "WORLD", "Processes", "compose"]


def environment_of_break(defects: str) -> dict[str, str]:
    """Returns the environment of robots that are broken on purpose."""
    return {BREAK: defects} if defects else {}
