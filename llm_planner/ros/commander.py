"""Tells robot nodes what to do, and hears how it went: what a person's console, a script or the demo needs."""

import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rcl_interfaces.srv import GetParameters
from rclpy.client import Client
from rclpy.node import Node

import llm_planner.msg as msgs
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.ros import qos
from llm_planner.ros.conversions import to_error
from llm_planner.srv import Instruct, Stop

POLL_S = 0.1
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*")
ANSWER_S = 5.0  # for a robot to answer
INSTRUCT_TYPE = "llm_planner/srv/Instruct"
SIGN_OF_LIFE_S = 30.0  # to find a robot or a planner, which may have been started just now
SILENT_S = 10.0  # a status comes twice a second


class _Lack(NamedTuple):
    """Why an instruction has to wait.

    Attributes:
        what: What is being waited for, in words.
        error: How it ends if nobody waits any longer.
    """

    what: str
    error: PlannerError


class Commander:
    """A console for some robots. Its node is spun by somebody else (``ros.spinning``); all methods may block.

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
        self._outcomes: dict[str, msgs.PlanOutcome] = {}
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

        Args:
            timeout_s: For a planner that lives and takes no goals yet.
            sign_of_life_s: For nodes that are not found: nobody may have that name.
            on_wait: Told ten times a second what is being waited for.

        Raises:
            PlannerError: SERVER_UNREACHABLE for a node that is not there, NOT_ACTIVE for a planner that takes no goals.
        """
        begun_at_s = self._clock.now_s()
        while (lack := self._lack()) is not None:
            is_dead = lack.error.code is ErrorCode.SERVER_UNREACHABLE
            if self._clock.now_s() - begun_at_s >= (sign_of_life_s if is_dead else timeout_s):
                raise lack.error
            on_wait(lack.what)
            self._changed.wait(POLL_S)
            self._changed.clear()

    def _lack(self) -> _Lack | None:
        """Returns what an instruction would fail for now; None if all is well."""
        for robot, client in self._clients.items():
            if not client.service_is_ready():
                return _Lack(_looking_for(self._node, robot), _no_robot(self._node, robot))
        status, planner = self._status, self._planner
        if status is None or self._clock.now_s() - self._status_at_s > SILENT_S:
            error = f"no planner {planner} shows life; start one with `llm-planner up`"
            return _Lack(f"looking for planner {planner}", PlannerError(ErrorCode.SERVER_UNREACHABLE, error))
        if status.state == msgs.PlannerStatus.LOADING:
            what = f"planner {planner} is loading {status.model}"
            hint = "give it longer (`llm-planner send --wait`), or look into its log"
        elif status.state != msgs.PlannerStatus.ACTIVE:
            what = f"planner {planner} is inactive"
            hint = f"activate it: `ros2 lifecycle set {planner} activate`"
        else:
            return None
        return _Lack(what, PlannerError(ErrorCode.NOT_ACTIVE, f"{what}; {hint}"))

    def instruct(self, robot: str, order: Instruct.Request, *, timeout_s: float = ANSWER_S) -> None:
        """Tells a robot what to do; an outcome with ``order.tag`` will follow.

        Raises:
            PlannerError: SERVER_UNREACHABLE if the robot does not answer, or its reason not to accept.
        """
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
        """Waits for the outcome with this tag and returns it, once; None after ``timeout_s``."""
        with self._outcome_came:
            self._outcome_came.wait_for(lambda: tag in self._outcomes, timeout_s)
            return self._outcomes.pop(tag, None)

    def _on_outcome(self, outcome: msgs.PlanOutcome) -> None:
        with self._outcome_came:
            self._outcomes[outcome.tag] = outcome
            self._outcome_came.notify_all()

    def _on_status(self, status: msgs.PlannerStatus) -> None:
        self._status, self._status_at_s = status, self._clock.now_s()
        self._changed.set()


def planner_of(
    node: Node, robot: str, *, timeout_s: float = SIGN_OF_LIFE_S, on_wait: Callable[[str], None] = lambda _: None
) -> str:
    """Returns the full name of the planner that a robot node asks: its parameter ``planner``, else ``/planner``.

    Args:
        node: Spun by somebody else; this blocks.
        robot: Name of the robot node.
        timeout_s: Within which the robot must be found.
        on_wait: Told ten times a second what is being waited for.

    Raises:
        PlannerError: SERVER_UNREACHABLE if it is not, or does not answer.
    """
    clock = MonotonicClock()
    begun_at_s = clock.now_s()
    client = node.create_client(GetParameters, f"/{robot}/get_parameters")
    try:
        while not client.wait_for_service(POLL_S) and clock.now_s() - begun_at_s < timeout_s:
            on_wait(_looking_for(node, robot))
        (value,) = _answer(node, robot, client, GetParameters.Request(names=["planner"]), ANSWER_S).values
    finally:
        node.destroy_client(client)
    return str(value.string_value or "/planner")


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


def _answer(node: Node, robot: str, client: Client, request: Any, timeout_s: float) -> Any:  # noqa: ANN401 (a message)
    """Returns what a robot node answers; raises SERVER_UNREACHABLE if it does not."""
    if not client.wait_for_service(timeout_s):
        raise _no_robot(node, robot)
    answered = threading.Event()
    future = client.call_async(request)
    future.add_done_callback(lambda _: answered.set())
    if not answered.wait(timeout_s):
        raise PlannerError(ErrorCode.SERVER_UNREACHABLE, f"/{robot} did not answer within {timeout_s:g} s")
    return future.result()


def _looking_for(node: Node, robot: str) -> str:
    others = _others(node, robot)
    return f"looking for /{robot}; there are {others}" if others else f"looking for /{robot}"


def _no_robot(node: Node, robot: str) -> PlannerError:
    others = _others(node, robot)
    hint = f"there are {others}" if others else "start some with `llm-planner up`"
    return PlannerError(ErrorCode.SERVER_UNREACHABLE, f"no robot node /{robot} answers; {hint}")


def _others(node: Node, robot: str) -> str:
    """Returns the robots that take instructions, but this one; empty if there are none."""
    offered = node.get_service_names_and_types()
    robots = sorted(name.removesuffix("/instruct") for name, types in offered if INSTRUCT_TYPE in types)
    return ", ".join(name for name in robots if name != f"/{robot}")
