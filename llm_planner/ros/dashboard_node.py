# SPDX-License-Identifier: Apache-2.0
"""The dashboard as a node of its own: it shows a planner and its robots to browsers, and can stop the robots.

    ros2 run llm_planner dashboard_node --ros-args -p port:=8080

A browser that is slow or wicked meets this process, never the planner.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rclpy.node import Node
from rclpy.parameter import Parameter

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.config import setting
from llm_planner.core.errors import PlannerError
from llm_planner.monitoring.board import PERIOD_S, Board
from llm_planner.monitoring.hub import Hub
from llm_planner.monitoring.web import StopButton, WebServer, build_app
from llm_planner.ros import parameters, process
from llm_planner.ros.diagnostics import CallbackHealth
from llm_planner.ros.fleet_listener import FleetListener
from llm_planner.ros.fleet_stopper import FleetStopper
from llm_planner.ros.steady import steady_timer

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardSettings:
    """Parameters of the dashboard."""

    planner: str = setting("/planner", "Full name of the planner node.")
    host: str = setting("127.0.0.1", "Address to listen on; 0.0.0.0 shows the fleet to the whole network.")
    port: int = setting(8080, "TCP port; 0 lets the system choose one.", minimum=0, maximum=65535)
    allow_hosts: tuple[str, ...] = setting((), "Host names that browsers may use besides localhost and addresses.")


class DashboardNode(Node):
    """Subscribes, and serves what it receives.

    Args:
        name: Node name.

    Attributes:
        failure: None; a dashboard that runs goes on.
        url: Where a browser finds it.
        token: What a browser needs to stop robots.

    Raises:
        PlannerError: ADDRESS_IN_USE if the port is taken, INVALID_CONFIG if a parameter is out of range.
    """

    def __init__(
        self, name: str = "llm_planner_dashboard", *, parameter_overrides: list[Parameter] | None = None
    ) -> None:
        super().__init__(name, parameter_overrides=parameter_overrides)
        self.failure: PlannerError | None = None
        settings = parameters.declare(self, DashboardSettings)
        self._board = Board(MonotonicClock())
        self._hub = Hub(self._board.whole)
        self._listener = FleetListener(self, settings.planner, self._board)
        button = StopButton(FleetStopper(self).stop)
        hosts = [host for host in settings.allow_hosts if host]
        app = build_app(self._hub, lambda: self._board.whole()[1], hosts, button)
        self._web = WebServer(app, settings.host, settings.port)
        self.url, self.token = self._web.url, button.token
        self.get_logger().info(f"dashboard of {settings.planner} on {self.url}")
        if settings.host not in LOOPBACK:
            self.get_logger().warning("every client of this address sees the fleet; only stopping needs the token")
        steady_timer(self, PERIOD_S, self._tick)
        CallbackHealth(self)

    def end_goals(self) -> None:
        """Has none."""

    def close(self) -> None:
        """Frees the port and the node."""
        self._hub.close()
        self._web.close()
        self.destroy_node()

    def _tick(self) -> None:
        is_watched = self._hub.num_clients > 0
        self._listener.watch(is_watched)
        if is_watched:
            self._hub.publish(*self._board.news())
        else:
            self._board.rest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the dashboard; returns the exit status.

    The link with its token goes to standard output alone: a log travels over the network.
    """

    def build() -> DashboardNode:
        node = DashboardNode()
        print(f"dashboard:  {node.url}#token={node.token}  (without #token=... it cannot stop robots)", flush=True)  # noqa: T201
        return node

    return process.run(build, arguments)


if __name__ == "__main__":
    sys.exit(main())
