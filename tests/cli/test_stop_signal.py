# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C and SIGTERM, in a process of their own: handlers belong to its main thread."""

import subprocess
import sys

import pytest

WAIT_AND_KILL = """
import os, random, signal, threading
from llm_planner.cli.stop_signal import StopSignal

number = int({number})
for _ in range(100):
    stop = StopSignal()
    threading.Timer(random.uniform(0.001, 0.01), os.kill, (os.getpid(), number)).start()
    while not stop.wait({timeout_s}):
        pass
    assert stop.wait(), "it stays set"
"""


@pytest.mark.parametrize("signal_name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("timeout_s", [0.0, 0.0001, None])
def test_a_signal_ends_the_wait_whenever_it_comes(signal_name, timeout_s):
    code = WAIT_AND_KILL.format(number=f"signal.{signal_name}", timeout_s=timeout_s)
    assert subprocess.run([sys.executable, "-c", code], timeout=60.0, check=False).returncode == 0


def test_without_a_signal_the_time_passes():
    code = "from llm_planner.cli.stop_signal import StopSignal\nassert not StopSignal().wait(0.05)"
    subprocess.run([sys.executable, "-c", code], timeout=60.0, check=True)
