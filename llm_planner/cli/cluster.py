# SPDX-License-Identifier: Apache-2.0
"""``llm-planner cluster``: several machines that hold one model together, for ``backend: openai`` or ``vllm``."""

import multiprocessing
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from llm_planner.backends.cluster.commands import Command, node_commands
from llm_planner.backends.cluster.description import load_cluster
from llm_planner.backends.cluster.reach import check_reachable, wait_for_end, wait_for_head
from llm_planner.cli.options import ConfigOption
from llm_planner.cli.output import console, error_console
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.text import counted

if TYPE_CHECKING:
    from llm_planner.backends.vllm.engine import EngineSettings

app = typer.Typer(
    help="Several machines that serve one model together, by vLLM.\n\nExample: llm-planner cluster check cluster.yaml",
    no_args_is_help=True,
)
FileArgument = Annotated[Path, typer.Argument(help="Cluster file, see config/cluster.yaml.")]
_REFUSED = 2
"""Exit status of a worker that would do no better the next time."""
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


@app.command()
def worker(
    config: ConfigOption,
    node: Annotated[int, typer.Option("--node", "-n", min=1, help="Which machine of engine.nodes this is.")],
    once: Annotated[
        bool, typer.Option("--once", help="End with the head, instead of waiting for its next start.")
    ] = False,
) -> None:
    """Run this machine's share of the layers for a planner of backend vllm whose engine.nodes name several machines.

    The planner itself starts on the first machine, from the same configuration file. When it ends or its engine is
    restarted, this machine joins the next one. Ctrl-C ends it.

    Example: llm-planner cluster worker --config my_planner.yaml --node 1
    """
    from llm_planner.assembly import vllm_settings
    from llm_planner.configuration import load_config

    planner = load_config(config, {})
    if planner.backend != "vllm" or not planner.engine.nodes:
        message = "a worker needs `backend: vllm` and engine.nodes in the configuration file of its planner"
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    settings = vllm_settings(planner)
    while True:
        console.print(f"node {node} ({settings.nodes[node]}): waits for the planner on {settings.nodes[0]}")
        head = wait_for_head(settings.nodes[0], settings.nodes_port)
        process = multiprocessing.get_context("spawn").Process(target=_work, args=(settings, node))
        process.start()  # of its own: vLLM starts anew with every head
        try:
            with head:
                wait_for_end(head, process.is_alive)
        finally:
            process.terminate()
            process.join()
        if once or process.exitcode == _REFUSED:
            raise typer.Exit(_REFUSED if process.exitcode == _REFUSED else 0)
        console.print(f"node {node}: the engine has ended; joins the next one")


def _work(settings: "EngineSettings", node: int) -> None:
    """Runs in a process of its own."""
    from llm_planner.backends.vllm.engine import run_worker

    try:
        run_worker(settings, node)
    except PlannerError as error:
        error_console.print(f"[red]{error}[/]")
        raise SystemExit(_REFUSED) from error


def _environment(command: Command) -> dict[str, str]:
    return os.environ | dict(command.environment)
