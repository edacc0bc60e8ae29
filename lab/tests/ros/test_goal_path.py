# SPDX-License-Identifier: Apache-2.0
"""The way of a goal through both processes, as the profile hook saw it."""

import os
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.ros


def test_the_way_of_a_goal_begins_at_its_acceptance_and_ends_with_its_feedback():
    command = [sys.executable, "-m", "llm_planner_lab.ros.goal_path", "--goals", "1"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    said = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300.0, check=True).stdout
    to_engine, to_robot = re.split(r"^to the \w+: ", said, flags=re.MULTILINE)[1:]
    for text, first, last in (
        (to_engine, "EventActionServer._refuse", "FakeBackend.execute"),
        (to_robot, "PlannerLoop._take", "PlanAction._log"),
    ):
        title, *lines = text.strip().splitlines()
        num_calls, num_hops = map(int, re.findall(r"\d+", title))
        assert num_calls == len(lines) > num_hops > 0
        assert (lines[0].split(".", 2)[2], lines[-1].split(".", 2)[2]) == (first, last)
    assert "PlannerLoop.open" in to_engine
    assert "GoalBook.accept" in to_robot
