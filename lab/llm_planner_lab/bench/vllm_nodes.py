# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench nodes``: stages on several machines with slow links between them, our pacers against vLLM's own.

The machines are network namespaces of this one, joined by a bridge, and what each sends is held to a rate by a token
bucket (tc-tbf). They share this machine's processor. Needs root, ``ip`` and ``tc``.
"""

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_planner.assembly import vllm_settings
from llm_planner.backends.vllm.contract import installed_version
from llm_planner.configuration import load_config
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner_lab.bench.vllm_engine import Progress
from llm_planner_lab.checkout import commit

SUBNET = "10.209.0"
BRIDGE = "planner-br"
BURST_BYTES = 65_536
TIMEOUT_S = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesBench:
    """What is run.

    Attributes:
        num_nodes: Numbers of machines, with a stage each.
        rates_mbit: What a machine may send per second; one run for each, with each number of machines.
        model: Checkpoint.
        num_requests: That arrive together.
        num_tokens: That each of them writes.
        max_num_batched_tokens: Of a micro-batch.
    """

    num_nodes: tuple[int, ...] = (2,)
    rates_mbit: tuple[float, ...] = (100.0, 30.0)
    model: str = "planner-small"
    num_requests: int = 32
    num_tokens: int = 40
    max_num_batched_tokens: int = 256


def run_nodes(bench: NodesBench, on_progress: Progress = lambda _what, _share: None) -> dict[str, Any]:
    """Returns the JSON document: every scheduler in turn, at every rate.

    Raises:
        PlannerError: NOT_INSTALLED or INVALID_CONFIG without what it needs; ENGINE_FAILED if a node ended.
    """
    runs = []
    cases = list(itertools.product(bench.num_nodes, bench.rates_mbit))
    for place, (num_nodes, rate_mbit) in enumerate(cases):
        on_progress(f"{num_nodes} nodes, {rate_mbit:g} Mbit/s", place / len(cases))
        with namespaces(num_nodes, rate_mbit) as names, tempfile.TemporaryDirectory() as directory:
            config = write_config(Path(directory), bench, num_nodes)
            with workers(config, names):
                runs.append({"rate_mbit": rate_mbit, **_head(config, bench, names[0])})
    return {
        "model": bench.model,
        "vllm": installed_version(),
        "commit": commit(),
        "cores": os.cpu_count(),
        "runs": runs,
    }


@contextmanager
def namespaces(num_nodes: int, rate_mbit: float) -> Iterator[list[str]]:
    """Yields the names of network namespaces that are joined by slow links; removes them at the end.

    Raises:
        PlannerError: NOT_INSTALLED without ``ip`` and ``tc``; INVALID_CONFIG without the right to make namespaces.
    """
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            raise PlannerError(ErrorCode.NOT_INSTALLED, f"there is no command {program}: install the package iproute2")
    names = [f"planner-{number}" for number in range(num_nodes)]
    _remove(names)
    try:
        _ip("link", "add", BRIDGE, "type", "bridge")
        _ip("link", "set", BRIDGE, "up")
        for number, name in enumerate(names):
            inside, outside = f"pl-in{number}", f"pl-out{number}"
            _ip("netns", "add", name)
            _ip("link", "add", inside, "type", "veth", "peer", "name", outside)
            _ip("link", "set", inside, "netns", name)
            _ip("link", "set", outside, "master", BRIDGE, "up")
            _ip("-n", name, "addr", "add", f"{address(number)}/24", "dev", inside)
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "set", inside, "up")
            limit = ("rate", f"{rate_mbit:g}mbit", "burst", f"{BURST_BYTES}b", "latency", "2s")
            _run("tc", "-n", name, "qdisc", "add", "dev", inside, "root", "tbf", *limit)
        yield names
    finally:
        _remove(names)


def address(number: int) -> str:
    """Returns the address of a node."""
    return f"{SUBNET}.{number + 1}"


def _remove(names: Sequence[str]) -> None:
    links = (
        BRIDGE,
        *(f"pl-out{number}" for number in range(len(names))),
    )  # they outlive a namespace whose processes end late
    for what in (*(("netns", name) for name in names), *(("link", link) for link in links)):
        subprocess.run(["ip", what[0], "del", what[1]], check=False, capture_output=True)


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG, f"{' '.join(command)}: {done.stderr.strip()} (network namespaces need root)"
        )


def write_config(directory: Path, bench: NodesBench, num_nodes: int) -> Path:
    """Writes the configuration file that planner and workers share; returns where it is."""
    nodes = ",".join(address(number) for number in range(num_nodes))
    engine = {
        "model": bench.model,
        "nodes": nodes,
        "pipeline_stages": num_nodes,
        "num_kv_blocks": 512,
        "num_threads": 1,
        "profile": "",
    }
    path = directory / "nodes.yaml"
    scheduler = {"max_num_batched_tokens": bench.max_num_batched_tokens}
    document = {"backend": "vllm", "engine": engine, "scheduler": scheduler, "length_predictor": ""}
    path.write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML
    return path


@contextmanager
def workers(config: Path, names: Sequence[str]) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Runs `llm-planner cluster worker` in every namespace but the first; yields their processes."""
    program = str(Path(sys.executable).with_name("llm-planner"))
    with ExitStack() as stack:
        processes = []
        for node, name in enumerate(names[1:], 1):
            command = ["ip", "netns", "exec", name, program, "cluster", "worker", "--config", str(config)]
            process = subprocess.Popen(
                [*command, "--node", str(node)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            processes.append(process)
            stack.callback(_end, process)
        yield processes


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _head(config: Path, bench: NodesBench, name: str) -> dict[str, Any]:
    """Runs the head in its namespace; returns what it measured."""
    command = ["ip", "netns", "exec", name, sys.executable, "-m", __name__, str(config)]
    figures = config.with_name("figures.json")
    sizes = [str(bench.num_requests), str(bench.num_tokens), str(figures)]
    done = subprocess.run([*command, *sizes], check=False, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode or not figures.is_file():
        raise PlannerError(ErrorCode.ENGINE_FAILED, f"the head of the nodes failed: {done.stderr[-2000:]}")
    return dict(json.loads(figures.read_text(encoding="utf-8")))


def main(config: str, num_requests: str, num_tokens: str, output: str) -> None:
    """Is the head: measures all schedulers on an engine whose stages are on the nodes of a configuration."""
    from llm_planner.backends.vllm.backend import open_backend
    from llm_planner_lab.bench.vllm_pipeline import PipelineRun

    settings = vllm_settings(load_config(Path(config), {}))
    backend = open_backend(settings)
    try:
        document = PipelineRun(
            backend,
            num_requests=int(num_requests),
            num_tokens=int(num_tokens),
            max_num_batched_tokens=settings.max_num_batched_tokens,
        ).run()
    finally:
        backend.close()
    Path(output).write_text(json.dumps(document), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
