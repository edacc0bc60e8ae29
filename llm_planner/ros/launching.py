# SPDX-License-Identifier: Apache-2.0
"""What launch files are given: their arguments, checked before anything starts, and what nodes get of them.

A mistake is one line with its number, as in ``llm-planner up``. Nothing here needs ``launch``.
"""

import contextlib
import ipaddress
import logging
import shutil
import socket
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from ament_index_python.packages import PackageNotFoundError, get_package_prefix

from llm_planner.assembly import require_usable
from llm_planner.configuration import is_ros_file, load_config, plain_parameters
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.text import node_name
from llm_planner.ros.composition import GIVE_SCALE, Composition, World
from llm_planner.ros.network import Network
from llm_planner.ros.scenario import absent_robots, load_scenario

_log = logging.getLogger(__name__)
Arguments = Mapping[str, tuple[str, str]]
"""Names of arguments to their defaults and descriptions."""

PLANNER: Arguments = {
    "model": ("", "A checkpoint directory, or the name of a bundled model; as in the config file if empty."),
    "policy": ("", "Name of a scheduling policy; as in the config file if empty."),
    "backend": ("", "What runs the model: torch, vllm, openai or fake; as in the config file if empty."),
    "base_url": ("", "With backend:=openai: the server's address, up to /v1; as in the config file if empty."),
    "config": ("", "A parameter file; config/planner.yaml of the package if empty."),
    "metrics_port": ("", "TCP port of Prometheus figures; as in the config file if empty, which is off."),
    "dashboard": ("false", "true: also show planner and robots in a browser."),
    "dashboard_port": ("8080", "Where the browser finds it: http://127.0.0.1:PORT/."),
    "network": ("host", "Who can talk to the nodes: host for this machine only, subnet for the whole network."),
    "name": ("planner", "Name of the planner's node; its interfaces live below it, and robots ask it."),
    "namespace": ("", "Namespace of all nodes."),
}
FLEET: Arguments = {
    "drones": ("3", "How many Tello drones: drone_1, drone_2, ..."),
    "arms": ("1", "How many Indy7 arms: arm_1, ..."),
    "scenario": ("", "A YAML file with instructions (config/scenario_example.yaml shows one); none if empty."),
    "scene": ("true", "Whether kinematic robots begin among a few things (`llm-planner scene` shows them)."),
    "time_scale": ("1.0", "How much faster than real time the robots live."),
    "tellos": (
        "",
        "Addresses of real or emulated Tellos for the first drones, with commas between; the rest is simulated.",
    ),
    "sim": ("kinematic", "What simulated robots live in: kinematic, or mujoco for bodies in physics."),
    "world": ("", "With sim:=mujoco: a bundled world (house, table), or a YAML file; empty stages if empty."),
    "world_port": ("8870", "With sim:=mujoco: TCP port of the world, on loopback."),
    "seed": ("0", "Seed of the noise of all durations; each robot adds its number."),
}
GAZEBO: Arguments = {
    "world": ("house", "A bundled world (house, table), a YAML file, or empty stages."),
    "drones": ("1", "How many Tello drones: drone_1, drone_2, ..."),
    "arms": ("1", "How many Indy7 arms: arm_1, ..."),
    "gui": ("true", "Whether Gazebo opens a window."),
    "scenario": ("", "A YAML file with instructions (config/scenario_example.yaml shows one); none if empty."),
}
MAX_ROBOTS = 100  # of a kind
MAX_DIGITS = 20  # of a number
_SETTINGS = {"model": "engine.model", "policy": "scheduler.policy", "backend": "backend", "base_url": "openai.base_url"}


def require_known(
    file: str, given: Sequence[str], known: Collection[str], command: Sequence[str] | None = None
) -> None:
    """Refuses an argument that a launch file does not have: launch passes it over.

    Args:
        file: Name of the launch file. One that another file includes says nothing: the arguments are that file's.
        given: ``name:=value`` of the command line.
        known: Names of its arguments.
        command: The command line; this process's without.

    Raises:
        PlannerError: INVALID_CONFIG.
    """
    if not any(Path(word).name == file for word in (sys.argv if command is None else command)):
        return
    for name in (word.partition(":=")[0] for word in given if ":=" in word):
        if name not in known:
            raise _invalid(f"{file} has no argument {name!r}; known are: {', '.join(sorted(known))}")


def planner_parameters(values: Mapping[str, str], default_config: Path) -> list[str | dict[str, object]]:
    """Returns what the planner's node gets as its parameters: a parameter file, if it is ROS's, and values.

    Raises:
        PlannerError: As ``load_config``, ``require_usable`` and ``full_name``; INVALID_CONFIG for another argument.
    """
    Network(one_of(values, "network", [network.value for network in Network]))
    node = full_name(values)
    number(values, "dashboard_port", 0, 65535)
    flag(values, "dashboard")
    config = Path(values["config"]) if values["config"] else default_config
    overrides: dict[str, object] = {setting: values[name] for name, setting in _SETTINGS.items() if values[name]}
    require_usable(load_config(config, overrides, node=node))
    if values["metrics_port"]:
        overrides["metrics_port"] = number(values, "metrics_port", 0, 65535)
    settings = plain_parameters(config) | overrides
    given = {name: value for name, value in settings.items() if value != []}  # ROS has no empty list
    return [*([str(config)] if is_ros_file(config) else []), given]


