# SPDX-License-Identifier: Apache-2.0
"""Measures the ROS interface: how long until a goal is accepted, a segment arrives, a cancel is acknowledged.

    python -m llm_planner_lab.ros.latency --trials 200

Three processes over DDS, as in life: the planner (with its engine in a fourth), a load of robots that keep every slot
busy, and this one, which measures. Segments are stamped when the server hands them to the node, so that their way
through node, DDS and client library is measured alone; that part runs against a server without an engine. ``noise`` is
how much too late a bare process wakes up on this machine meanwhile: what is below it, is not known.

    python -m llm_planner_lab.ros.latency refusals --trials 3000

What goals cost that are refused (``ros.latency_refusals``).

    python -m llm_planner_lab.ros.latency stop --trials 200

Ctrl-C in ``llm-planner send`` until the robot's driver has halted, under the same load (``ros.latency_stop``).
"""

import argparse
import functools
import json
import os
import platform
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.action.client import ActionClient
from rclpy.node import Node
from rclpy.task import Future

from llm_planner.action import PlanTask
from llm_planner.core.segment import ReportStatus
from llm_planner.ros.bridge import Bridge
from llm_planner.ros.composition import Composition, Fleet
from llm_planner.ros.planner_client import PlannerClient
from llm_planner.ros.spinning import spinning
from llm_planner_lab.ros.latency_peers import (
    LOAD_INSTRUCTION,
    LOAD_SCENE,
    TIMEOUT_S,
    run_load,
    serve_long,
    serve_stamps,
)
from llm_planner_lab.ros.latency_refusals import measure_refusals, send_long_goals
from llm_planner_lab.ros.latency_stop import measure_stops
from llm_planner_lab.ros.quantiles import Quantiles

SETTLE_S = 0.05  # between acceptance and cancel, segment and report
WARM_UP_S = 5.0
LOAD_TIMEOUT_S = 120.0  # for the model
DISCOVERY_S = 3.0  # the planner must have found this process too, or its answers are lost


class Probe:
    """Sends goals and cancels with rclpy's bare action client, and takes the time of the answers.

    Args:
        node: Spun by the caller.
        planner: Full name of the planner.

    Attributes:
        action: The bare client.
    """

    def __init__(self, node: Node, planner: str) -> None:
        self._bridge = Bridge(node)
        self.action = ActionClient(node, PlanTask, f"{planner}/plan_task")
        if not self.action.wait_for_server(TIMEOUT_S):
            raise TimeoutError(f"no planner {planner} within {TIMEOUT_S:g} s")
        time.sleep(DISCOVERY_S)

    def call(self, start: Callable[[], Future]) -> tuple[Any, float]:
        """Returns the answer to a request and the seconds that it took; it is sent in the executor's thread."""
        answered = threading.Event()
        answer: list[Any] = []
        times_s: list[float] = []

        def on_answer(future: Future) -> None:
            times_s.append(time.monotonic())
            answer.append(future.result())
            answered.set()

        def send() -> None:
            times_s.append(time.monotonic())
            start().add_done_callback(on_answer)

        self._bridge.post(send)
        if not answered.wait(TIMEOUT_S):
            raise TimeoutError(f"no answer within {TIMEOUT_S:g} s")
        return answer[0], times_s[1] - times_s[0]

    def trial(self, robot_id: str) -> Mapping[str, float]:
        """Returns the latencies of one goal that is cancelled shortly after it was accepted."""
        goal = PlanTask.Goal(
            robot_id=robot_id, robot_model="tello", instruction=LOAD_INSTRUCTION, scene=LOAD_SCENE, max_tokens=0
        )
        handle, accepted_s = self.call(functools.partial(self.action.send_goal_async, goal))
        time.sleep(SETTLE_S)
        _, acknowledged_s = self.call(handle.cancel_goal_async)
        _, result_s = self.call(handle.get_result_async)
        return {
            "accept": accepted_s,
            "cancel": acknowledged_s,
            "cancel_to_result": acknowledged_s + result_s,
            "noise": noise_s(),
        }


def noise_s() -> float:
    """Returns how much too late this process wakes up from a sleep of a millisecond: the machine's share in it all."""
    started_s = time.monotonic()
    time.sleep(1e-3)
    return time.monotonic() - started_s - 1e-3


