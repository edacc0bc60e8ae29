# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from pathlib import Path

import pytest

from tests.backends.openai.builders import ServerProcess

ROOT = Path(__file__).resolve().parents[3]


def start_server(*options: str) -> tuple[subprocess.Popen, int]:
    """Returns a running server process and its port."""
    command = [sys.executable, "-m", "tests.backends.openai.model_server", *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return process, int(process.stdout.readline())


@pytest.fixture(scope="session")
def server_process():
    process, port = start_server()
    with process.stdout:
        yield ServerProcess(process, port)
        process.kill()
        process.wait()


@pytest.fixture
def server(server_process):
    """A scripted server without faults, whose counts begin at zero."""
    server_process.order(forget=True)
    return server_process


@pytest.fixture(scope="session")
def engine_server():
    """A server with our engine and the bundled model behind it."""
    process, port = start_server("--engine")
    with process.stdout:
        yield ServerProcess(process, port)
        process.kill()
        process.wait()


@pytest.fixture
def own_server():
    """Starts servers of a test's own: to be killed, or with other options."""
    started = []

    def start(*options: str) -> ServerProcess:
        started.append(start_server(*options))
        return ServerProcess(*started[-1])

    yield start
    for process, _ in started:
        process.kill()
        process.wait()
        process.stdout.close()
