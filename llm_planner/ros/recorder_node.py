# SPDX-License-Identifier: Apache-2.0
"""The recorder as a node of its own: writes what a planner and its robots publish to an MCAP file, until a signal.

ros2 run llm_planner recorder_node --ros-args -p path:=run.mcap
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rclpy.node import Node
from rclpy.parameter import Parameter

from llm_planner.core.config import setting
from llm_planner.core.errors import PlannerError
from llm_planner.monitoring.recorder import McapRecorder
from llm_planner.ros import parameters, process
from llm_planner.ros.diagnostics import CallbackHealth
from llm_planner.ros.fleet_recorder import FleetRecorder
from llm_planner.ros.steady import steady_timer

LOOK_PERIOD_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderSettings:
    """Parameters of the recorder."""

    planner: str = setting("/planner", "Full name of the planner node.")
    path: str = setting("recording.mcap", "The file to write; it must not exist yet.")


class RecorderNode(Node):
    """Records until it is closed.

    Args:
        name: Node name.

    Attributes:
        failure: Why it ends itself: the file cannot be written any more.

    Raises:
        PlannerError: INVALID_CONFIG if the file exists or cannot be written.
    """

    def __init__(
        self, name: str = "llm_planner_recorder", *, parameter_overrides: list[Parameter] | None = None
    ) -> None:
        super().__init__(name, parameter_overrides=parameter_overrides)
        settings = parameters.declare(self, RecorderSettings)
        self._file = McapRecorder(Path(settings.path))
        self._recorder = FleetRecorder(self, settings.planner, self._file)
        self.failure: PlannerError | None = None
        steady_timer(self, LOOK_PERIOD_S, self._look)
        CallbackHealth(self)
        self.get_logger().info(f"records {settings.planner} and its robots to {settings.path}")

    def end_goals(self) -> None:
        """Has none; last words are still recorded meanwhile."""

    def close(self) -> None:
        """Writes the index and frees the node."""
        self.destroy_node()
        if self.failure is None:
            try:
                self._file.close()
            except PlannerError as error:
                self.failure = error
                self.get_logger().fatal(str(error))

    def _look(self) -> None:
        self.failure = self._recorder.failure


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the recorder; returns the exit status."""
    return process.run(RecorderNode, arguments)


if __name__ == "__main__":
    sys.exit(main())
