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

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.robots.tool_path import Joints

_log = logging.getLogger(__name__)
PERIOD_S = 0.05  # between questions to the controller: 20 Hz, as Neuromeka's ROS driver
PAUSES_S = (0.05, 1.0)  # between orders to stop that the controller does not take: the first, and the longest
CLOSING_S = 1.0  # for the last stop
STALE_S = 1.0  # without an answer for this long, it is unknown where the joints are
TIMEOUT_S = 10.0
IDLE, MOVING = 5, 6  # OpState of the library
STATES = {2: "a limit is violated", 7: "it is being taught", 8: "it has collided", 9: "its stop button is pressed"}
NUM_JOINTS = 6
GRIPPER_OUTPUT = 0  # the digital output that closes the gripper: assumed, as wired
STARTS_WITHIN = 20  # questions after an order, until the controller must say that it moves (1 s)
MOST_CALLS = 4  # of a kind that the controller may keep waiting: then no more are begun, and these go on


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
    """A ``GrippingPort``. One thread asks and moves in turn; a stop and a grip have threads of their own: none waits.

    At first it stops the arm: a node that has crashed may have left it moving.

    Args:
        arm: The library's client.
        speed_percent: Of the joints' speed; the library's own default is 15.
        clock: Tells how old an answer is.

    Raises:
        PlannerError: ROBOT_SILENT if the controller does not answer.
    """

    def __init__(
        self, arm: Dcp3, *, speed_percent: int, timeout_s: float = TIMEOUT_S, clock: Clock | None = None
    ) -> None:
        self._arm, self._speed_percent, self._clock = arm, speed_percent, clock or MonotonicClock()
        self._orders: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._joints: tuple[float, Joints] | None = None  # when they were asked for, and where they were
        self._is_stopping = False  # the last order to the joints is a stop
        self._ending: str | None = ""
        self._is_open = True  # what the gripper was told last
        self._num_grips = self._num_grippers = 0  # orders, and threads
        self._grip_ending: str | None = ""
        self._num_waited = self._num_stops = self._num_stoppers = 0
        self._num_taken = 0  # the last stop that the controller took
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
        self.stop()

    def joints_deg(self) -> Joints | None:
        """Returns where the joints are; None if the controller has not answered lately."""
        if self._joints is None or self._clock.now_s() - self._joints[0] > STALE_S:
            return None
        return self._joints[1]

    def move(self, joints_deg: Joints) -> None:
        """Begins to move all joints, unless a stop overtakes it."""
        with self._lock:
            self._is_stopping, self._ending, self._num_waited, self._has_moved = False, None, 0, False
            num_stops = self._num_stops

        def go() -> None:
            if self._num_stops != num_stops:
                return
            try:
                self._arm.movej(list(joints_deg), vel_ratio=self._speed_percent)
            finally:
                if self._num_stops != num_stops:  # the order may have come after the stop, even where it has failed
                    self.stop()

        self._orders.put(go)

    def ending(self) -> str | None:
        """Returns how the last order stands. A stop ends once the arm has taken it and is then seen not to move."""
        return self._ending

    def stop(self) -> None:
        """Stops the motion at once, past the order that may be on its way."""
        with self._lock:
            self._num_stops += 1
            self._is_stopping, self._ending = True, None
            if self._num_stoppers < MOST_CALLS:
                self._num_stoppers += 1
                self._stopper = threading.Thread(target=self._stop, name="indy7-stop", daemon=True)
                self._stopper.start()

    def grip(self, *, is_open: bool) -> None:
        """Opens or closes the gripper at once; the order has ended once the controller has taken it."""
        with self._lock:
            self._num_grips += 1
            self._is_open, self._grip_ending = is_open, None
            if self._num_grippers < MOST_CALLS:
                self._num_grippers += 1
                threading.Thread(target=self._grip, name="indy7-grip", daemon=True).start()

    def grip_ending(self) -> str | None:
        """Returns how the last order to the gripper stands."""
        return self._grip_ending

    def close(self) -> None:
        """Stops the arm, and the threads."""
        self.stop()
        self._stopper.join(CLOSING_S)
        self._is_closed.set()
        self._thread.join(CLOSING_S)

    def _grip(self) -> None:
        """Gives the gripper its last order; again if there was another meanwhile: the two may have changed places."""
        while True:
            with self._lock:
                number, is_open, ending = self._num_grips, self._is_open, ""
            try:
                self._arm.set_do([(GRIPPER_OUTPUT, not is_open)])
            except Exception as error:  # noqa: BLE001 (whatever the library throws: the order may not have arrived)
                ending = _no_answer(error)
            with self._lock:
                if number == self._num_grips:
                    self._grip_ending = ending
                    self._num_grippers -= 1
                    return

    def _stop(self) -> None:
        """Orders a stop until the controller has taken the last one; where that fails, the newest thread goes on."""
        (pause_s, longest_s), has_failed = PAUSES_S, False
        while True:
            with self._lock:
                number = self._num_stops
                if number == self._num_taken or (has_failed and self._stopper is not threading.current_thread()):
                    self._num_stoppers -= 1
                    return
            try:
                self._arm.stop_motion()
            except Exception as error:  # noqa: BLE001 (whatever the library throws: try again)
                _log.warning("the arm's controller does not take a stop: %r", error)
                if self._is_closed.wait(pause_s):
                    return
                pause_s, has_failed = min(2.0 * pause_s, longest_s), True
            else:
                with self._lock:
                    self._num_taken = max(self._num_taken, number)

    def _run(self) -> None:
        while not self._is_closed.wait(PERIOD_S):
            try:
                if not self._orders.empty():
                    self._orders.get_nowait()()
                asked_s, num_taken = self._clock.now_s(), self._num_taken
                self._note(self._arm.get_robot_data(), asked_s, num_taken)
            except Exception as error:  # noqa: BLE001 (whatever the library throws: the arm's state is not known)
                self._fail(_no_answer(error))

    def _note(self, data: dict[str, Any], asked_s: float, num_taken: int) -> None:
        """Takes an answer, and ends the order that it shows to be over; ``num_taken`` is as of the question."""
        joints, state = tuple(float(angle) for angle in data["q"][:NUM_JOINTS]), int(data["op_state"])
        if len(joints) < NUM_JOINTS or not all(map(math.isfinite, joints)):
            raise ValueError(f"q is {data['q']!r}")
        self._joints = asked_s, joints
        self._has_message.set()
        with self._lock:
            if self._ending is not None:
                return
            if not self._is_stopping:
                self._ending = self._motion_ending(state)
            elif num_taken == self._num_stops and state != MOVING:
                self._ending = ""

    def _motion_ending(self, state: int) -> str | None:
        self._has_moved |= state == MOVING
        self._num_waited += 1
        if state in STATES:
            return STATES[state]
        if state != IDLE or (not self._has_moved and self._num_waited <= STARTS_WITHIN):
            return None
        return "" if self._has_moved else "the arm does not begin to move"

    def _fail(self, ending: str) -> None:
        """Ends a motion; a stop ends only by what is seen."""
        with self._lock:
            if self._ending is None and not self._is_stopping:
                self._ending = ending


def _no_answer(error: Exception) -> str:
    return f"the arm's controller does not answer: {error!r}"[:200]


def open_indy7(address: str, speed_percent: int) -> NeuromekaPort:
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
    return NeuromekaPort(IndyDCP3(robot_ip=address), speed_percent=speed_percent)
