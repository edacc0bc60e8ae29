# SPDX-License-Identifier: Apache-2.0
"""A running planner for people to look at: one topic with JSON, published only while it has a subscriber."""

import threading
import time
from collections.abc import Callable

from rclpy.node import Node
from std_msgs.msg import String

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.text import node_name
from llm_planner.ros import qos
from llm_planner.ros.steady import steady_timer
from llm_planner.serving.planner_view import PlannerView
from llm_planner.serving.server import PlanServer

PERIOD_S = 0.25


class ViewPublisher:
    """Publishes a node's view on ``~/view`` four times a second while it has a subscriber, and costs nothing else.

    Args:
        node: The planner node.
        server: Returns its server, if it has one now.
        describe: Returns the view.
    """

    def __init__(
        self, node: Node, server: Callable[[], PlanServer | None], describe: Callable[[], PlannerView]
    ) -> None:
        self._server = server
        self._describe = describe
        self._publisher = node.create_publisher(String, "~/view", qos.VIEW)
        self._is_asked = False  # whether the engine was asked for what is published next
        steady_timer(node, PERIOD_S, self._tick)

    def _tick(self) -> None:
        if self._publisher.get_subscription_count() == 0:
            self._is_asked = False
            return
        if self._is_asked:
            self._publisher.publish(String(data=self._describe().to_json()))
        if (server := self._server()) is not None:
            server.look()
        self._is_asked = True


class ViewListener:
    """Receives the views of one planner.

    Args:
        node: Spun in the background (``ros.spinning``).
        planner: Full name of the planner node.

    Raises:
        PlannerError: INVALID_CONFIG if no node can have this name.
    """

    def __init__(self, node: Node, planner: str) -> None:
        self._planner = node_name(planner)
        self._text: str | None = None
        self._came = threading.Condition()
        node.create_subscription(String, f"{planner.rstrip('/')}/view", self._on_view, qos.VIEW)

    def next(self, timeout_s: float) -> PlannerView | None:
        """Waits for a view that was not returned yet; None after ``timeout_s``.

        Raises:
            PlannerError: If it is of another version.
        """
        with self._came:
            self._came.wait_for(lambda: self._text is not None, timeout_s)
            text, self._text = self._text, None
        return None if text is None else PlannerView.from_json(text)

    def first(self, timeout_s: float) -> PlannerView:
        """Waits for the first view.

        Raises:
            PlannerError: SERVER_UNREACHABLE if none comes.
        """
        view = self.next(timeout_s)
        if view is None:
            raise PlannerError(
                ErrorCode.SERVER_UNREACHABLE,
                f"no planner answers as {self._planner} within {timeout_s:g} s; start one (`llm-planner up`), name it "
                "with --planner, or compare ROS_DOMAIN_ID (a planner on another machine needs network subnet)",
            )
        return view

    def fresh(self, before: PlannerView, timeout_s: float) -> PlannerView:
        """Returns a view whose engine part is newer than that of ``before``; after ``timeout_s`` the last one."""
        until_s, last = time.monotonic() + timeout_s, before
        while (left_s := until_s - time.monotonic()) > 0:
            last = self.next(left_s) or last
            if last.loop is not None and (before.loop is None or last.loop.at_s > before.loop.at_s):
                return last
        return last

    def _on_view(self, message: String) -> None:
        with self._came:
            self._text = message.data
            self._came.notify_all()
