# SPDX-License-Identifier: Apache-2.0
"""What refused goals cost a planner: goals per second over thousands of them, and goals with a text of megabytes.

    python -m llm_planner_lab.ros.latency refusals --trials 3000

The planner is a process of its own (scripted engine); one client sends the next goal when it has the result of the one
before. The first and the last tenth are the baseline of each other. Another process sends the long goals; meanwhile,
this one keeps calling a service of the planner, and the longest wait is how long the node's thread was taken.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rclpy.action.client import ActionClient
from rclpy.node import Node
from rclpy.task import Future

from llm_planner.action import PlanTask
from llm_planner.core.errors import ErrorCode
from llm_planner.ros.spinning import spinning
from llm_planner.srv import GetSegments

Call = Callable[[Callable[[], Future]], tuple[Any, float]]
"""Sends a request in the executor's thread; returns the answer and its seconds (``latency.Probe.call``)."""

LONG_TEXT_BYTES = 10_000_000
NUM_LONG = 5
UNKNOWN_GOAL = "0" * 32
TIMEOUT_S = 30.0


def measure_refusals(node: Node, planner: str, action: ActionClient, call: Call, pid: int, num: int) -> dict[str, Any]:
    """Returns the figures.

    Args:
        node: Spun in the background.
        planner: Full name of the planner.
        action: Of the planner.
        call: Sends a request and waits for the answer.
        pid: The planner's process.
        num: How many goals to have refused.
    """
    ends_s = [time.monotonic()]
    for _ in range(num):
        _refused(action, call, PlanTask.Goal(robot_id="not a name"), ErrorCode.INVALID_ROBOT_ID)
        ends_s.append(time.monotonic())
    tenth = max(1, num // 10)
    return {
        "refused": num,
        "goals_per_s_first_tenth": round(tenth / (ends_s[tenth] - ends_s[0]), 1),
        "goals_per_s_last_tenth": round(tenth / (ends_s[-1] - ends_s[-1 - tenth]), 1),
        "long_goals": _long_goals(node, planner, call, pid),
    }


def send_long_goals(planner: str) -> int:
    """Sends long goals, one for every line of the standard input, and says when each was refused; returns 0."""
    goal = PlanTask.Goal(robot_id="long", robot_model="tello", instruction="a" * LONG_TEXT_BYTES)
    with spinning("latency_long") as node:
        action = ActionClient(node, PlanTask, f"{planner}/plan_task")
        action.wait_for_server(TIMEOUT_S)
        for _ in sys.stdin:
            ends: list[Any] = []
            action.send_goal_async(goal).add_done_callback(ends.append)
            while not ends:
                time.sleep(0.01)
            print("refused", flush=True)  # noqa: T201 -- to the process that measures
    return 0


def _refused(action: ActionClient, call: Call, goal: PlanTask.Goal, code: ErrorCode) -> None:
    handle, _ = call(partial(action.send_goal_async, goal))
    response, _ = call(handle.get_result_async)
    if response.result.error_code != code:
        raise RuntimeError(f"refused with {response.result.error_code} instead of {code.name}")


def _long_goals(node: Node, planner: str, call: Call, pid: int) -> dict[str, Any]:
    """Returns what goals with a text of ``LONG_TEXT_BYTES`` cost."""
    service = node.create_client(GetSegments, f"{planner}/get_segments")
    service.wait_for_service(TIMEOUT_S)
    ping = partial(service.call_async, GetSegments.Request(goal_id=UNKNOWN_GOAL))
    command = [sys.executable, "-m", "llm_planner_lab.ros.latency", "send-long"]
    waits_s, resident_bytes = [], []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sender:
        assert sender.stdin is not None
        assert sender.stdout is not None
        idle_s = max(call(ping)[1] for _ in range(100))
        for _ in range(1 + NUM_LONG):
            sender.stdin.write(b"next\n")
            sender.stdin.flush()
            until_s = time.monotonic() + 2.0
            waits_s.append(0.0)
            while time.monotonic() < until_s:
                waits_s[-1] = max(waits_s[-1], call(ping)[1])
            sender.stdout.readline()
            resident_bytes.append(_resident_bytes(pid))
        sender.stdin.close()
    kept_bytes = (resident_bytes[-1] - resident_bytes[0]) / NUM_LONG  # the first one fills the middleware's buffers
    return {
        "bytes": LONG_TEXT_BYTES,
        "longest_wait_of_others_s": [round(wait_s, 4) for wait_s in waits_s],
        "longest_wait_without_s": round(idle_s, 4),
        "kept_mb_per_goal": round(kept_bytes / 1e6, 2),
    }


def _resident_bytes(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()
    return int(fields[1]) * 4096
