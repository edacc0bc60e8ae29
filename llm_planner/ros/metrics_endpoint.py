# SPDX-License-Identifier: Apache-2.0
"""``/metrics`` of a planner node: served by a thread of its own, off unless a port is given."""

from collections.abc import Callable

from rclpy.node import Node

from llm_planner.core.config import NodeSettings, served_model
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanResult
from llm_planner.monitoring.metrics_server import MetricsServer
from llm_planner.monitoring.prometheus import PlannerMetrics
from llm_planner.ros.steady import steady_timer
from llm_planner.serving.planner_view import PlannerView
from llm_planner.serving.server import PlanServer

PERIOD_S = 1.0


class MetricsEndpoint:
    """Counts results and shows the planner to Prometheus. A port that is taken is logged, and the planner goes on.

    A scrape reads what the node's own thread noted at most a second ago: neither waits for the other.

    Args:
        node: The planner node.
        settings: Its parameters.
        server: Returns its server, if it has one now.
        describe: Returns its view.

    Attributes:
        failure: Why nothing is served although a port was given; None while all is well.
    """

    def __init__(
        self,
        node: Node,
        settings: NodeSettings,
        server: Callable[[], PlanServer | None],
        describe: Callable[[], PlannerView],
    ) -> None:
        self._server = server
        self._describe = describe
        self._metrics: PlannerMetrics | None = None
        self._http: MetricsServer | None = None
        self.failure: PlannerError | None = None
        if not settings.metrics_port:
            return
        names = ("backend", "engine.model", "openai.model")
        metrics = PlannerMetrics(served_model(*(node.get_parameter(name).value for name in names)))
        try:
            self._http = MetricsServer(metrics.registry, settings.metrics_host, settings.metrics_port)
        except OSError as error:
            self.failure = PlannerError(
                ErrorCode.ADDRESS_IN_USE,
                f"no metrics: {settings.metrics_host}:{settings.metrics_port} cannot be listened on "
                f"({error.strerror}); give another metrics_port or metrics_host",
            )
            node.get_logger().error(str(self.failure))
            return
        self._metrics = metrics
        node.get_logger().info(f"metrics on http://{settings.metrics_host}:{settings.metrics_port}/metrics")
        steady_timer(node, PERIOD_S, self._tick)

    def count(self, result: PlanResult) -> None:
        """Adds a goal that ended."""
        if self._metrics is not None:
            self._metrics.count(result)

    def close(self) -> None:
        """Ends the thread and frees the port."""
        if self._http is not None:
            self._http.close()
            self._http = None

    def _tick(self) -> None:
        if self._metrics is None:
            return
        self._metrics.show(self._describe())
        if (server := self._server()) is not None:
            server.look()
