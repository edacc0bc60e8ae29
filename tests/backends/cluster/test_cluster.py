# SPDX-License-Identifier: Apache-2.0
import json
import re
import socket
import sys
import time
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from llm_planner.backends.cluster.commands import node_commands
from llm_planner.backends.cluster.description import Cluster, Node, load_cluster
from llm_planner.backends.cluster.reach import check_reachable
from llm_planner.cli.cluster import _run_once, app
from llm_planner.core.errors import ErrorCode, PlannerError

ROOT = Path(__file__).resolve().parents[3]
TWO = {"model": "/models/m", "nodes": [{"address": "10.0.0.1", "gpus": 2}, {"address": "10.0.0.2", "gpus": 2}]}
UNEVEN = [{"address": "a", "gpus": 3}, {"address": "b", "gpus": 1}]
UNREACHABLE = "host.invalid"  # RFC 6761: never resolves


def write(tmp_path, **changes) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump(TWO | changes))
    return path


def refusal(path, code=ErrorCode.INVALID_FILE) -> str:
    with pytest.raises(PlannerError) as caught:
        load_cluster(path)
    assert caught.value.code is code
    return caught.value.message


def test_the_shipped_file_is_the_worked_example():
    cluster = load_cluster(ROOT / "config/cluster.yaml")
    text = (ROOT / "docs/cluster.md").read_text()
    flat = re.sub(r"\s+", " ", text)
    for command in node_commands(cluster, 0):
        assert str(command) in flat


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"nodes": []}, "nodes"),
        ({"nodes": [{"address": "a", "gpus": 0}]}, "nodes.0.gpus"),
        ({"nodes": [{"address": "a b", "gpus": 1}]}, "nodes.0.address"),
        ({"nodes": [{"address": "--evil", "gpus": 1}]}, "nodes.0.address"),
        ({"nodes": [{"address": "a", "gpus": 1}] * 2}, "same address"),
        ({"stages": 3}, "stages"),
        ({"model": "--help"}, "model"),
        ({"pipeline_parallel": 5}, "room for 4 stages"),
        ({"tensor_parallel": 4}, "room for 0 stages"),
        ({"pipeline_parallel": 0}, "pipeline_parallel"),
        ({"port": 70000}, "port"),
        ({"port": 6379}, "join_port"),
        ({"joined_by": "rope"}, "joined_by"),
        ({"joined_by": "vllm", "pipeline_parallel": 3}, "3 stages do not divide among 2 machines"),
        ({"joined_by": "vllm", "nodes": UNEVEN, "pipeline_parallel": 4}, "2 of each"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, changes, hint):
    assert hint in refusal(write(tmp_path, **changes))


def test_no_file_and_no_mapping(tmp_path):
    assert "cannot be read" in refusal(tmp_path / "none.yaml", ErrorCode.INVALID_FILE)
    (tmp_path / "list.yaml").write_text("- a\n")
    assert "list.yaml" in refusal(tmp_path / "list.yaml")


@pytest.mark.parametrize(
    ("changes", "hint"),
    [({"pipeline_parallel": 4}, "3 layers"), ({"tensor_parallel": 2}, "does not divide the 5 heads")],
)
def test_limits_of_the_model(tmp_path, changes, hint):
    (tmp_path / "config.json").write_text(json.dumps({"num_hidden_layers": 3, "num_attention_heads": 5}))
    assert hint in refusal(write(tmp_path, model=str(tmp_path), **changes), ErrorCode.INVALID_CONFIG)


def test_one_machine_needs_no_ray(tmp_path):
    cluster = Cluster(model="m", nodes=(Node(address="a", gpus=2),), tensor_parallel=2)
    (serve,) = node_commands(cluster, 0)
    assert "--distributed-executor-backend=mp" in serve.arguments


def test_the_others_join_the_head(tmp_path):
    cluster = load_cluster(write(tmp_path, pipeline_parallel=2, tensor_parallel=2))
    start, serve = node_commands(cluster, 0)
    (join,) = node_commands(cluster, 1)
    assert "--head" in start.arguments
    assert "--distributed-executor-backend=ray" in serve.arguments
    assert {"--address=10.0.0.1:6379", "--node-ip-address=10.0.0.2", "--block"} < set(join.arguments)
    with pytest.raises(PlannerError, match="0 to 1"):
        node_commands(cluster, 2)


