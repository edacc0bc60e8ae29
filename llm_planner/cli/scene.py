# SPDX-License-Identifier: Apache-2.0
"""``llm-planner scene``: what there is around robots that run."""

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from llm_planner.cli.options import JsonOption
from llm_planner.cli.output import console, plain, print_json
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.monitoring.robot_view import RobotView

if TYPE_CHECKING:
    from std_msgs.msg import String

POLL_S = 0.02


def scene(
    robot: Annotated[str | None, typer.Argument(help="Name of the robot node, e.g. arm_1; all without.")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="How long to look for robots, in seconds.")] = 3.0,
    as_json: JsonOption = False,
) -> None:
    """Show what robots know of around them: names to use in an instruction, and where things are.

    Example: llm-planner scene

    Example: llm-planner scene arm_1
    """
    from std_msgs.msg import String

    from llm_planner.ros import qos
    from llm_planner.ros.commander import robot_name, ways_to_start
    from llm_planner.ros.graph import robot_nodes
    from llm_planner.ros.spinning import spinning

    wanted = None if robot is None else f"/{robot_name(robot)}"
    views: dict[str, RobotView] = {}
    watched: set[str] = set()
    with spinning("llm_planner_scene") as node:
        until_s = time.monotonic() + timeout
        while time.monotonic() < until_s and not (wanted in views and wanted):
            for name in robot_nodes(node) - watched:
                watched.add(name)
                node.create_subscription(String, f"{name}/view", partial(_note, views, name), qos.VIEWS)
            time.sleep(POLL_S)
    shown = {name: view for name, view in sorted(views.items()) if wanted in (None, name)}
    if not shown:
        start = f"start it with {ways_to_start('NAME' if robot is None else robot_name(robot))}"
        hint = f"robots here: {', '.join(sorted(watched))}" if watched else start
        what = "no robot is running" if wanted is None else f"no robot {wanted} is running"
        raise PlannerError(ErrorCode.SERVER_UNREACHABLE, f"{what}; {hint}")
    if as_json:
        print_json({name: [plain(thing) for thing in view.things] for name, view in shown.items()})
        return
    for name, view in shown.items():
        shown_view = _table(name, view) if view.things else f"{name}: knows of nothing; name things with --scene"
        console.print(shown_view, markup=False)


def _note(views: dict[str, RobotView], name: str, message: "String") -> None:
    views[name] = RobotView.from_json(message.data)


def _table(name: str, view: RobotView) -> Table:
    table = Table("name", "kind", "x, y, z in m, from its home", title=escape(f"{name} ({view.robot_model})"), box=None)
    for thing in view.things:
        x, y, z = thing.position_m
        table.add_row(thing.name, thing.kind or thing.role, f"{x:.2f}, {y:.2f}, {z:.2f}")
    return table
