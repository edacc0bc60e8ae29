# SPDX-License-Identifier: Apache-2.0
"""``llm-planner cluster``: several machines that serve one model together, for ``backend: openai``."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from llm_planner.backends.cluster.commands import Command, node_commands
from llm_planner.backends.cluster.description import load_cluster
from llm_planner.backends.cluster.reach import check_reachable
from llm_planner.cli.output import console
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.text import counted

app = typer.Typer(
    help="Several machines that serve one model together, by vLLM.\n\nExample: llm-planner cluster check cluster.yaml",
    no_args_is_help=True,
)
FileArgument = Annotated[Path, typer.Argument(help="Cluster file, see config/cluster.yaml.")]
TimeoutOption = Annotated[float, typer.Option(min=0.1, help="How long a machine may take to answer, in seconds.")]


@app.command()
def check(file: FileArgument, timeout: TimeoutOption = 3.0) -> None:
    """Check a cluster file, and that every machine in it can be reached from here.

    Example: llm-planner cluster check cluster.yaml
    """
    cluster = load_cluster(file)
    check_reachable(cluster.nodes, timeout)
    num_gpus = cluster.tensor_parallel * cluster.pipeline_parallel
    console.print(
        f"[green]ok[/]: {counted(len(cluster.nodes), 'machine')}; {counted(num_gpus, 'GPU')} in "
        f"{counted(cluster.pipeline_parallel, 'stage')} of {cluster.tensor_parallel}"
    )
    console.print(f"planner:  --backend openai --base-url http://{cluster.head.address}:{cluster.port}/v1")


@app.command()
def run(
    file: FileArgument,
    node: Annotated[int, typer.Option("--node", "-n", min=0, help="Which machine this is; 0 is the head.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the commands and run nothing.")] = False,
    timeout: TimeoutOption = 3.0,
) -> None:
    """Run this machine's part until Ctrl-C: the server on the head, what joins it on any other one.

    Example: llm-planner cluster run cluster.yaml --node 0

    Example: llm-planner cluster run cluster.yaml --node 1 --dry-run
    """
    cluster = load_cluster(file)
    commands = node_commands(cluster, node)
    if dry_run:
        for command in commands:
            console.print(str(command), markup=False, soft_wrap=True)
        return
    others = [other for place, other in enumerate(cluster.nodes) if place != node]
    check_reachable(others if node == 0 else [cluster.head], timeout)
    for command in commands:
        if shutil.which(command.arguments[0]) is None:
            message = f"there is no command {command.arguments[0]}; correct `vllm` in {file}, see docs/cluster.md"
            raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    for command in commands[:-1]:
        if subprocess.run(command.arguments, env=_environment(command), check=False).returncode:  # noqa: S603 (no shell)
            raise PlannerError(ErrorCode.ENGINE_FAILED, f"this failed: {command}; see what it says above")
    last = commands[-1]
    os.execvpe(last.arguments[0], last.arguments, _environment(last))  # noqa: S606 (signals go straight to it)


def _environment(command: Command) -> dict[str, str]:
    return os.environ | dict(command.environment)
