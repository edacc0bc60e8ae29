# SPDX-License-Identifier: Apache-2.0
"""Two nodes on one machine: vLLM on the CPU in two stages, joined by itself. Opt-in: it takes a minute or two."""

import importlib.metadata
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from llm_planner.core.errors import PlannerError
from tests.backends.openai.builders import PLANS, Driver, make_backend, make_sequence

pytest.importorskip("vllm", reason="needs .venv-vllm: make test-vllm")
MODEL = Path(__file__).resolve().parents[3] / "models" / "planner-small"
TIMEOUT_S = 300.0
ON_A_CPU = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def cpu_commands(directory: Path) -> Path:
    """Returns a directory with a command vllm: that of vllm-cpu looks for a package named vllm, and finds none."""
    version = importlib.metadata.version("vllm-cpu")
    alias = directory / "alias" / f"vllm-{version}.dist-info"
    alias.mkdir(parents=True)
    (alias / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")
    command = directory / "bin" / "vllm"
    command.parent.mkdir()
    command.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(alias.parent)!r})\n"
        "if __name__ == '__main__':\n    from vllm.entrypoints.cli.main import main\n    sys.exit(main())\n"
    )
    command.chmod(0o755)
    return command.parent


class Nodes:
    """`llm-planner cluster run` for each node of a file."""

    process = None

    def __init__(self, file: Path, port: int, environment: dict[str, str]) -> None:
        self.port = port
        run = [Path(sys.executable).with_name("llm-planner"), "cluster", "run", str(file), "--node"]
        self.processes = [
            subprocess.Popen([*run, str(node)], env=environment, cwd=file.parent, start_new_session=True)
            for node in (0, 1)
        ]

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def open_backend(self):
        end_s = time.monotonic() + TIMEOUT_S
        while True:
            assert all(process.poll() is None for process in self.processes), "a node ended"
            try:
                return make_backend(self, server="vllm")
            except PlannerError:
                assert time.monotonic() < end_s, "the server did not come"
                time.sleep(1.0)

    def close(self) -> None:
        for process in self.processes:
            os.killpg(process.pid, 15)
        for process in self.processes:
            process.wait(60)


@pytest.fixture
def nodes(tmp_path):
    if "vllm-cpu" not in {d.name for d in importlib.metadata.distributions()}:
        pytest.skip("written for vLLM on a CPU")
    port = free_port()
    file = tmp_path / "cluster.yaml"
    description = {
        "model": str(MODEL),
        "vllm": str(cpu_commands(tmp_path)),
        "nodes": [{"address": address, "gpus": 1} for address in ("127.0.0.1", "127.0.0.2")],
        "pipeline_parallel": 2,
        "joined_by": "vllm",
        "port": port,
        "join_port": free_port(),
        "extra": ["--max-model-len=2048", "--dtype=float32"],
    }
    file.write_text(yaml.safe_dump(description))
    running = Nodes(file, port, os.environ | ON_A_CPU)
    yield running
    running.close()


@pytest.mark.timeout(TIMEOUT_S + 120.0)  # of starting, and of the plans
def test_two_stages_on_two_nodes_write_the_plans_of_one_engine(nodes):
    backend = nodes.open_backend()
    driver = Driver(backend)
    for name in PLANS:
        driver.add(make_sequence(name))
    driver.run()
    backend.close()
    assert driver.text == PLANS
