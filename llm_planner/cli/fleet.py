# SPDX-License-Identifier: Apache-2.0
"""``llm-planner up``: a planner and simulated robots."""

import ipaddress
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from llm_planner.cli.dashboard import PortOption
from llm_planner.cli.emulate import FIRST_ADDRESS, addresses, emulated
from llm_planner.cli.options import BackendOption, BaseUrlOption, ConfigOption, ModelOption, PolicyOption
from llm_planner.cli.output import console, error_console
from llm_planner.cli.simulator import SimOption, Simulator, physical_world
from llm_planner.cli.stop_signal import StopSignal
from llm_planner.configuration import load_config, plain_parameters
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.ros.network import Network

if TYPE_CHECKING:
    from llm_planner.ros.composition import Composition, Fleet, ParameterValue

ROBOTS_PER_PROCESS = 20
"""Python runs one thread of a process at a time: that many robots at work take half a core (docs/dashboard.md)."""
DronesOption = Annotated[int, typer.Option(min=0, max=100, help="How many Tellos: drone_1, drone_2, ...")]
ArmsOption = Annotated[int, typer.Option(min=0, max=100, help="How many Indy7 arms: arm_1, ...")]


def up(
    drones: DronesOption = 3,
    arms: ArmsOption = 1,
    model: ModelOption = None,
    policy: PolicyOption = None,
    config: ConfigOption = None,
    backend: BackendOption = None,
    base_url: BaseUrlOption = None,
    scenario: Annotated[Path | None, typer.Option(help="YAML file with instructions to begin with.")] = None,
    time_scale: Annotated[float, typer.Option(min=0.01, help="How much faster than real time robots run.")] = 1.0,
    tello: Annotated[
        list[str] | None,
        typer.Option(help="Address of a real Tello for drone_1, which waits on the floor; again for drone_2."),
    ] = None,
    sim: SimOption = Simulator.KINEMATIC,
    world: Annotated[str, typer.Option(help="With --sim mujoco: a bundled world (house, table), or a YAML file.")] = "",
    emulate: Annotated[int, typer.Option(min=0, max=100, help="How many drones are emulated Tellos, over UDP.")] = 0,
    metrics_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of Prometheus figures on 127.0.0.1; 0 for none.")
    ] = 0,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="Show the fleet in a browser.")] = False,
    dashboard_port: PortOption = 8080,
    scene: Annotated[
        bool, typer.Option(help="Put a few things around the robots, see `llm-planner scene`; --no-scene for none.")
    ] = True,
    record: Annotated[
        Path | None, typer.Option(help="Record everything to this MCAP file; it must not exist yet.")
    ] = None,
    robots_per_process: Annotated[
        int, typer.Option(min=1, help="How many kinematic robots share a process; any other robot has one of its own.")
    ] = ROBOTS_PER_PROCESS,
    network: Annotated[
        Network, typer.Option(help="Who can talk to the fleet: this host only, or the whole subnet (no password).")
    ] = Network.HOST,
) -> None:
    """Start a planner and simulated robots as ROS 2 nodes until Ctrl-C.

    Kinematic robots share a process, and any other node has one of its own. What crashes is started again, three times
    a minute at most; a real robot is not. The same as `ros2 launch llm_planner fleet_sim.launch.py`, where launch is
    not installed.

    Example: llm-planner up

    Example: llm-planner up --drones 2 --arms 0 --dashboard

    Example: llm-planner up --sim mujoco --world house
    """
    from llm_planner.assembly import require_usable
    from llm_planner.ros.composition import Composition, Fleet
    from llm_planner.ros.scenario import absent_robots

    given = {"engine.model": model, "scheduler.policy": policy, "backend": backend, "openai.base_url": base_url}
    overrides = {name: value for name, value in given.items() if value}
    configured = load_config(config, overrides)
    require_usable(configured)  # a mistake is named here rather than in a log
    planner: dict[str, ParameterValue] = {**overrides, **({"metrics_port": metrics_port} if metrics_port else {})}
    if config is not None and (plain := plain_parameters(config)):
        config, planner = None, plain | planner
    if tello and emulate:
        hint = "give one, or start `llm-planner emulate tello` and give the addresses of all drones with --tello"
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"--tello and --emulate both say who the first drones are; {hint}")
    _require_addresses(tello or ())
    if record is not None and record.exists():
        raise PlannerError(ErrorCode.INVALID_FILE, f"{record} exists; record to another file")
    if record is not None and not record.absolute().parent.is_dir():
        raise PlannerError(ErrorCode.INVALID_FILE, f"there is no directory {record.parent} to record to; make it first")
    composition = Composition(
        drones=drones,
        arms=arms,
        time_scale=time_scale,
        scenario=scenario,
        config=config,
        planner=planner,
        tellos=tuple(tello or addresses(FIRST_ADDRESS, emulate)),
        robot_models=configured.robot_models,
        world=physical_world(sim, world),
        has_scene=scene,
        dashboard_port=dashboard_port if dashboard else None,
        record=record,
        robots_per_process=robots_per_process,
    )
    if scenario is not None and (absent := absent_robots(scenario, [robot.name for robot in composition.robots])):
        error_console.print(f"warning: {absent}", style="yellow", markup=False, soft_wrap=True)
    stop = StopSignal()
    names = ", ".join(f"/{robot.name}" for robot in composition.robots) or "no robots"
    emulator = nullcontext() if tello or not emulate else emulated(composition.tellos, time_scale)
    restarts = composition.restart_commands()
    with emulator, Fleet(composition.commands(), network=network, restart_commands=restarts) as fleet:
        console.print(f"planner /planner and {names} are starting; Ctrl-C stops them")
        console.print(network.meaning, soft_wrap=True)
        console.print(_next_step(composition, network), soft_wrap=True)
        _watch(fleet, stop)


def _require_addresses(tellos: Sequence[str]) -> None:
    """Refuses what is no IPv4 address before anything starts: a fleet would go on without the robot."""
    for address in tellos:
        try:
            ipaddress.IPv4Address(address)
        except ValueError as error:
            raise PlannerError(ErrorCode.INVALID_CONFIG, f"--tello: {error}; give one such as 192.168.10.1") from error


def _next_step(composition: "Composition", network: Network) -> str:
    """Returns what a person could type next."""
    from llm_planner.ros.composition import is_emulated

    if not composition.robots:
        return "start a robot:  llm-planner robot drone_1" + " --network host" * (network is Network.HOST)
    if not composition.drones:
        instruction = "go home"
    elif composition.tellos and not is_emulated(composition.tellos[0]):
        instruction = "take off"
    elif composition.world is None:
        instruction = "fly 1 m forward, then turn right"
    else:  # where drones that stand side by side are seen, and one keeps away from the other
        instruction = "fly up 50 cm, then turn right"
    return f'tell a robot something:  llm-planner send {composition.robots[0].name} "{instruction}"'


def _watch(fleet: "Fleet", stop: StopSignal) -> None:
    """Returns when it is stopped; restarts ended processes, and reports it."""
    while not stop.wait(0.2):
        for line in fleet.tend(time.monotonic()):
            error_console.print(line, style="yellow", soft_wrap=True)