def test_addresses_of_ipv6_have_brackets_before_a_port(tmp_path):
    file = write(tmp_path, nodes=[{"address": "fd00::1", "gpus": 1}, {"address": "fd00::2", "gpus": 1}])
    start, serve = node_commands(load_cluster(file), 0)
    (join,) = node_commands(load_cluster(file), 1)
    assert "--address=[fd00::1]:6379" in join.arguments
    assert ("RAY_ADDRESS", "[fd00::1]:6379") in serve.environment
    assert "--node-ip-address=fd00::1" in start.arguments


def test_vllm_alone_joins_them_too(tmp_path):
    cluster = load_cluster(write(tmp_path, pipeline_parallel=2, joined_by="vllm"))
    (head,), (other,) = node_commands(cluster, 0), node_commands(cluster, 1)
    part = {"--nnodes=2", "--master-addr=10.0.0.1", "--master-port=6379"}
    for rank, command in enumerate((head, other)):
        assert part | {f"--node-rank={rank}"} < set(command.arguments)
        assert "--distributed-executor-backend=mp" in command.arguments
    assert "--headless" not in head.arguments
    assert "--headless" in other.arguments


def test_a_machine_that_refuses_a_connection_is_there():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # not listening: a connection is refused
        check_reachable([Node(address="127.0.0.1", gpus=1)], port=taken.getsockname()[1])


def test_those_that_do_not_answer_are_named():
    with pytest.raises(PlannerError) as caught:
        check_reachable([Node(address="127.0.0.1", gpus=1), Node(address=UNREACHABLE, gpus=1)])
    assert caught.value.code is ErrorCode.SERVER_UNREACHABLE
    assert UNREACHABLE in caught.value.message
    assert "127.0.0.1" not in caught.value.message


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_a_worker_needs_the_configuration_of_a_planner_with_nodes(tmp_path):
    (file := tmp_path / "planner.yaml").write_text("backend: vllm\n")
    refused = run("worker", "--config", file, "--node", 1)
    assert refused.exception.code is ErrorCode.INVALID_CONFIG
    assert "engine.nodes" in refused.exception.message
    file.write_text("backend: vllm\nengine: {nodes: '10.0.0.1,10.0.0.2', pipeline_stages: 2}\n")
    beyond = run("worker", "--config", file, "--node", 2)
    assert "this is node 2" in beyond.exception.message


def test_command_line(tmp_path):
    nodes = [{"address": "127.0.0.1", "gpus": 1}]
    file = write(tmp_path, nodes=nodes, vllm=str(tmp_path / "no"))
    checked = run("check", file)
    assert checked.exit_code == 0, checked.output
    assert "--base-url http://127.0.0.1:8000/v1" in checked.output
    assert "vllm serve /models/m" in run("run", file, "--node", 0, "--dry-run").output
    missing = run("run", file, "--node", 0)
    assert missing.exception.code is ErrorCode.INVALID_CONFIG
    assert "no command" in missing.exception.message
    apart = write(tmp_path, nodes=[*nodes, {"address": UNREACHABLE, "gpus": 1}])
    assert run("run", apart, "--node", 0).exception.code is ErrorCode.SERVER_UNREACHABLE


def test_the_address_for_the_planner_has_brackets_too(tmp_path, monkeypatch):
    monkeypatch.setattr("llm_planner.cli.cluster.check_reachable", lambda *_: None)
    checked = run("check", write(tmp_path, nodes=[{"address": "fd00::1", "gpus": 1}]))
    assert "--base-url http://[fd00::1]:8000/v1" in checked.output


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("ends_itself", [True, False])
def test_nothing_of_one_engine_is_left_for_the_next(monkeypatch, tmp_path, ends_itself):
    """vLLM's workers outlive the process that started them, however it ends."""
    file = tmp_path / "pid"
    program = (
        "import subprocess, sys, time, pathlib\n"
        "worker = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(file)!r}).write_text(f'{{worker.pid}}\\n')\n"
        f"time.sleep({0 if ends_itself else 600})\n"
    )
    monkeypatch.setattr("llm_planner.cli.cluster.ends_with_parent", lambda *_: [sys.executable, "-c", program])
    with _run_once(tmp_path / "planner.yaml", 1) as process:
        while not (file.is_file() and file.read_text().endswith("\n")):
            time.sleep(0.01)
        if ends_itself:
            process.wait()
        pid = int(file.read_text())
        assert is_running(pid)
    while is_running(pid):
        time.sleep(0.01)  # until the test's own limit
