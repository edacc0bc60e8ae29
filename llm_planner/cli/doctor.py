# SPDX-License-Identifier: Apache-2.0
"""``llm-planner doctor``: is this installation well, and how to fix what is not."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from llm_planner.cli.options import JsonOption
from llm_planner.cli.output import console, print_json
from llm_planner.core.clock import MonotonicClock
from llm_planner.doctor import machine, model_check, network
from llm_planner.doctor.finding import Check, Finding, Level, examine

DASHBOARD_PORT = 8080
_MARKS = {Level.OK: ("ok", "green"), Level.WARNING: ("warning", "yellow"), Level.ERROR: ("error", "bold red")}


def doctor(
    model: Annotated[str, typer.Option("--model", "-m", help="Bundled model, or checkpoint directory.")] = (
        "planner-small"
    ),
    load: Annotated[bool, typer.Option("--load", help="Load the model even if it is large.")] = False,
    robot: Annotated[
        list[str] | None,
        typer.Option(help="A robot that must be there: node name, address, or host name with a dot; repeatable."),
    ] = None,
    port: Annotated[
        list[int] | None, typer.Option(min=1, max=65535, help="TCP port that must be free; repeatable.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=1.0, max=3600.0, help="Longest time of all checks together, in seconds.")
    ] = 60.0,
    as_json: JsonOption = False,
) -> None:
    """Check this installation: versions, ROS 2, transport, model, GPU, ports, disk, and robots given with --robot.

    Exit status 1 if something keeps the planner from working, 0 otherwise, warnings included.

    Example: llm-planner doctor

    Example: llm-planner doctor --robot drone_1
    """
    network.require_names(robot or [])
    clock = MonotonicClock()
    began_s = clock.now_s()
    checks = _checks(model, "load" if load else "auto", robot or [], port or [DASHBOARD_PORT], timeout)
    if as_json:
        findings = examine(checks, timeout, clock)
        print_json({"findings": findings, "is_well": _is_well(findings), "took_s": clock.now_s() - began_s})
    else:
        with console.status("looking"):
            findings = examine(checks, timeout, clock)
        _print(findings, clock.now_s() - began_s)
    raise typer.Exit(0 if _is_well(findings) else 1)


def _checks(model: str, how: str, robots: Sequence[str], ports: Sequence[int], timeout_s: float) -> dict[str, Check]:
    check_timeout_s = 0.9 * timeout_s
    addresses = [robot for robot in robots if network.is_address(robot)]
    return {
        "versions": machine.versions,
        "ros": partial(network.ros, robots, check_timeout_s),
        "model": partial(model_check.model_and_gpu, model, how, check_timeout_s),
        "ports": partial(machine.ports, ports),
        "disk": machine.space,
        **{f"robot {address}": partial(network.robot_at, address) for address in addresses},
    }


def _is_well(findings: Sequence[Finding]) -> bool:
    return all(finding.level is not Level.ERROR for finding in findings)


def _print(findings: Sequence[Finding], took_s: float) -> None:
    for finding in findings:
        mark, style = _MARKS[finding.level]
        console.print(f"{mark:<8}", style=style, end="")
        console.print(f"{finding.check:<9}{finding.text}", markup=False, soft_wrap=True)
        if finding.fix:
            console.print(f"{'':<17}{finding.fix}", style="cyan", markup=False, soft_wrap=True)
    num_errors = sum(finding.level is Level.ERROR for finding in findings)
    num_warnings = sum(finding.level is Level.WARNING for finding in findings)
    verdict = f"{num_errors} errors, {num_warnings} warnings" if num_errors or num_warnings else "all is well"
    console.print(f"{verdict} ({took_s:.1f} s)", style="bold")