def full_name(values: Mapping[str, str]) -> str:
    """Returns the full name of the planner's node.

    Raises:
        PlannerError: INVALID_CONFIG if no node can have it.
    """
    namespace, name = values["namespace"].strip("/"), values["name"]
    if not name or "/" in name:
        raise _invalid(f"name is {name[:40]!r}; give the name alone: what is above it is the namespace (namespace:=)")
    return node_name(f"/{namespace}/{name}" if namespace else f"/{name}")


def fleet(values: Mapping[str, str]) -> Composition:
    """Returns the robots, and the world that they live in, of the arguments of ``fleet_sim.launch.py``.

    Raises:
        PlannerError: INVALID_CONFIG for an argument that cannot be, and as of ``Composition`` and ``load_config``; what
            a world or scenario file says; NOT_INSTALLED without MuJoCo; ADDRESS_IN_USE for the world's port.
    """
    drones, arms = number(values, "drones", 0, MAX_ROBOTS), number(values, "arms", 0, MAX_ROBOTS)
    is_physical = one_of(values, "sim", ["kinematic", "mujoco"]) == "mujoco"
    if values["world"] and not is_physical:
        raise _invalid("world is for robots with bodies; add sim:=mujoco")
    tellos = tuple(address.strip() for address in values["tellos"].split(",") if address.strip())
    for address in tellos:
        with _refusing(f"tellos holds {address!r}; give addresses such as 192.168.10.1, with commas between"):
            ipaddress.IPv4Address(address)
    if len(tellos) > drones:
        raise _invalid(f"tellos has {len(tellos)} addresses for drones:={drones}; give drones:={len(tellos)}")
    node = full_name(values)
    config = load_config(Path(values["config"]) if values["config"] else None, node=node)
    return Composition(
        drones=drones,
        arms=arms,
        time_scale=_scale(values),
        seed=number(values, "seed", 0, 2**31 - 1 - 2 * MAX_ROBOTS),
        scenario=scenario(values),
        tellos=tellos,
        robot_models=config.robot_models,
        world=_world(values) if is_physical else None,
        has_scene=flag(values, "scene"),
        planner_name=node,
    )


def _world(values: Mapping[str, str]) -> World:
    from llm_planner.sim.physics.mujoco_loader import load_mujoco

    load_mujoco()
    return World(values["world"], number(values, "world_port", 1, 65535))


def gazebo_robots(values: Mapping[str, str]) -> tuple[int, int]:
    """Returns how many drones and arms ``gazebo.launch.py`` starts, after looking at its other arguments.

    Raises:
        PlannerError: INVALID_CONFIG for an argument that cannot be; as ``scenario``.
    """
    flag(values, "gui")
    scenario(values)
    full_name(values)
    return number(values, "drones", 0, MAX_ROBOTS), number(values, "arms", 0, MAX_ROBOTS)


def require_free_port(port: int) -> None:
    """Refuses a port on loopback that something listens on.

    Raises:
        PlannerError: ADDRESS_IN_USE.
    """
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        message = f"world_port {port} is in use ({error}); give another one, such as world_port:={port + 1}"
        raise PlannerError(ErrorCode.ADDRESS_IN_USE, message) from error


def require_gazebo(distribution: str) -> None:
    """Refuses to start where Gazebo or its bridge is missing.

    Args:
        distribution: Of ROS 2, e.g. ``jazzy``.

    Raises:
        PlannerError: NOT_INSTALLED, with the package that brings both.
    """
    missing = [] if shutil.which("gz") else ["the command gz"]
    try:
        get_package_prefix("ros_gz_bridge")
    except PackageNotFoundError:
        missing.append("the package ros_gz_bridge")
    if missing:
        what = " and ".join(missing)
        message = f"Gazebo is not installed ({what} cannot be found): sudo apt install ros-{distribution}-ros-gz"
        raise PlannerError(ErrorCode.NOT_INSTALLED, message)


def scenario(values: Mapping[str, str]) -> Path | None:
    """Returns the scenario file, after reading it; None for none.

    Raises:
        PlannerError: As ``load_scenario``.
    """
    path = Path(values["scenario"]) if values["scenario"] else None
    if path is not None:
        load_scenario(path, "")
    return path


def warn_of_absent_robots(path: Path | None, started: Collection[str]) -> None:
    """Logs which robots of a scenario are not started."""
    if path is not None and (absent := absent_robots(path, started)):
        _log.warning(absent)


def number(values: Mapping[str, str], name: str, low: int, high: int) -> int:
    """Returns a whole number.

    Raises:
        PlannerError: INVALID_CONFIG.
    """
    text = values[name].strip()
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS and low <= int(text) <= high):
        raise _invalid(f"{name} is {text[:40]!r}; give a whole number from {low} to {high}")
    return int(text)


def flag(values: Mapping[str, str], name: str) -> bool:
    """Returns whether an argument says true.

    Raises:
        PlannerError: INVALID_CONFIG if it says neither true nor false.
    """
    return one_of({name: values[name].lower()}, name, ["true", "false"]) == "true"


def one_of(values: Mapping[str, str], name: str, choices: Sequence[str]) -> str:
    """Returns a word out of a few.

    Raises:
        PlannerError: INVALID_CONFIG.
    """
    if values[name] not in choices:
        raise _invalid(f"{name} is {values[name][:40]!r}; it must be {' or '.join(choices)}")
    return values[name]


def _scale(values: Mapping[str, str]) -> float:
    with _refusing(f"time_scale is {values['time_scale'][:40]!r}; {GIVE_SCALE}"):
        return float(values["time_scale"])


@contextlib.contextmanager
def _refusing(problem: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise _invalid(problem) from error


def _invalid(problem: str) -> PlannerError:
    return PlannerError(ErrorCode.INVALID_CONFIG, problem)
