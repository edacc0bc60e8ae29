# SPDX-License-Identifier: Apache-2.0
"""Measures what gets lost and what comes late while a fleet works, and what its dashboard costs.

    python -m llm_planner_lab.ros.soak --seconds 600 --drones 16 --arms 4 --robots-per-process 20

A planner with a scripted engine, twenty robot nodes and a dashboard are told something all the time;
this process subscribes to every topic of theirs and takes the middleware's own numbers and stamps of each message:

- *lost*: numbers of a publisher that never came, between the first and the last that did;
- *late*: a message whose way took longer than the smaller of 20 % of its topic's period and 5 ms (the definition of
  ROS 2 performance targets), counted for topics that have a period;
- *way*: from the publisher's stamp until a callback of this process had it, which waits for its other callbacks; what
  the middleware had late is reported with it (``late_share_of_transport``), and what it had in time and this process
  had late (``late_share_of_listener``): the listener's own lateness, and no robot's.

Processor seconds are those of each process; ``--idle`` measures them alone, of robots that no client watches and that
have no goal. Memory is proportional (PSS): what processes share is divided among them. The dashboard is watched by as
many browsers as ``--browsers`` says (they read the stream and draw nothing), in the second half of the time.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from rclpy.node import Node

import llm_planner.msg as msgs
from llm_planner.ros import qos
from llm_planner.ros.composition import DASHBOARD, Composition, Fleet
from llm_planner.ros.graph import robot_nodes
from llm_planner.ros.spinning import spinning
from llm_planner_lab.ros.processor_time import memory_mb, share_of_core
from llm_planner_lab.ros.soak_ear import Ear

READY_TIMEOUT_S = 180.0
SETTLE_S = 5.0  # twenty robots find each other and us
EVERY_S = 9.0  # period of a robot's instructions: longer than its plan takes
PORT = 8479
PLANNER, EAR = "/planner", "this_measurement"
NO_ROBOTS = ("planner", DASHBOARD, EAR)
TASKS = {"drone": "exactly: mf(60);tc(90);mb(60);", "arm": "exactly: home();wait(1);home();wait(1);"}
BROWSER = "import sys, urllib.request\nfor line in urllib.request.urlopen(sys.argv[1] + 'events'): pass"


def write_scenario(path: Path, composition: Composition, seconds: float) -> None:
    """Writes what every robot is told, and when: all the time, not all at once."""
    scenario = {}
    for number, robot in enumerate(composition.robots):
        first_s = EVERY_S * number / max(1, len(composition.robots))
        times_s = [round(first_s + EVERY_S * i, 2) for i in range(int(seconds / EVERY_S) + 1)]
        instruction = TASKS[robot.name.partition("_")[0]]
        scenario[robot.name] = [{"at_s": at_s, "instruction": instruction} for at_s in times_s]
    path.write_text(yaml.safe_dump(scenario), encoding="utf-8")


def wait_until_there(node: Node, num_robots: int) -> None:
    """Waits for an active planner and all robots.

    Raises:
        TimeoutError: If they do not come.
    """
    statuses: list[msgs.PlannerStatus] = []
    subscription = node.create_subscription(msgs.PlannerStatus, f"{PLANNER}/status", statuses.append, qos.STATUS)
    until_s = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < until_s:
        is_active = bool(statuses) and statuses[-1].state == msgs.PlannerStatus.ACTIVE
        if is_active and len(robot_nodes(node)) >= num_robots:
            node.destroy_subscription(subscription)
            time.sleep(SETTLE_S)
            return
        time.sleep(0.2)
    raise TimeoutError(f"{len(robot_nodes(node))} of {num_robots} robots within {READY_TIMEOUT_S:g} s")


def soak(composition: Composition, seconds: float, num_browsers: int, log_dir: Path) -> dict[str, Any]:
    """Returns what was lost and late while a fleet worked, and what its processes took of one core.

    Args:
        composition: The fleet at work.
        seconds: For how long; in the second half browsers look at the dashboard.
        num_browsers: How many.
        log_dir: Where the processes write.
    """
    num_robots = len(composition.robots)
    with Fleet(composition.commands(), log_dir=log_dir) as fleet, spinning("llm_planner_soak") as node:
        wait_until_there(node, num_robots)
        ear = Ear(node, PLANNER)
        time.sleep(SETTLE_S)
        ear.is_counting = True
        shares = {}
        for phase, num_watching in (("unwatched", 0), ("watched", num_browsers)):
            with ExitStack() as browsers:
                for _ in range(num_watching):
                    command = [sys.executable, "-c", BROWSER, f"http://127.0.0.1:{PORT}/"]
                    browser = browsers.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL))
                    browsers.callback(browser.kill)
                began_s = time.process_time()
                shares[phase] = share_of_core(fleet.pids, seconds / 2)
                shares[phase][EAR] = round(2 * (time.process_time() - began_s) / seconds, 4)
        ear.is_counting = False
        memory = _robot_memory(fleet, num_robots)
        _require_all(fleet, log_dir)
    return {
        "messages": ear.report(),
        "reports": ear.report_of_reports(),
        "share_of_one_core": _by_role(shares, num_robots),
        "robot_memory_mb": memory,
    }


def idle(composition: Composition, seconds: float, log_dir: Path) -> dict[str, Any]:
    """Returns what the processes of a fleet take of one core while no client watches it or sends it a goal.

    Args:
        composition: The fleet, without a dashboard and a scenario.
        seconds: For how long.
        log_dir: Where the processes write.
    """
    num_robots = len(composition.robots)
    with Fleet(composition.commands(), log_dir=log_dir) as fleet:
        with spinning("llm_planner_soak") as node:
            wait_until_there(node, num_robots)
        time.sleep(SETTLE_S)
        shares = {"idle": share_of_core(fleet.pids, seconds)}
        memory = _robot_memory(fleet, num_robots)
        _require_all(fleet, log_dir)
    return {"share_of_one_core": _by_role(shares, num_robots), "robot_memory_mb": memory}


def _require_all(fleet: Fleet, log_dir: Path) -> None:
    """Raises RuntimeError, with the end of its log, if a process of a fleet has ended: the directory is removed."""
    ended = fleet.first_ended() or next(iter(fleet.observers_ended().items()), None)
    if ended is not None:
        last = (log_dir / f"{ended[0]}.log").read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
        raise RuntimeError("\n".join((f"process {ended[0]} ended with status {ended[1]}:", *last)))


def _robot_memory(fleet: Fleet, num_robots: int) -> float:
    """Returns the mean memory of a robot, in MB."""
    sizes = [memory_mb(pid) for name, pid in fleet.pids.items() if name not in NO_ROBOTS]
    return round(sum(sizes) / max(1, num_robots), 1)


def _by_role(shares: dict[str, dict[str, float]], num_robots: int) -> dict[str, dict[str, float]]:
    """Returns the shares of planner (engine included), dashboard and this process, and the mean of the robots."""
    roles = {}
    for phase, share in shares.items():
        robots = [value for name, value in share.items() if name not in NO_ROBOTS]
        mean = sum(robots) / max(1, num_robots)
        own = {name: share[name] for name in NO_ROBOTS if name in share}
        roles[phase] = {**own, "each_robot": round(mean, 4)}
    return roles


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints one JSON object; returns 0."""
    parser = argparse.ArgumentParser(
        prog="python -m llm_planner_lab.ros.soak", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="how long")
    parser.add_argument("--drones", type=int, default=16, help="how many drones")
    parser.add_argument("--arms", type=int, default=4, help="how many arms")
    parser.add_argument("--robots-per-process", type=int, default=1, help="how many robots share a process")
    parser.add_argument("--idle", action="store_true", help="no instructions, no listener, no dashboard")
    parser.add_argument("--browsers", type=int, default=1, help="how many look at the dashboard, in the second half")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="llm_planner_soak_") as directory:
        scenario = Path(directory) / "scenario.yaml"
        fleet = Composition(
            drones=given.drones,
            arms=given.arms,
            planner={"backend": "fake"},
            dashboard_port=PORT,
            robots_per_process=given.robots_per_process,
        )
        load = os.getloadavg()[0]
        if given.idle:
            found = idle(replace(fleet, dashboard_port=None), given.seconds, Path(directory))
        else:
            write_scenario(scenario, fleet, given.seconds + READY_TIMEOUT_S)
            found = soak(replace(fleet, scenario=scenario), given.seconds, given.browsers, Path(directory))
    conditions = {
        "seconds": given.seconds,
        "robots": given.drones + given.arms,
        "robots_per_process": given.robots_per_process,
        "browsers": given.browsers,
        "engine": "scripted (backend fake)",
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "load_before": round(load, 2),
        "load_after": round(os.getloadavg()[0], 2),
    }
    print(json.dumps({"conditions": conditions, **found}, indent=2))  # noqa: T201 -- its result
    return 0


if __name__ == "__main__":
    sys.exit(main())