def measure_goals(planner: str, trials: int) -> dict[str, Any]:
    """Returns the latencies of goals and cancels, one after the other, and how often how many slots were taken."""
    num_running: list[int] = []

    def on_diagnostics(message: DiagnosticArray) -> None:
        for status in message.status:
            num_running.extend(int(pair.value) for pair in status.values if pair.key == "num_running")

    with spinning("latency_probe") as node:
        probe = Probe(node, planner)
        node.create_subscription(DiagnosticArray, "/diagnostics", on_diagnostics, 10)
        measured = [probe.trial(f"probe_{i}") for i in range(trials)]
    latencies = {name: Quantiles.of([trial[name] for trial in measured]) for name in measured[0]}
    return {**latencies, "num_slots_taken": dict(sorted(Counter(num_running).items()))}


def measure_segments(planner: str, trials: int) -> Quantiles:
    """Returns how long segments take from the server to a robot's program."""
    samples_s: list[float] = []
    with spinning("latency_robot") as node:
        client = PlannerClient(node, "tello", planner=planner)
        if not client.wait_for_planner(TIMEOUT_S):
            raise TimeoutError(f"no planner {planner} within {TIMEOUT_S:g} s")
        handle = client.plan(str(trials))
        for segment in handle:
            samples_s.append(time.monotonic() - segment.generation_time_s)
            time.sleep(SETTLE_S)  # a robot takes its time
            handle.report(segment, ReportStatus.SUCCEEDED)
    return Quantiles.of(samples_s)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints one JSON object; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    roles = ["measure", "refusals", "stop", "serve-stamps", "serve-long", "send-long", "load"]
    parser.add_argument("role", nargs="?", choices=roles, default="measure", help="the last four are other processes")
    parser.add_argument("--trials", type=int, default=200, help="samples per latency")
    parser.add_argument("--slots", type=int, default=8, help="scheduler.max_num_seqs of the planner")
    parser.add_argument("--robots", type=int, default=16, help="robots that keep the slots busy")
    parser.add_argument("--engine", choices=["torch", "fake"], default="torch", help="load: bundled model or script")
    options = parser.parse_args(arguments)
    if options.role == "serve-stamps":
        return serve_stamps()
    if options.role == "serve-long":
        return serve_long(options.slots)
    if options.role == "send-long":
        return send_long_goals("/planner")
    if options.role == "load":
        return run_load(options.robots, is_scripted=options.engine == "fake")
    others = {"refusals": measure_refused, "stop": measure_stop}
    measured = others.get(options.role, measure)(options)
    print(json.dumps(measured, indent=2, default=asdict))  # noqa: T201 -- a program's output
    return 0


def measure_refused(options: argparse.Namespace) -> dict[str, Any]:
    """Returns what refused goals cost."""
    with Fleet(Composition(drones=0, arms=0, planner={"backend": "fake"}).commands()) as fleet:
        _wait_for("/planner")
        with spinning("latency_refusals") as node:
            probe = Probe(node, "/planner")
            pid = fleet.pids["planner"]
            refusals = measure_refusals(node, "/planner", probe.action, probe.call, pid, options.trials)
    return {"refusals": refusals} | _conditions(options)


def measure_stop(options: argparse.Namespace) -> dict[str, Any]:
    """Returns how long a Ctrl-C takes until the robot has halted, with all slots busy."""
    fleet = Composition(drones=1, arms=0, planner={"backend": "fake", "scheduler.max_num_seqs": int(options.slots)})
    commands = fleet.commands()
    load = ["load", "--robots", str(options.robots), "--engine", "fake"]
    with Fleet(commands):
        _wait_for("/planner")
        with Fleet({"load": [sys.executable, "-m", "llm_planner_lab.ros.latency", *load]}):
            time.sleep(WARM_UP_S)
            stops = measure_stops("/planner", "drone_1", options.trials)
    return stops | _conditions(options)


def _wait_for(planner: str) -> None:
    with spinning("latency_wait") as node:
        if not PlannerClient(node, "tello", planner=planner).wait_for_planner(LOAD_TIMEOUT_S):
            raise TimeoutError(f"no planner {planner} within {LOAD_TIMEOUT_S:g} s")


def _conditions(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "slots": options.slots,
        "robots": options.robots,
        "load_average": os.getloadavg(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Returns all latencies, idle and under load, with what they were measured on."""
    this = [sys.executable, "-m", "llm_planner_lab.ros.latency"]
    with Fleet({"planner": [*this, "serve-stamps"]}):
        segments = measure_segments("/planner", options.trials)
    with Fleet({"planner": [*this, "serve-long", "--slots", str(options.slots)]}):
        idle = measure_goals("/planner", options.trials)
        with Fleet({"load": [*this, "load", "--robots", str(options.robots)]}):
            time.sleep(WARM_UP_S)
            busy = measure_goals("/planner", options.trials)
    return {"segment_to_client": segments, "idle": idle, "busy": busy} | _conditions(options)


if __name__ == "__main__":
    sys.exit(main())
