# SPDX-License-Identifier: Apache-2.0
"""A short campaign holds, one with robots that are broken on purpose does not, and a fleet leaves nothing behind."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

HAS_ROS = all(importlib.util.find_spec(name) for name in ("rclpy", "llm_planner.msg"))
pytestmark = [
    pytest.mark.ros,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not HAS_ROS, reason="rclpy is missing"),
]
TIMEOUT_S = 580.0  # of a run on a machine that does much else


def chaos(tmp_path, *arguments):
    """Returns the exit status, the document of its one part, and what was printed."""
    out = tmp_path / "chaos.json"
    code = "from llm_planner.cli.main import main; main()"
    command = [sys.executable, "-c", code, "chaos", "--json", str(out), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert out.exists(), done.stderr[-3000:]
    (document,) = json.loads(out.read_text()).values()
    return done.returncode, document, done.stdout + done.stderr


def broken(document):
    return {name: number for name, number in document["invariants"].items() if number}


FAULTS = "kill-engine,kill-robot,stop-planner,messages,malformed,burst,clock,partition,disk"


def test_a_fleet_bears_faults(tmp_path):
    status, document, printed = chaos(
        tmp_path, "--seconds", 25, "--every", 2.5, "--drones", 2, "--arms", 1, "--seed", 5, "--faults", FAULTS
    )
    assert broken(document) == {}, document["examples"]
    assert status == 0, printed
    assert document["goals"]["calls"] > 20
    assert sum(document["faults"].values()) >= 5


@pytest.mark.skipif(not os.environ.get("CHAOS"), reason="minutes of a whole machine: CHAOS=1 runs it")
def test_a_campaign_finds_robots_that_are_broken_on_purpose(tmp_path):
    defects = "drone_1=foreign,drone_2=twice,drone_3=unadmitted,drone_4=deaf"
    status, document, printed = chaos(
        tmp_path, "--goals", 60, "--seconds", 90, "--every", 3, "--drones", 4, "--arms", 0, "--faults", "kill-planner",
        "--break", defects,
    )  # fmt: skip
    assert status == 1
    for robot, invariant in (
        ("drone_1", "foreign_calls"),
        ("drone_2", "segments_twice"),
        ("drone_3", "calls_not_admitted"),
        ("drone_4", "robots_unsafe"),
    ):
        found = [e["what"] for e in document["examples"] if e["invariant"] == invariant]
        assert any(what.startswith(robot) for what in found), (invariant, document["examples"])
    assert "to repeat it:" in printed
    assert f"--break {defects}" in printed.replace("\n", " ")


def test_a_fleet_that_is_stopped_at_any_moment_leaves_nothing(tmp_path):
    status, document, printed = chaos(tmp_path, "--starts", 2, "--drones", 1, "--arms", 0)
    assert broken(document) == {}, document["examples"]
    assert status == 0, printed


def test_what_cannot_be_meant_is_said_at_once():
    command = [sys.executable, "-c", "from llm_planner.cli.main import main; main()", "chaos", "--faults", "flood"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 1
    assert "no fault 'flood'" in done.stderr
