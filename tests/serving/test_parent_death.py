# SPDX-License-Identifier: Apache-2.0
"""A parent that dies before the kernel was told about its child. (A parent that dies later: ``test_child``.)"""

import os
import signal
import subprocess
import sys

import pytest

from llm_planner.serving.parent_death import ends_with_parent

SAY = [sys.executable, "-c", "print('started')"]


@pytest.mark.parametrize("death_signal", [signal.SIGKILL, signal.SIGTERM])
def test_a_command_of_a_living_parent_runs(death_signal):
    done = subprocess.run(ends_with_parent(SAY, death_signal), capture_output=True, text=True, check=True)
    assert done.stdout == "started\n"


def test_a_command_whose_parent_is_dead_already_is_not_started():
    command = ends_with_parent(SAY, signal.SIGKILL)
    orphan = ["99999999" if word == str(os.getpid()) else word for word in command]
    done = subprocess.run(orphan, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
