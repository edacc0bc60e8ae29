# SPDX-License-Identifier: Apache-2.0
"""Planner and simulated robots as plain processes: what ``fleet_sim.launch.py`` starts, without launch."""

import contextlib
import ipaddress
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.text import counted
from llm_planner.ros.network import Network, environment
from llm_planner.ros.process import LAST_WORDS, RESTART_DELAY_S, STOP_TIMEOUT_S, Restarts, read_last_words
from llm_planner.serving.parent_death import ends_with_parent

PLANNER = "planner"
DEFAULT_PLANNER = f"/{PLANNER}"
WORLD = "world"  # the process that owns the bodies of all robots
POLL_S = 0.05
MIN_SCALE, MAX_SCALE = 0.01, 1000.0  # as robots' nodes take them
GIVE_SCALE = f"give a number from {MIN_SCALE:g} to {MAX_SCALE:g}"
DASHBOARD, RECORDER = "dashboard", "recorder"
OBSERVERS = frozenset({DASHBOARD, RECORDER})
"""Processes that only look: the fleet goes on without them."""
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")  # unless escaped: refused, or a line end


@dataclass(frozen=True, slots=True)
class Robot:
    """A robot: its name, and the name of its model."""

    name: str
    model: str


ParameterValue = bool | int | float | str | list[str]


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node of ours to start: what runs it, its name, and its parameters with the types that ROS knows."""

    executable: str
    name: str
    parameters: Mapping[str, ParameterValue]


@dataclass(frozen=True, slots=True)
class World:
    """A physical world: name or file of what stands in it (empty for empty stages), and its port on loopback."""

    name: str = ""
    port: int = 8870

    @property
    def address(self) -> str:
        """Where robots find it."""
        return f"127.0.0.1:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """The processes to start.

    Attributes:
        drones: How many Tellos: ``drone_1``, ``drone_2``, ...
        arms: How many Indy7: ``arm_1``, ...
        time_scale: How much faster than real time they run.
        seed: Of the noise of all durations; each robot adds its number.
        scenario: A YAML file with instructions, or None.
        config: A parameter file of the planner, or None.
        tellos: Addresses of Tellos, emulated or real, that the first drones fly; the other ones are kinematic. A real
            one stays on the floor until somebody tells it to take off.
        robot_models: Directories with robot models of the planner's configuration: a robot keeps to the limits that its
            planner knows.
        has_scene: Whether robots that take worlds, and live in none, begin among a few things.
        record: The MCAP file that everything is recorded to; None for no recording.
        world: The physical world that all robots without a Tello's address live in; None for kinematic robots.
        dashboard_port: Where a browser finds the dashboard; None for no dashboard.
        planner: Parameters of the planner, e.g. ``{"engine.model": "planner-small"}``; they win over the file.
        planner_name: Full name of the planner's node, which the robots ask.
        robots_per_process: How many kinematic robots share a process, at most (``ros.robot_group``); any other robot
            has one of its own.

    Raises:
        PlannerError: INVALID_CONFIG for a time scale that no robot takes, more Tellos than drones, one Tello twice, a
            real one not in real time, or a robot for which the world has no place; as ``load_world_file``.
    """

    drones: int = 3
    arms: int = 1
    time_scale: float = 1.0
    seed: int = 0
    scenario: Path | None = None
    config: Path | None = None
    tellos: tuple[str, ...] = ()
    robot_models: tuple[str, ...] = ()
    world: World | None = None
    planner: Mapping[str, ParameterValue] = field(default_factory=dict)
    planner_name: str = DEFAULT_PLANNER
    dashboard_port: int | None = None
    record: Path | None = None
    has_scene: bool = False
    robots_per_process: int = 1

    def __post_init__(self) -> None:
        if not MIN_SCALE <= self.time_scale <= MAX_SCALE:
            raise PlannerError(ErrorCode.INVALID_CONFIG, f"time_scale is {self.time_scale:g}; {GIVE_SCALE}")
        if len(self.tellos) > self.drones:
            counts = f"{counted(len(self.tellos), 'Tello')} for {counted(self.drones, 'drone')}"
            hint = f"fly them with --drones {len(self.tellos)}, or name fewer with --emulate or --tello"
            raise PlannerError(ErrorCode.INVALID_CONFIG, f"{counts}; {hint}")
        for number, address in enumerate(self.tellos):
            if address in self.tellos[:number]:
                raise PlannerError(ErrorCode.INVALID_CONFIG, f"two drones have one Tello's address: {address[:40]!r}")
            if self.time_scale != 1.0 and not is_emulated(address):
                problem = f"time_scale is {self.time_scale:g}, but a real Tello ({address[:40]!r}) runs in real time"
                raise PlannerError(ErrorCode.INVALID_CONFIG, f"{problem}; set it to 1")
        self._homes()  # there is a place for each robot

    @property
    def robots(self) -> tuple[Robot, ...]:
        """All robots."""
        drones = (Robot(f"drone_{i + 1}", "tello") for i in range(self.drones))
        return (*drones, *(Robot(f"arm_{i + 1}", "indy7") for i in range(self.arms)))

    def commands(self) -> dict[str, list[str]]:
        """Returns the command of every process by name, the planner first: of its node, or of its group of robots."""
        files = ["--params-file", str(self.config)] if self.config else []
        groups = self._groups()
        grouped = {node.name for nodes in groups.values() for node in nodes}
        commands = {PLANNER: [*_python("planner_node"), "--ros-args", *files, *parameter_words(self.planner)]}
        for node in self.nodes():
            if node.name not in grouped:
                words = ["--ros-args", "-r", f"__node:={node.name}"]
                commands[node.name] = [*_python(node.executable), *words, *parameter_words(node.parameters)]
        for name, nodes in groups.items():
            own = {f"{n.name}:{key}": value for n in nodes for key, value in n.parameters.items()}
            commands[name] = [*_python("robot_group"), *(n.name for n in nodes), "--ros-args", *parameter_words(own)]
        if self.dashboard_port is not None:
            port = parameter_words({"port": self.dashboard_port})
            commands[DASHBOARD] = [*_python("dashboard_node"), "--ros-args", *port]
        if self.record is not None:
            path = parameter_words({"path": str(self.record.absolute())})
            commands[RECORDER] = [*_python("recorder_node"), "--ros-args", *path]
        return commands

    def nodes(self) -> list[NodeSpec]:
        """Returns the nodes of the world, if there is one, and of the robots."""
        nodes, homes = [] if self.world is None else [self._world_node(self.world)], self._homes()
        for number, robot in enumerate(self.robots):
            parameters: dict[str, ParameterValue] = {
                "robot_model": robot.model,
                "time_scale": float(self.time_scale),
                "seed": self.seed + number,
                **self._own_models(),
                **(driver := self._driver(number)),
                **({"planner": self.planner_name} if self.planner_name != DEFAULT_PLANNER else {}),
                **({"default_scene": True} if self.has_scene and _takes_worlds(driver) else {}),
                **({"home": homes[number]} if number in homes else {}),
                **({"scenario": str(self.scenario.absolute())} if self.scenario else {}),
            }
            nodes.append(NodeSpec("robot_node", robot.name, parameters))
        return nodes

    def _groups(self) -> dict[str, list[NodeSpec]]:
        """Returns the robots that share processes, by the name of the process."""
        if self.robots_per_process == 1:
            return {}
        kinematic = [node for node in self.nodes() if node.name != WORLD and "driver" not in node.parameters]
        size = self.robots_per_process
        chunks = [kinematic[begin : begin + size] for begin in range(0, len(kinematic), size)]
        return {f"robots_{number}": chunk for number, chunk in enumerate(chunks, start=1)}

    def restart_commands(self) -> dict[str, list[str]]:
        """Returns the commands of the processes that may be started again without asking a person.

        Not of real robots: it is unknown where they are. Not with a scenario, which would begin again. Not of
        observers: a recorder must not overwrite its file.
        """
        again = replace(self, scenario=None, dashboard_port=None, record=None)
        real = {robot.name for robot in self.robots[: len(self.tellos)]}
        return {name: command for name, command in again.commands().items() if name not in real}

    def _driver(self, number: int) -> dict[str, ParameterValue]:
        """Returns the parameters of a robot that is not kinematic; robots are numbered drones first."""
        if number >= len(self.tellos):
            return {"driver": "mujoco", "address": self.world.address} if self.world else {}
        address = self.tellos[number]
        return {
            "driver": "tello",
            "address": address,
            "take_off": is_emulated(address),
            "allow_world": is_emulated(address),
        }

    def _own_models(self) -> dict[str, ParameterValue]:
        found = [str(Path(directory).expanduser().absolute()) for directory in self.robot_models]
        return {"robot_models": found} if found else {}  # ROS has no empty list of strings

    def _homes(self) -> dict[int, str]:
        """Returns the parameter ``home`` of the robots in a world with places, by number; drones are numbered first."""
        if self.world is None or not self.world.name:
            return {}
        from llm_planner.sim.physics.world_file import home_of, load_world_file

        places, num_drones = load_world_file(self.world.name), self.drones - len(self.tellos)
        homes = [
            home_of(places, is_arm=is_arm, number=number)
            for count, is_arm in ((num_drones, False), (self.arms, True))
            for number in range(count)
        ]
        return {n: f"{home.x_m},{home.y_m},{home.yaw_deg}" for n, home in enumerate(homes, start=len(self.tellos))}

    def _world_node(self, world: World) -> NodeSpec:
        bodies = [f"{robot.name}:{robot.model}" for robot in self.robots[len(self.tellos) :]]
        parameters: dict[str, ParameterValue] = {
            **({"robots": bodies} if bodies else {}),
            **self._own_models(),
            "world": world.name,
            "port": world.port,
            "time_scale": float(self.time_scale),
            "seed": self.seed,
        }
        return NodeSpec("world_node", WORLD, parameters)


class Fleet:
    """Processes that run together; a context manager that stops them.

    They end with their parent, however it ends: each gets SIGTERM then, so that a robot stops before its node ends. The
    kernel means the *thread* that starts them: it must run as long as they do.

    Args:
        commands: By name, as ``Composition.commands`` returns them.
        log_dir: Where each process writes ``<name>.log``; None for the terminal.
        network: Who can talk to their nodes.
        restart_commands: Of those that ``tend`` may start again.
    """

    def __init__(
        self,
        commands: Mapping[str, Sequence[str]],
        *,
        log_dir: Path | None = None,
        network: Network = Network.HOST,
        restart_commands: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._commands = commands
        self._log_dir = log_dir
        self._environment = environment(network, os.environ)
        self._restart_commands = restart_commands or {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._restarts: defaultdict[str, Restarts] = defaultdict(Restarts)
        self._due_s: dict[str, float] = {}  # when which process starts again
        self._gone: set[str] = set()  # for good
        self._words = TemporaryDirectory(prefix="llm_planner_")  # why processes ended, as they say

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts all processes."""
        for name, command in self._commands.items():
            self._start(name, command)

    def _start(self, name: str, command: Sequence[str]) -> None:
        log = (self._log_dir / f"{name}.log").open("ab" if name in self._processes else "wb") if self._log_dir else None
        (words := self._words_of(name)).unlink(missing_ok=True)
        self._processes[name] = subprocess.Popen(
            ends_with_parent(command, signal.SIGTERM),
            env=self._environment | {LAST_WORDS: str(words)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT if log else None,
            start_new_session=True,  # Ctrl-C reaches the parent alone, which stops them in order
        )
        if log:
            log.close()

    def tend(self, now_s: float) -> list[str]:
        """Starts again what has ended and may be, each process alone. Call it a few times a second.

        Args:
            now_s: Monotonic time.

        Returns:
            A line about every process that has ended since the last call.

        Raises:
            PlannerError: If the planner or the world has ended for good, for the fleet cannot go on: the reason that it
                gave, or ENGINE_FAILED.
        """
        for name in [name for name, due_s in self._due_s.items() if now_s >= due_s]:
            del self._due_s[name]
            self._start(name, self._restart_commands[name])
        ended = [(n, status) for n, status in self._ended() if n not in self._gone and n not in self._due_s]
        return [self._deal_with(name, status, now_s) for name, status in ended]

    def _deal_with(self, name: str, status: int, now_s: float) -> str:
        """Decides whether a process that has ended starts again; returns a line for the log."""
        how = f"{name} ended with status {status}"
        may_start_again = self._restarts[name].may_start_again(status, now_s)
        if name in self._restart_commands and may_start_again:
            self._due_s[name] = now_s + RESTART_DELAY_S
            robots = "; robots keep safe meanwhile" if name in (PLANNER, WORLD) else "; the others go on"
            return f"{how} and is started again{robots}"
        if name in (PLANNER, WORLD):
            if (reason := self.last_words(name)) is None:
                raise PlannerError(ErrorCode.ENGINE_FAILED, f"process {how}")
            raise PlannerError(reason.code, f"process {how}: {reason.message}")
        self._gone.add(name)
        return f"{how}; the fleet goes on without it"

    def last_words(self, name: str) -> PlannerError | None:
        """Returns why a process has ended, or None if it has not, or does not say."""
        return read_last_words(self._words_of(name))

    def _words_of(self, name: str) -> Path:
        return Path(self._words.name) / name

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by name."""
        return {name: process.pid for name, process in self._processes.items()}

    def first_ended(self) -> tuple[str, int] | None:
        """Returns name and exit status of a process that has ended, or None while all run that matter."""
        return next((ended for ended in self._ended() if ended[0] not in OBSERVERS), None)

    def observers_ended(self) -> dict[str, int]:
        """Returns names and exit statuses of the processes that only looked and have ended."""
        return {name: status for name, status in self._ended() if name in OBSERVERS}

    def _ended(self) -> Iterator[tuple[str, int]]:
        statuses = ((name, process.poll()) for name, process in self._processes.items())
        return ((name, status) for name, status in statuses if status is not None)

    def wait(self) -> tuple[str, int]:
        """Waits until any process ends; returns its name and exit status."""
        while (ended := self.first_ended()) is None:
            time.sleep(POLL_S)
        return ended

    def stop(self) -> dict[str, int]:
        """Stops robots, then the planner (it gets their last messages), then the observers; returns exit statuses."""
        for group in (self._robots(), self._named({"planner"}), self._named(OBSERVERS)):
            _terminate(group)
        statuses = {name: process.wait() for name, process in self._processes.items()}
        self._words.cleanup()
        return statuses

    def _robots(self) -> list["subprocess.Popen[bytes]"]:
        return self._named(self._processes.keys() - {"planner"} - OBSERVERS)

    def _named(self, names: Collection[str]) -> list["subprocess.Popen[bytes]"]:
        return [process for name, process in self._processes.items() if name in names]


def _terminate(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    for process in processes:
        process.terminate()
    deadline_s = time.monotonic() + STOP_TIMEOUT_S + 1.0
    for process in processes:
        try:
            process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()


def _takes_worlds(driver: Mapping[str, ParameterValue]) -> bool:
    return not driver or driver.get("allow_world") is True


def is_emulated(address: str) -> bool:
    """Returns whether a Tello at an address is an emulated one on this machine."""
    with contextlib.suppress(ValueError):
        return ipaddress.IPv4Address(address).is_loopback
    return False


def _python(module: str) -> list[str]:
    return [sys.executable, "-m", f"llm_planner.ros.{module}"]


def parameter_words(parameters: Mapping[str, ParameterValue]) -> list[str]:
    """Returns what sets parameters on a command line of ROS, which reads values as YAML: every text is in quotes.

    Empty lists are left out: ROS has none.

    Raises:
        PlannerError: INVALID_CONFIG for a text that is not valid UTF-8.
    """
    values = {name: _to_yaml(name, value) for name, value in parameters.items() if value != []}
    return [word for name, value in values.items() for word in ("-p", f"{name}:={value}")]


def _to_yaml(name: str, value: ParameterValue) -> str:
    text = json.dumps(value, ensure_ascii=False)  # YAML knows no surrogate pairs
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"{name} is not valid UTF-8: {value!r:.200}") from error
    return _NOT_IN_YAML.sub(lambda character: f"\\u{ord(character[0]):04x}", text)
