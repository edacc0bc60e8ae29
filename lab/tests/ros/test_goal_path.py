# SPDX-License-Identifier: Apache-2.0
"""The way of a goal through both processes, as the profile hook saw it."""

import os
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.ros


def test_a_function_that_has_returned_is_no_hop_to_what_a_later_one_calls():
    from llm_planner_lab.ros.goal_path import Call, _hops

    loop, token_bytes, reads = (
        Call(1, "main", 0, "serving.loop.step", is_return=False),
        Call(2, "main", 2, "serving.fake.token_bytes", is_return=False),
        Call(5, "main", 3, "serving.plan_preparer.reads", is_return=False),  # called from planning/, at depth 2
    )
    returns = [Call(at_ns, call.thread, call.depth, call.name, True) for at_ns, call in ((3, token_bytes), (6, reads))]
    assert _hops([loop, token_bytes, reads], returns) == {loop}
    assert _hops([loop, token_bytes, reads], []) == {loop, token_bytes}


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
