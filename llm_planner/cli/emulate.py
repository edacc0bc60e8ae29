# SPDX-License-Identifier: Apache-2.0
"""``llm-planner emulate``: robots that exist only on the network and speak the protocol of the real ones."""

import ipaddress
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from llm_planner.cli.options import SeedOption
from llm_planner.cli.output import console
from llm_planner.cli.stop_signal import StopSignal
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.text import counted
from llm_planner.robots.library import RobotLibrary
from llm_planner.sim.emulator import same_host
from llm_planner.sim.emulator.faults import Faults
from llm_planner.sim.emulator.network import COMMAND_PORT, STATE_PORT, EmulatorSettings, TelloNetwork
from llm_planner.sim.emulator.same_host import run_on_same_host

app = typer.Typer(
    help="Emulate robots on the network, for drivers to try.\n\nExample: llm-planner emulate tello --count 2",
    no_args_is_help=True,
)


FIRST_ADDRESS = "127.0.0.11"


@app.command()
def tello(
    count: Annotated[int, typer.Option(min=1, max=100, help="How many drones, on consecutive addresses.")] = 1,
    address: Annotated[str, typer.Option(help="Address of the first drone; this machine must own them all.")] = (
        FIRST_ADDRESS
    ),
    time_scale: Annotated[float, typer.Option(min=0.01, help="How much faster than real time they run.")] = 1.0,
    battery: Annotated[float, typer.Option(min=0.0, max=100.0, help="What the batteries hold, in percent.")] = 100.0,
    lost: Annotated[float, typer.Option(min=0.0, max=1.0, help="Probability that a datagram never arrives.")] = 0.0,
    late: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Probability that a datagram arrives later than others.")
    ] = 0.0,
    duplicated: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Probability that a datagram arrives twice.")
    ] = 0.0,
    garbage: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Probability that a datagram of the drone is nonsense.")
    ] = 0.0,
    late_s: Annotated[float, typer.Option(min=0.0, help="The longest delay of late and doubled datagrams.")] = 2.0,
    empty_after_s: Annotated[float | None, typer.Option(help="Empty the batteries after this many seconds.")] = None,
    mute_after_s: Annotated[float | None, typer.Option(help="Send nothing any more after this many seconds.")] = None,
    seed: SeedOption = 0,
    port: Annotated[int, typer.Option(min=1, max=65535, help="UDP port for commands.")] = COMMAND_PORT,
    state_port: Annotated[int, typer.Option(min=1, max=65535, help="Clients' UDP port for the state.")] = STATE_PORT,
    log: Annotated[bool, typer.Option(help="Print every command (<) and answer (>); --no-log for none.")] = True,
) -> None:
    """Emulate Tello drones until Ctrl-C: SDK 2.0 over UDP, one address per drone, no video.

    Any Tello driver can fly them; faults of network and drones are switched on by the options. A line is printed for
    each command that reaches a drone, and for each answer.

    Example: llm-planner emulate tello --count 2

    Example: llm-planner emulate tello --lost 0.1
    """
    faults = Faults(
        lost=lost,
        late=late,
        duplicated=duplicated,
        garbage=garbage,
        late_s=late_s,
        empty_after_s=empty_after_s,
        mute_after_s=mute_after_s,
    )
    network = TelloNetwork(
        RobotLibrary().get("tello"),
        addresses(address, count),
        clock=MonotonicClock(),
        settings=EmulatorSettings(
            time_scale=time_scale,
            seed=seed,
            faults=faults,
            battery_percent=battery,
            port=port,
            state_port=state_port,
            log=_print_line if log else None,
        ),
    )
    stop = StopSignal()
    with network:
        console.print(
            f"{counted(count, 'Tello')} on {', '.join(addresses(address, count))}, UDP port {port}; Ctrl-C stops them"
        )
        stop.wait()


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
)
def run(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="A Python program; what follows it are its arguments.", exists=True)],
    address: Annotated[str, typer.Option(help="Loopback address that it shall use.")] = "127.0.0.1",
    python: Annotated[
        Path | None, typer.Option(help="The interpreter that runs it, of the environment with its driver; else ours.")
    ] = None,
) -> None:
    """Run a robot program alongside an emulator on this machine, unchanged: its UDP ports stay on one address.

    Example: llm-planner emulate run my_tello_program.py

    Example: llm-planner emulate run --python ~/tello/.venv/bin/python my_tello_program.py
    """
    if python is None:
        try:
            run_on_same_host(script, context.args, address)
        except SyntaxError as error:
            if error.filename not in (str(script), None):  # none for a binary file
                raise  # in what the program imports
            raise PlannerError(ErrorCode.INVALID_FILE, f"{script} is no Python program: {error}") from error
        return
    command = [str(python), same_host.__file__, address, str(script), *context.args]
    try:
        done = subprocess.run(command, check=False)
    except OSError as error:
        raise PlannerError(ErrorCode.INVALID_FILE, f"--python: {python} cannot be run: {error.strerror}") from error
    raise typer.Exit(done.returncode)


def _print_line(line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def addresses(first: str, count: int) -> list[str]:
    """Returns consecutive IPv4 addresses.

    Raises:
        PlannerError: INVALID_CONFIG if the first is none.
    """
    try:
        start = ipaddress.IPv4Address(first)
        return [str(start + number) for number in range(count)]
    except ValueError as error:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"--address: {error}; give one such as 127.0.0.11") from error


def emulated(tellos: Sequence[str], time_scale: float) -> TelloNetwork:
    """Returns Tellos without faults, to be entered."""
    settings = EmulatorSettings(time_scale=time_scale)
    return TelloNetwork(RobotLibrary().get("tello"), tellos, clock=MonotonicClock(), settings=settings)
