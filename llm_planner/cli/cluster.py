# SPDX-License-Identifier: Apache-2.0
"""``llm-planner cluster``: several machines that hold one model together, for ``backend: openai`` or ``vllm``."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from llm_planner.backends.cluster.commands import Command, node_commands
from llm_planner.backends.cluster.description import load_cluster
from llm_planner.backends.cluster.reach import check_reachable, wait_for_end, wait_for_head
from llm_planner.cli.output import console
from llm_planner.cli.stop_signal import StopSignal
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.text import counted
from llm_planner.serving.parent_death import ends_with_parent

app = typer.Typer(
    help="Several machines that serve one model together, by vLLM.\n\nExample: llm-planner cluster check cluster.yaml",
    no_args_is_help=True,
)
AGAIN_S = 5.0
"""After a failure that may not pass by itself."""
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
    console.print(f"planner:  --backend openai --base-url http://{cluster.head.at(cluster.port)}/v1", markup=False)


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
        if subprocess.run(command.arguments, env=_environment(command), check=False).returncode:
            raise PlannerError(ErrorCode.ENGINE_FAILED, f"this failed: {command}; see what it says above")
    last = commands[-1]
    os.execvpe(last.arguments[0], last.arguments, _environment(last))  # noqa: S606 (signals go straight to it)


@app.command()
def worker(
    config: Annotated[Path, typer.Option("--config", "-c", help="The planner's configuration file.")],
    node: Annotated[int, typer.Option("--node", "-n", min=1, help="Which machine of engine.nodes this is.")],
    once: Annotated[bool, typer.Option("--once", help="End with the engine, instead of joining the next one.")] = False,
) -> None:
    """Hold this machine's stages for a planner of backend vllm whose engine.nodes name several machines.

    The planner itself starts on the first machine, from the same configuration file. When its engine ends or is
    restarted, this machine joins the next one. Ctrl-C ends it.

    Example: llm-planner cluster worker --config my_planner.yaml --node 1
    """
    from llm_planner.assembly import vllm_settings
    from llm_planner.backends.vllm.contract import require_vllm
    from llm_planner.backends.vllm.engine import require_node, run_worker
    from llm_planner.configuration import load_config

    planner = load_config(config, {})
    if planner.backend != "vllm" or not planner.engine.nodes:
        message = "a worker needs `backend: vllm` and engine.nodes in the configuration file of its planner"
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    settings = vllm_settings(planner)
    require_node(settings, node)
    if once:
        run_worker(settings, node)
        return
    require_vllm()
    stop = StopSignal()
    while not stop.wait(0.0):
        console.print(f"node {node} ({settings.nodes[node]}): waits for the planner on {settings.nodes[0]}")
        head = wait_for_head(settings.nodes[0], settings.nodes_port, stop.wait)
        if head is None:
            return
        with head, _run_once(config, node) as process:
            wait_for_end(head, lambda: process.poll() is None and not stop.wait(0.0))
            has_failed = process.poll() is not None  # by itself, while the head lives
        console.print(f"node {node}: the engine has ended")
        if has_failed:
            console.print(
                f"node {node}: its part ended by itself, as the lines above say; it joins again in {AGAIN_S:g} s"
            )
            stop.wait(AGAIN_S)


@contextmanager
def _run_once(config: Path, node: int) -> Iterator["subprocess.Popen[bytes]"]:
    """Runs the worker of one engine in processes of its own: vLLM starts anew with every head.

    They are a group, which is killed as one: vLLM's own workers outlive the process that started them, and would keep
    the memory of their GPUs from the next engine.
    """
    program = [sys.executable, "-c", "from llm_planner.cli.main import main; main()", "cluster", "worker", "--once"]
    command = ends_with_parent([*program, "--config", str(config), "--node", str(node)], signal.SIGKILL)
    process = subprocess.Popen(command, start_new_session=True)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _environment(command: Command) -> dict[str, str]:
    return os.environ | dict(command.environment)
