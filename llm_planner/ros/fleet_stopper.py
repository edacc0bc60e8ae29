# SPDX-License-Identifier: Apache-2.0
"""Stops robots for a caller outside the executor's thread: the dashboard's web server."""

from concurrent.futures import ThreadPoolExecutor

from rclpy.client import Client
from rclpy.node import Node

from llm_planner.core.errors import PlannerError
from llm_planner.ros.commander import stop_robot
from llm_planner.ros.fleet_listener import SEARCH_PERIOD_S
from llm_planner.ros.graph import robot_nodes
from llm_planner.ros.steady import steady_timer
from llm_planner.srv import Stop

ANSWER_S = 3.0
REASON = "stopped in the dashboard"


class FleetStopper:
    """Knows the robots that can be seen, and halts them.

    Args:
        node: Spun by the caller.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._clients: dict[str, Client] = {}  # by name, without the leading slash
        self._search()
        steady_timer(node, SEARCH_PERIOD_S, self._search)

    def _search(self) -> None:
        for robot in {name.removeprefix("/") for name in robot_nodes(self._node)} - self._clients.keys():
            self._clients[robot] = self._node.create_client(Stop, f"/{robot}/stop")

    def stop(self, robot: str = "") -> dict[str, str]:
        """Halts a robot, or all of them if it is empty, side by side; blocks for some seconds at most.

        Returns:
            By name why a robot did not halt, empty for one that did; nothing if there is no such robot.
        """
        clients = {name: client for name, client in dict(self._clients).items() if robot in ("", name)}
        if not clients:
            return {}
        with ThreadPoolExecutor(max_workers=len(clients)) as pool:
            return dict(zip(clients, pool.map(self._stop, clients.keys(), clients.values()), strict=True))

    def _stop(self, robot: str, client: Client) -> str:
        try:
            stop_robot(self._node, robot, client, REASON, ANSWER_S)
        except PlannerError as error:
            return error.message
        return ""
