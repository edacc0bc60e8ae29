# SPDX-License-Identifier: Apache-2.0
"""Tells robot nodes what to do, and receives how it went: what a person's console, a script or the demo needs."""

import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rclpy.client import Client
from rclpy.node import Node

import llm_planner.msg as msgs
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.ros import qos
from llm_planner.ros.conversions import to_error
from llm_planner.ros.graph import planner_asked_by, published, robot_nodes
from llm_planner.srv import Instruct, Stop

POLL_S, LOOK_S = 0.1, 0.005
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*")
ANSWER_S = 5.0  # for a robot to answer
PLANNER_TYPE = "llm_planner/msg/PlannerStatus"
UP = "`llm-planner up`"
COMPARE = "or compare ROS_DOMAIN_ID"
SIGN_OF_LIFE_S = 30.0  # to find a robot or a planner, which may have been started just now
EMPTY_S = 10.0  # to find any node of this project
DISCOVERY_S = 3.0  # to find what is running already
GONE_S = 2.0  # after which a node that has left the ROS graph has ended
SILENT_S = 10.0  # a status comes twice a second


class _Lack(NamedTuple):
    """Why an instruction has to wait.

    Attributes:
        what: What is being waited for, in words.
        error: How it ends when the wait is over.
        name: Full name of a node that is not found; empty if all were found.
    """

    what: str
    error: PlannerError
    name: str = ""


