# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C in ``llm-planner send`` until the robot has halted.

    python -m llm_planner_lab.ros.latency stop --trials 200

Planner (with its engine in another process), load, robot and ``send`` are processes of their own over DDS, as in life.
Each trial is a new ``send`` that gets SIGINT while the robot turns. The robot stamps the end of a segment when its
driver has returned from ``halt``; the signal is stamped before it is sent, by the same system clock.
"""

import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node

import llm_planner.msg as msgs
from llm_planner.ros import qos
from llm_planner.ros.spinning import spinning
from llm_planner_lab.ros.quantiles import Quantiles

TIMEOUT_S = 60.0
TURN = "exactly: tc(360);"
SEND = "import sys; sys.argv[0] = 'llm-planner'; from llm_planner.cli.main import main; main()"


class _Watch:
    """Notes when segments start and outcomes come, and how many slots of the planner are taken."""

    def __init__(self, node: Node, planner: str, robot: str) -> None:
        self.has_started, self.has_ended = threading.Event(), threading.Event()
        self.outcome = msgs.PlanOutcome()
        self.num_slots: Counter[int] = Counter()
        node.create_subscription(msgs.SegmentReport, f"{planner}/report", self._on_report, qos.REPORTS)
        node.create_subscription(msgs.PlanOutcome, f"/{robot}/outcome", self._on_outcome, qos.OUTCOMES)
        node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, 10)

    def _on_report(self, report: msgs.SegmentReport) -> None:
        if report.status == msgs.SegmentReport.STARTED:  # the load reports ends only
            self.has_started.set()

    def _on_outcome(self, outcome: msgs.PlanOutcome) -> None:
        self.outcome = outcome
        self.has_ended.set()

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        pairs = [pair for status in message.status for pair in status.values if pair.key == "num_running"]
        self.num_slots.update(int(pair.value) for pair in pairs)


def measure_stops(planner: str, robot: str, trials: int) -> dict[str, Any]:
    """Returns the times from the signal until the driver has halted, and until ``send`` has ended."""
    rng = random.Random(0)
    halted_s, left_s = [], []
    with spinning("latency_stop") as node:
        watch = _Watch(node, planner, robot)
        time.sleep(2.0)  # the latched outcomes of before
        for _ in range(trials):
            halt_s, leave_s = _trial(watch, robot, rng.uniform(0.2, 0.6))
            halted_s.append(halt_s)
            left_s.append(leave_s)
    quantiles = {"ctrl_c_to_halt": Quantiles.of(halted_s), "ctrl_c_to_exit": Quantiles.of(left_s)}
    return {**quantiles, "num_slots_taken": dict(sorted(watch.num_slots.items()))}


def _trial(watch: _Watch, robot: str, turning_s: float) -> tuple[float, float]:
    """Returns the seconds from the signal to the halt, and to the end of ``send``."""
    watch.has_started.clear()
    watch.has_ended.clear()
    command = [sys.executable, "-c", SEND, "send", robot, TURN, "--urgent"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as send:
        _require(watch.has_started.wait(TIMEOUT_S), "the robot did not begin")
        time.sleep(turning_s)
        signalled_s = time.time()
        send.send_signal(signal.SIGINT)
        _require(watch.has_ended.wait(TIMEOUT_S), "the robot did not end")
        send.wait(TIMEOUT_S)
        left_s = time.time() - signalled_s
    _require(watch.outcome.error_code == msgs.ErrorCode.STOPPED, f"it ended: {watch.outcome.error_msg}")
    stamp = watch.outcome.segments[-1].finished_at
    return stamp.sec + 1e-9 * stamp.nanosec - signalled_s, left_s


def _require(is_met: bool, problem: str) -> None:
    if not is_met:
        raise TimeoutError(problem)
