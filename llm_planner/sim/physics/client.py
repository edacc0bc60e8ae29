# SPDX-License-Identifier: Apache-2.0
"""A driver's way to a body in another process."""

import logging
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.robots.model import Pose
from llm_planner.robots.world import WorldObject
from llm_planner.sim.physics import wire
from llm_planner.sim.physics.port import Telemetry, require_finite
from llm_planner.sim.physics.server import LOOPBACK

_log = logging.getLogger(__name__)
ANSWER_TIMEOUT_S = 3.0  # then the world is lost
SLOW_ANSWER_TIMEOUT_S = 10.0  # of what the world works on: another stage, a picture
RETRY_S = 0.5
STALLED_S = 5.0  # without the world's time moving
_SLOW = ("hello", "enter", "picture")


class RemotePort:
    """A ``DronePort`` or ``ArmPort`` over TCP, as the robot is; used by one thread at a time.

    A world that does not answer, answers nonsense or is gone is lost: ``read`` says so (``Telemetry.is_lost``) and
    orders do nothing, without waiting. A thread looks for it until it is back. A world that was started again gets the
    robot's stage as it was when the robot entered it last.

    Args:
        name: Of the robot.
        address: ``port`` or ``host:port`` of the world.
        clock: Tells how long the world's time has stood still.

    Raises:
        PlannerError: SERVER_UNREACHABLE if there is no world, DUPLICATE_NODE if the robot has a driver, INVALID_CONFIG
            if the world does not know the robot or the address is none.
    """

    def __init__(self, name: str, address: str, clock: Clock | None = None) -> None:
        host, _, port = address.rpartition(":")
        if not (port.isascii() and port.isdigit()):
            raise PlannerError(ErrorCode.INVALID_CONFIG, f"{address!r} is no address of a world; give HOST:PORT")
        self._name, self._address, self._clock = name, (host or LOOPBACK, int(port)), clock or MonotonicClock()
        self._is_closed = threading.Event()
        self._stage: tuple[tuple[WorldObject, ...], Pose] | None = None
        self._shift_s = 0.0  # from the world's time to that of the world that was entered
        self._last = Telemetry(time_s=0.0, pose=Pose(), is_settled=False, is_lost=True)
        self._survey: tuple[WorldObject, ...] = ()
        self._moved_at_s = self._clock.now_s()
        self._connection: _Connection | None = (first := _Connection(self._address, name))
        self._world_id = first.world_id

    def enter(self, objects: Sequence[WorldObject], pose: Pose) -> float:
        """Clears the robot's stage, puts objects and the robot there; returns the world's time.

        Raises:
            PlannerError: SERVER_UNREACHABLE while the world is lost, else what the world says.
        """
        require_finite(objects, pose)
        stage = (tuple(objects), pose)
        now_s = float(self._say("enter", *stage))
        self._stage, self._shift_s, self._moved_at_s = stage, 0.0, self._clock.now_s()
        return now_s

    def read(self, _until_s: float) -> Telemetry:
        """Returns the telemetry; the world follows its own clock. Of a lost world, the last one, marked as such."""
        try:
            found: Telemetry = self._say("read")
        except PlannerError as error:
            if error.code is not ErrorCode.SERVER_UNREACHABLE:
                raise
            return replace(self._last, is_lost=True, is_settled=False, collisions=(), near=())
        telemetry = replace(found, time_s=found.time_s + self._shift_s)
        now_s = self._clock.now_s()
        if telemetry.time_s != self._last.time_s:
            self._moved_at_s = now_s
        self._last = replace(telemetry, is_lost=now_s - self._moved_at_s > STALLED_S)
        return self._last

    def look(self) -> tuple[WorldObject, ...]:
        """Returns what is in sight; nothing in a lost world."""
        return tuple(self._say_or("look", ()))

    def survey(self) -> tuple[WorldObject, ...]:
        """Returns everything on the robot's stage; of a lost world, as it was last."""
        self._survey = tuple(self._say_or("survey", self._survey))
        return self._survey

    def fly(self, target: Pose, turn_deg: float) -> None:
        """Flies a drone straight to a pose, turning meanwhile."""
        self._say_or("fly", None, target, turn_deg)

    def take_off(self, altitude_m: float) -> None:
        """Starts a drone's motors and lets it rise."""
        self._say_or("take_off", None, altitude_m)

    def land(self) -> None:
        """Lets a drone sink until it touches something."""
        self._say_or("land", None)

    def move(self, joints: Sequence[float]) -> None:
        """Brings an arm's joints to angles."""
        self._say_or("move", None, tuple(joints))

    def grip(self, *, is_open: bool) -> None:
        """Opens or closes an arm's gripper."""
        self._say_or("grip", None, is_open)

    def picture(self) -> str:
        """Takes a picture, if the world keeps any; returns the name of its file.

        Raises:
            PlannerError: SERVER_UNREACHABLE while the world is lost, else what the world says.
        """
        return str(self._say("picture"))

    def stop(self) -> None:
        """Brakes and holds."""
        self._say_or("stop", None)

    def close(self) -> None:
        """Makes the robot safe and lets it go; safe to call when the world has gone."""
        self._is_closed.set()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()  # the world lands, or stops, robots that are no longer driven

    def _say(self, method: str, *arguments: Any) -> Any:
        connection = self._connection
        if connection is None:
            raise PlannerError(ErrorCode.SERVER_UNREACHABLE, "the physical world has gone; start it again")
        try:
            return connection.say(method, *arguments)
        except PlannerError as error:
            if error.code is ErrorCode.SERVER_UNREACHABLE and not self._is_closed.is_set():
                self._lose(connection, error)
            raise

    def _say_or(self, method: str, otherwise: Any, *arguments: Any) -> Any:
        """Returns the world's answer; ``otherwise`` if it is lost, which the next telemetry says."""
        try:
            return self._say(method, *arguments)
        except PlannerError as error:
            if error.code is not ErrorCode.SERVER_UNREACHABLE:
                raise
            return otherwise

    def _lose(self, connection: "_Connection", error: PlannerError) -> None:
        _log.warning("%s: %s", self._name, error)
        self._connection = None
        connection.close()
        threading.Thread(target=self._find, name="world-search", daemon=True).start()

    def _find(self) -> None:
        """Connects again, as soon as there is a world."""
        while not self._is_closed.wait(RETRY_S):
            with suppress(PlannerError):
                self._connect_again()
                return

    def _connect_again(self) -> None:
        found = _Connection(self._address, self._name)
        try:
            if found.world_id != self._world_id and self._stage is not None:
                self._shift_s = self._last.time_s - float(found.say("enter", *self._stage))
        except PlannerError:
            found.close()
            raise
        self._world_id, self._moved_at_s = found.world_id, self._clock.now_s()
        self._connection = found
        if self._is_closed.is_set():  # meanwhile
            found.close()
        _log.warning("%s: the physical world is back", self._name)


