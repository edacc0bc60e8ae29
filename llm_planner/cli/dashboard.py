# SPDX-License-Identifier: Apache-2.0
"""``llm-planner dashboard``: a running planner and its robots in a browser."""

from typing import Annotated

import typer

from llm_planner.cli.options import PlannerOption

HostOption = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 shows the fleet to the network.")]
PortOption = Annotated[int, typer.Option(min=0, max=65535, help="TCP port; 0 lets the system choose one.")]
AllowHostOption = Annotated[
    list[str] | None, typer.Option(help="Host name that browsers may use besides localhost and addresses; repeatable.")
]


def dashboard(
    planner: PlannerOption = "/planner",
    host: HostOption = "127.0.0.1",
    port: PortOption = 8080,
    allow_host: AllowHostOption = None,
) -> None:
    """Show a running planner and its robots in a browser until Ctrl-C; it changes nothing, but can stop robots.

    The same as `ros2 run llm_planner dashboard_node`. `llm-planner up --dashboard` starts it with a fleet. Exit status
    1 if the port is taken.

    Example: llm-planner dashboard

    Example: llm-planner dashboard --port 9000 --host 0.0.0.0
    """
    from llm_planner.ros import dashboard_node
    from llm_planner.ros.composition import ParameterValue, parameter_words

    parameters: dict[str, ParameterValue] = {
        "planner": planner,
        "host": host,
        "port": port,
        "allow_hosts": allow_host or [],
    }
    raise typer.Exit(dashboard_node.main(["--ros-args", *parameter_words(parameters)]))
