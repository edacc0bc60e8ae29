# SPDX-License-Identifier: Apache-2.0
"""``llm-planner stop``: halts robots, whatever they do; needs no planner."""

import time
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated

import typer

from llm_planner.cli.options import complete_robot
from llm_planner.cli.output import console, print_error
from llm_planner.core.errors import ErrorCode, PlannerError

if TYPE_CHECKING:
    from rclpy.client import Client
    from rclpy.node import Node

SEARCH_S, POLL_S = 2.0, 0.02
MAX_AT_ONCE = 256  # as many robots are stopped side by side
REASON = "stopped by `llm-planner stop`"


def stop(
    robots: Annotated[
        list[str] | None, typer.Argument(help="Names of robot nodes, e.g. drone_1.", autocompletion=complete_robot)
    ] = None,
    everyone: Annotated[bool, typer.Option("--all", help="Every robot that can be found.")] = False,
) -> None:
    """Halt robots at once and end their goals; it works without a planner.

    A drone hovers, an arm holds. Their running plans, and all that is left of them, are given up.

    Example: llm-planner stop drone_1

    Example: llm-planner stop --all
    """
    from llm_planner.ros.commander import robot_name
    from llm_planner.ros.spinning import spinning
    from llm_planner.srv import Stop

    if robots and everyone:
        raise PlannerError(ErrorCode.INVALID_ROBOT_ID, "give names of robots, or --all, not both")
    if not robots and not everyone:
        raise PlannerError(ErrorCode.INVALID_ROBOT_ID, "say which robots to stop, or --all for every one")
    names = [robot_name(robot) for robot in robots or ()]
    with spinning("llm_planner_stop") as node, ThreadPoolExecutor(MAX_AT_ONCE) as pool:

        def start(name: str) -> Future[bool]:
            return pool.submit(_stop, node, name, node.create_client(Stop, f"/{name}/stop"))

        stops = _stop_all(node, start) if everyone else [start(name) for name in names]
        num_failed = sum(not stop.result() for stop in stops)
    raise typer.Exit(1 if num_failed else 0)


def _stop(node: "Node", robot: str, client: "Client") -> bool:
    """Stops one robot and reports it; returns whether it has halted."""
    from llm_planner.ros.commander import stop_robot

    try:
        stopped = stop_robot(node, robot, client, REASON)
    except PlannerError as error:
        print_error(error)
        return False
    what = repr(stopped.instruction) if stopped.instruction else "a motion of its own" if stopped.was_busy else ""
    console.print(f"/{robot}: stopped {what}" if what else f"/{robot}: had nothing to do", markup=False)
    return True


def _stop_all(node: "Node", start: Callable[[str], Future[bool]]) -> Collection[Future[bool]]:
    """Starts to stop every robot as soon as it is found, and looks for others until all of these have answered.

    Raises:
        PlannerError: SERVER_UNREACHABLE if there is none.
    """
    from llm_planner.core.clock import MonotonicClock
    from llm_planner.ros.graph import robot_nodes

    clock, stops = MonotonicClock(), dict[str, Future[bool]]()
    until_s = clock.now_s() + SEARCH_S
    while clock.now_s() < until_s or not all(stop.done() for stop in stops.values()):
        for robot in sorted(robot_nodes(node) - stops.keys()):
            stops[robot] = start(robot.removeprefix("/"))
        time.sleep(POLL_S)
    if not stops:
        raise PlannerError(ErrorCode.SERVER_UNREACHABLE, "no robot node was found")
    return stops.values()