class _Connection:
    """One connection to a world that knows the robot.

    Raises:
        PlannerError: SERVER_UNREACHABLE if there is no world or it says nothing that could be understood, else what
            the world says.
    """

    def __init__(self, address: tuple[str, int], name: str) -> None:
        try:
            self._socket = socket.create_connection(address, ANSWER_TIMEOUT_S)
        except OSError as error:
            raise PlannerError(
                ErrorCode.SERVER_UNREACHABLE,
                f"no physical world at {address[0]}:{address[1]} ({error}); "
                "start one with `llm-planner up --sim mujoco`",
            ) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lines = self._socket.makefile("rb")
        try:
            self.world_id = str(self.say("hello", name))
        except PlannerError:
            self.close()
            raise

    def say(self, method: str, *arguments: Any) -> Any:
        """Returns the world's answer to an order."""
        try:
            self._socket.settimeout(SLOW_ANSWER_TIMEOUT_S if method in _SLOW else ANSWER_TIMEOUT_S)
            self._socket.sendall(wire.order(method, *arguments))
            line = self._lines.readline(wire.MAX_LINE_BYTES + 1)
        except (OSError, ValueError) as error:
            raise _gone(str(error)) from error
        if not line.endswith(b"\n"):
            raise _gone("its answer is too long" if len(line) > wire.MAX_LINE_BYTES else "it closed the connection")
        return wire.read_answer(method, line)

    def close(self) -> None:
        """Frees the socket."""
        with suppress(OSError):
            self._lines.close()
        self._socket.close()


def _gone(reason: str) -> PlannerError:
    return PlannerError(ErrorCode.SERVER_UNREACHABLE, f"the physical world has gone ({reason}); start it again")
