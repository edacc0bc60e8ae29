"""Tells robot nodes what to do, and hears how it went: what a person's console, a script or the demo needs."""

import threading
from collections.abc import Sequence

from rclpy.node import Node

import llm_planner.msg as msgs
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.ros import qos
from llm_planner.srv import Instruct

POLL_S = 0.1


class Commander:
    """A console for some robots. Its node is spun by somebody else (``ros.spinning``); all methods may block.

    Args:
        node: Spun in the background.
        robots: Names of the robot nodes.
        planner: Full name of the planner node.
    """

    def __init__(self, node: Node, robots: Sequence[str], *, planner: str = "/planner") -> None:
        self._clients = {robot: node.create_client(Instruct, f"/{robot}/instruct") for robot in robots}
        self._outcomes: dict[str, msgs.PlanOutcome] = {}
        self._outcome_came = threading.Condition()
        self._status: msgs.PlannerStatus | None = None
        self._changed = threading.Event()
        for robot in robots:
            node.create_subscription(msgs.PlanOutcome, f"/{robot}/outcome", self._on_outcome, qos.OUTCOMES)
        node.create_subscription(msgs.PlannerStatus, f"{planner}/status", self._on_status, qos.STATUS)

    @property
    def status(self) -> msgs.PlannerStatus | None:
        """The planner's last word; None before the first."""
        return self._status

    def wait_until_ready(self, timeout_s: float) -> bool:
        """Waits for an active planner and all robots; returns whether they are there."""
        num_tries = max(1, round(timeout_s / POLL_S))
        for _ in range(num_tries):
            is_active = self._status is not None and self._status.state == msgs.PlannerStatus.ACTIVE
            if is_active and all(client.service_is_ready() for client in self._clients.values()):
                return True
            self._changed.wait(POLL_S)
            self._changed.clear()
        return False

    def instruct(self, robot: str, order: Instruct.Request, *, timeout_s: float = 5.0) -> None:
        """Tells a robot what to do; an outcome with ``order.tag`` will follow.

        Raises:
            PlannerError: SERVER_UNREACHABLE if the robot does not answer, or its reason not to accept.
        """
        client = self._clients[robot]
        if not client.wait_for_service(timeout_s):
            raise PlannerError(ErrorCode.SERVER_UNREACHABLE, f"no robot node /{robot}; start one with `llm-planner up`")
        answered = threading.Event()
        future = client.call_async(order)
        future.add_done_callback(lambda _: answered.set())
        if not answered.wait(timeout_s):
            raise PlannerError(ErrorCode.SERVER_UNREACHABLE, f"/{robot} did not answer within {timeout_s:g} s")
        response = future.result()
        if not response.accepted:
            raise PlannerError(ErrorCode(response.error_code), response.error_msg)

    def outcome(self, tag: str, timeout_s: float) -> msgs.PlanOutcome | None:
        """Waits for the outcome with this tag and returns it, once; None after ``timeout_s``."""
        with self._outcome_came:
            self._outcome_came.wait_for(lambda: tag in self._outcomes, timeout_s)
            return self._outcomes.pop(tag, None)

    def _on_outcome(self, outcome: msgs.PlanOutcome) -> None:
        with self._outcome_came:
            self._outcomes[outcome.tag] = outcome
            self._outcome_came.notify_all()

    def _on_status(self, status: msgs.PlannerStatus) -> None:
        self._status = status
        self._changed.set()
