# SPDX-License-Identifier: Apache-2.0
"""The probe of the doctor: who can be seen."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.ros


def test_a_planner_that_is_only_listened_to_is_not_running(start_planner, start_robot):
    start_planner("seen")
    start_robot("listener", planner="/absent")
    command = [sys.executable, "-m", "llm_planner.ros.loopback"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    planners = json.loads(done.stdout)["planners"]
    assert "/seen" in planners
    assert "/absent" not in planners