class Commander:
    """A console for some robots. Its node is spun by the caller (``ros.spinning``); all methods may block.

    Args:
        node: Spun in the background.
        robots: Names of the robot nodes.
        planner: Full name of the planner node.
        clock: Source of monotonic time.
    """

    def __init__(
        self, node: Node, robots: Sequence[str], *, planner: str = "/planner", clock: Clock | None = None
    ) -> None:
        self._node = node
        self._clock = clock or MonotonicClock()
        self._planner = planner
        self._clients = {robot: node.create_client(Instruct, f"/{robot}/instruct") for robot in robots}
        self._stops = {robot: node.create_client(Stop, f"/{robot}/stop") for robot in robots}
        self._seen_at_s: dict[str, float] = {}  # node -> when the ROS graph last knew it
        self._asked: dict[str, str] = {}  # tag of an instruction -> robot
        self._outcomes: dict[str, msgs.PlanOutcome] = {}
        self._earlier: dict[str, list[msgs.SegmentOutcome]] = {}  # by tag, of plans that asked for a new one
        self._outcome_came = threading.Condition()
        self._status: msgs.PlannerStatus | None = None
        self._status_at_s = self._clock.now_s()
        self._changed = threading.Event()
        for robot in robots:
            node.create_subscription(msgs.PlanOutcome, f"/{robot}/outcome", self._on_outcome, qos.OUTCOMES)
        node.create_subscription(msgs.PlannerStatus, f"{planner}/status", self._on_status, qos.STATUS)

    @property
    def status(self) -> msgs.PlannerStatus | None:
        """The planner's last word; None before the first."""
        return self._status

    def wait_until_ready(
        self,
        timeout_s: float,
        *,
        sign_of_life_s: float = SIGN_OF_LIFE_S,
        on_wait: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Waits for all robots and an active planner.

        A node that was found and has left the ROS graph is not waited for.

        Args:
            timeout_s: For a planner that runs and takes no goals yet.
            sign_of_life_s: For nodes that are not found: there may be none of that name.
            on_wait: Called ten times a second with what is being waited for.

        Raises:
            PlannerError: SERVER_UNREACHABLE for a node that is not there, NOT_ACTIVE for a planner that takes no goals.
        """
        begun_at_s = self._clock.now_s()
        while (lack := self._lack()) is not None:
            now_s = self._clock.now_s()
            if not lack.name:
                is_over = now_s - begun_at_s >= timeout_s
            elif (seen_at_s := self._seen_at_s.get(lack.name)) is not None:
                is_over = now_s - seen_at_s >= GONE_S
            else:
                is_over = _is_search_over(self._node, now_s - begun_at_s, sign_of_life_s)
            if is_over:
                raise lack.error
            on_wait(lack.what)
            self._changed.wait(POLL_S)
            self._changed.clear()

    def _lack(self) -> _Lack | None:
        """Returns what an instruction would fail for now; None if all is well."""
        for robot in self._clients:
            if not self._is_seen(robot):
                error = _robot_ended(robot) if f"/{robot}" in self._seen_at_s else _no_robot(self._node, robot)
                return _Lack(_looking_for(self._node, robot), error, f"/{robot}")
        status, planner = self._status, self._planner
        now_s = self._clock.now_s()
        if status is not None and now_s - self._status_at_s <= SILENT_S and self._has_planner():
            self._seen_at_s[planner] = self._status_at_s
        elif status is None:
            error = PlannerError(
                ErrorCode.SERVER_UNREACHABLE, f"no planner {planner} is running; start it with {UP}, {COMPARE}"
            )
            return _Lack(f"looking for planner {planner}", error, planner)
        else:
            return _Lack(f"planner {planner} has gone", _ended(f"planner {planner}", UP), planner)
        if status.state == msgs.PlannerStatus.LOADING:
            what = f"planner {planner} is loading {status.model}"
            hint = "give it longer (e.g. `llm-planner send --wait 300`), or look into its log"
        elif status.state != msgs.PlannerStatus.ACTIVE:
            what = f"planner {planner} is inactive"
            hint = f"activate it: `ros2 lifecycle set {planner} activate`"
        else:
            return None
        return _Lack(what, PlannerError(ErrorCode.NOT_ACTIVE, f"{what}; {hint}"))

    def _is_seen(self, robot: str) -> bool:
        """Returns whether the ROS graph knows a robot node now, and notes when it did."""
        if is_seen := self._clients[robot].service_is_ready():
            self._seen_at_s[f"/{robot}"] = self._clock.now_s()
        return is_seen

    def _has_planner(self) -> bool:
        return self._node.count_publishers(f"{self._planner}/status") > 0

    def instruct(self, robot: str, order: Instruct.Request, *, timeout_s: float = ANSWER_S) -> None:
        """Tells a robot what to do; an outcome with ``order.tag`` will follow.

        Raises:
            PlannerError: SERVER_UNREACHABLE if the robot does not answer, or its reason not to accept.
        """
        self._asked[order.tag] = robot
        response = _answer(self._node, robot, self._clients[robot], order, timeout_s)
        if not response.accepted:
            raise PlannerError(*to_error(response.error_code, response.error_msg))

    def stop(self, robot: str, reason: str = "", *, timeout_s: float = ANSWER_S) -> Stop.Response:
        """Halts a robot and ends its goals; returns what it was doing.

        Raises:
            PlannerError: SERVER_UNREACHABLE if the robot does not answer, SKILL_FAILED if it could not halt.
        """
        return stop_robot(self._node, robot, self._stops[robot], reason, timeout_s)

    def outcome(self, tag: str, timeout_s: float) -> msgs.PlanOutcome | None:
        """Waits for the last outcome with this tag and returns it, once; None after ``timeout_s``.

        It has the segments of all plans that the instruction took.

        Raises:
            PlannerError: SERVER_UNREACHABLE if the robot leaves the ROS graph meanwhile: no outcome will come.
        """
        robot, begun_at_s = self._asked.get(tag), self._clock.now_s()
        while True:
            with self._outcome_came:
                if self._outcome_came.wait_for(lambda: tag in self._outcomes, min(POLL_S, timeout_s)):
                    return self._outcomes.pop(tag)
            now_s = self._clock.now_s()
            if robot and not self._is_seen(robot) and now_s - self._seen_at_s.get(f"/{robot}", begun_at_s) >= GONE_S:
                raise _robot_ended(robot)
            if now_s - begun_at_s >= timeout_s:
                return None

    def _on_outcome(self, outcome: msgs.PlanOutcome) -> None:
        with self._outcome_came:
            segments = [*self._earlier.pop(outcome.tag, ()), *outcome.segments]
            if _goes_on(outcome):
                self._earlier[outcome.tag] = segments
                return
            outcome.segments = segments
            self._outcomes[outcome.tag] = outcome
            self._outcome_came.notify_all()

    def _on_status(self, status: msgs.PlannerStatus) -> None:
        self._status, self._status_at_s = status, self._clock.now_s()
        self._changed.set()


def _goes_on(outcome: msgs.PlanOutcome) -> bool:
    """Returns whether the plan asked for a new one, of which another outcome will tell."""
    is_done = outcome.error_code == ErrorCode.NONE and bool(outcome.segments)
    return is_done and not outcome.segments[-1].segment.is_last


def planner_of(
    node: Node,
    robot: str,
    *,
    timeout_s: float = SIGN_OF_LIFE_S,
    on_wait: Callable[[str], None] = lambda _: None,
    clock: Clock | None = None,
) -> str:
    """Returns the full name of the planner that a robot node asks, by the topic that its heartbeats are published on.

    The ROS graph knows it, so there is nothing to ask the robot for. A request that is sent as soon as a
    service is found was in some starts answered 1 to 3 s later only, even if it was sent again.

    Args:
        node: Spun by another thread; this blocks.
        robot: Name of the robot node.
        timeout_s: Within which the robot must be found.
        on_wait: Called ten times a second with what is being waited for.
        clock: Source of monotonic time.

    Raises:
        PlannerError: SERVER_UNREACHABLE if it is not.
    """
    clock = clock or MonotonicClock()
    begun_at_s = clock.now_s()
    looked_at_s = float("-inf")
    while (planner := planner_asked_by(node, robot)) is None:
        if (now_s := clock.now_s()) - looked_at_s >= POLL_S:
            if _is_search_over(node, now_s - begun_at_s, timeout_s):
                raise _no_robot(node, robot)
            on_wait(_looking_for(node, robot))
            looked_at_s = now_s
        time.sleep(LOOK_S)
    return planner


def stop_robot(node: Node, robot: str, client: Client, reason: str, timeout_s: float = ANSWER_S) -> Stop.Response:
    """Halts a robot and returns what it was doing; ``client`` is one of its service ``~/stop``.

    Raises:
        PlannerError: SERVER_UNREACHABLE if the robot does not answer, SKILL_FAILED if it could not halt.
    """
    response: Stop.Response = _answer(node, robot, client, Stop.Request(reason=reason), timeout_s)
    if response.error_code:
        raise PlannerError(*to_error(response.error_code, response.error_msg))
    return response


def robot_name(text: str) -> str:
    """Returns a robot's name as a person types it, or as our messages print it, without the leading slash.

    Raises:
        PlannerError: INVALID_ROBOT_ID if no robot node can have this name.
    """
    name = text.removeprefix("/")
    if _NAME.fullmatch(name) is None:
        hint = "use a name such as drone_1 or /site_b/drone_1: letters, digits and '_', not a digit first"
        raise PlannerError(ErrorCode.INVALID_ROBOT_ID, f"{text[:80]!r} is no robot's name; {hint}")
    return name


def _answer(node: Node, robot: str, client: Client, request: Any, timeout_s: float) -> Any:
    """Returns what a robot node answers; raises SERVER_UNREACHABLE if it does not."""
    if not _is_ready(client, timeout_s):
        raise _no_robot(node, robot)
    answered = threading.Event()
    future = client.call_async(request)
    future.add_done_callback(lambda _: answered.set())
    if not answered.wait(timeout_s):
        hint = "it may still do what it was asked; if it was killed, start it again"
        raise PlannerError(ErrorCode.SERVER_UNREACHABLE, f"/{robot} did not answer within {timeout_s:g} s; {hint}")
    return future.result()


def _is_ready(client: Client, timeout_s: float) -> bool:
    """Waits for a service, and returns whether it is there; rclpy's own ``wait_for_service`` looks every 0.25 s."""
    until_s = time.monotonic() + timeout_s
    while not (is_ready := client.service_is_ready()) and time.monotonic() < until_s:
        time.sleep(LOOK_S)
    return is_ready


def _is_search_over(node: Node, searched_s: float, timeout_s: float) -> bool:
    """Returns whether a node that was not found yet need not be searched for any longer."""
    return searched_s >= timeout_s or (searched_s >= EMPTY_S and not _is_anything_running(node))


def _is_anything_running(node: Node) -> bool:
    """Returns whether the ROS graph knows a robot node or a planner."""
    return bool(published(node, PLANNER_TYPE) or robot_nodes(node))


def _looking_for(node: Node, robot: str) -> str:
    others = ", ".join(sorted(robot_nodes(node)))
    return f"looking for /{robot}; robots here: {others}" if others else f"looking for /{robot}"


def _no_robot(node: Node, robot: str) -> PlannerError:
    others = ", ".join(sorted(robot_nodes(node)))
    hint = f"robots here: {others}" if others else f"start it with {ways_to_start(robot)}, {COMPARE}"
    return PlannerError(ErrorCode.SERVER_UNREACHABLE, f"no robot /{robot} is running; {hint}")


def ways_to_start(robot: str) -> str:
    """Returns the commands with which a person starts a robot of this name."""
    return f"{UP} (drones and arms) or `llm-planner robot {robot} ...`"


def _robot_ended(robot: str) -> PlannerError:
    return _ended(f"robot /{robot}", ways_to_start(robot))


def _ended(what: str, start: str) -> PlannerError:
    return PlannerError(ErrorCode.SERVER_UNREACHABLE, f"{what} has ended; start it again with {start}")
