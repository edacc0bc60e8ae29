# SPDX-License-Identifier: Apache-2.0
"""An Indy7 through Neuromeka's own library (``neuromeka``, IndyDCP3): gRPC calls that block, in threads of their own.

What is not in the library's documentation is marked as assumed; nothing here was run on an arm.
"""

import logging
import math
import queue
import threading
from collections.abc import Callable
from typing import Any, Protocol

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.robots.tool_path import Joints

_log = logging.getLogger(__name__)
NUM_STOPS = 3
PERIOD_S = 0.05  # between questions to the controller: 20 Hz, as Neuromeka's ROS driver
SPEED_PERCENT = 25  # the speed of the robot model; the library's own default is 15
TIMEOUT_S = 10.0
IDLE, MOVING = 5, 6  # OpState of the library
STATES = {2: "a limit is violated", 7: "it is being taught", 8: "it has collided", 9: "its stop button is pressed"}
NUM_JOINTS = 6
GRIPPER_OUTPUT = 0  # the digital output that closes the gripper: assumed, as wired
STARTS_WITHIN = 20  # questions after an order, until the controller must say that it moves (1 s)


class Dcp3(Protocol):
    """What is used of ``neuromeka.IndyDCP3``."""

    def get_robot_data(self) -> dict[str, Any]:
        """Returns ``q`` in degrees and ``op_state``, among others."""
        ...

    def movej(self, jtarget: list[float], *, vel_ratio: int) -> object:
        """Begins to move, and returns."""
        ...

    def stop_motion(self) -> object:
        """Stops smoothly."""
        ...

    def set_do(self, do_signal_list: list[tuple[int, bool]]) -> object:
        """Sets digital outputs."""
        ...


class NeuromekaPort:
    """A ``GrippingPort``. One thread asks and orders in turn; a stop has a thread of its own and does not wait.

    Args:
        arm: The library's client.

    Raises:
        PlannerError: ROBOT_SILENT if the controller does not answer.
    """

    def __init__(self, arm: Dcp3, *, timeout_s: float = TIMEOUT_S) -> None:
        self._arm = arm
        self._orders: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._joints: Joints | None = None
        self._ending: str | None = ""
        self._num_waited = self._num_stops = 0
        self._has_moved = False
        self._is_closed = threading.Event()
        self._has_message = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="indy7", daemon=True)
        self._thread.start()
        if not self._has_message.wait(timeout_s):
            self._is_closed.set()
            raise PlannerError(
                ErrorCode.ROBOT_SILENT, "the Indy7 does not answer; is its controller on, and its address right?"
            )

    def joints_deg(self) -> Joints | None:
        """Returns the last known positions of the joints."""
        return self._joints

    def move(self, joints_deg: Joints) -> None:
        """Begins to move all joints."""
        with self._lock:
            self._ending, self._num_waited, self._has_moved = None, 0, False
        num_stops = self._num_stops

        def go() -> None:
            if self._num_stops == num_stops:
                self._arm.movej(list(joints_deg), vel_ratio=SPEED_PERCENT)
            if self._num_stops != num_stops:  # a stop has overtaken the order
                self._arm.stop_motion()

        self._orders.put(go)

    def ending(self) -> str | None:
        """Returns how the motion stands."""
        return self._ending

    def stop(self) -> None:
        """Stops the motion at once, past the order that may be on its way."""
        self._num_stops += 1
        threading.Thread(target=self._stop, name="indy7-stop", daemon=True).start()

    def grip(self, *, is_open: bool) -> None:
        """Opens or closes the gripper."""
        self._orders.put(lambda: self._arm.set_do([(GRIPPER_OUTPUT, not is_open)]))

    def close(self) -> None:
        """Stops the arm, and the thread."""
        self.stop()
        self._is_closed.set()
        self._thread.join(2.0)

    def _stop(self) -> None:
        for _ in range(NUM_STOPS):
            try:
                self._arm.stop_motion()
            except Exception:  # noqa: BLE001 (whatever the library throws: try again)
                _log.exception("the arm's controller does not take a stop")
            else:
                return

    def _run(self) -> None:
        while not self._is_closed.wait(PERIOD_S):
            try:
                if not self._orders.empty():
                    self._orders.get_nowait()()
                self._note(self._arm.get_robot_data())
            except Exception as error:  # noqa: BLE001 (whatever the library throws: the arm's state is not known)
                self._fail(f"the arm's controller does not answer: {error!r}"[:200])

    def _note(self, data: dict[str, Any]) -> None:
        joints, state = tuple(float(angle) for angle in data["q"][:NUM_JOINTS]), int(data["op_state"])
        if len(joints) < NUM_JOINTS or not all(map(math.isfinite, joints)):
            raise ValueError(f"q is {data['q']!r}")
        self._joints = joints
        self._has_message.set()
        with self._lock:
            if self._ending is not None:
                return
            self._has_moved |= state == MOVING
            self._num_waited += 1
            if state in STATES:
                self._ending = STATES[state]
            elif state == IDLE and self._has_moved:
                self._ending = ""
            elif state == IDLE and self._num_waited > STARTS_WITHIN:
                self._ending = "the arm does not begin to move"

    def _fail(self, reason: str) -> None:
        with self._lock:
            if self._ending is None:
                self._ending = reason


def open_indy7(address: str) -> NeuromekaPort:
    """Returns the way to an arm's controller.

    Raises:
        PlannerError: INVALID_CONFIG without the library, ROBOT_SILENT if the robot does not answer.
    """
    try:
        from neuromeka import IndyDCP3
    except ImportError as error:
        raise PlannerError(
            ErrorCode.NOT_INSTALLED, f"driver 'indy7' needs the neuromeka library, see docs/robots_indy7.md ({error})"
        ) from error
    return NeuromekaPort(IndyDCP3(robot_ip=address))
