# SPDX-License-Identifier: Apache-2.0
"""Simulated robots that share a process: each is a node of its own, with its own thread, control loop and restarts.

    python -m llm_planner.ros.robot_group drone_1 drone_2 --ros-args -p drone_1:seed:=0 -p drone_2:seed:=1

They share one interpreter with its lock, and one participant of DDS: most of a robot's memory, and a part of its
processor time. For robots without a driver only: what hangs or crashes inside a library takes all of them along.
ROS takes ``drone_1:`` for ``/drone_1``, so robots in a namespace have a process each.
"""

import sys
from collections.abc import Callable, Sequence
from itertools import chain, repeat

from rclpy.parameter import Parameter

from llm_planner.ros import process
from llm_planner.ros.robot_node import RobotNode


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the robots that the command line names before ``--ros-args``; returns the exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    names = words[: words.index("--ros-args")] if "--ros-args" in words else words
    return process.run_group({name: _builder(name) for name in names}, words[len(names) :])


def _builder(name: str) -> Callable[[], process.NodeProcess]:
    """Returns what builds a robot: without its scenario from the second time on, for that would begin again."""
    overrides = chain([[]], repeat([Parameter("scenario", value="")]))
    return lambda: RobotNode(name, parameter_overrides=next(overrides))


if __name__ == "__main__":
    sys.exit(main())
