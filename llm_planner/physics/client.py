"""A driver's way to a body in another process."""

import socket
from collections.abc import Sequence
from typing import Any

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.physics import wire
from llm_planner.physics.port import Telemetry, require_finite
from llm_planner.physics.server import LOOPBACK
from llm_planner.robots.model import Pose
from llm_planner.robots.world import WorldObject

TIMEOUT_S = 10.0


class RemotePort:
    """A ``DronePort`` or ``ArmPort`` over TCP, as the robot is; used by one thread at a time.

    Args:
        name: Of the robot.
        address: ``port`` or ``host:port`` of the world.

    Raises:
        PlannerError: SERVER_UNREACHABLE if there is no world, DUPLICATE_NODE if the robot has a driver, INVALID_CONFIG
            if the world does not know the robot or the address is none.
    """

    def __init__(self, name: str, address: str) -> None:
        host, _, port = address.rpartition(":")
        if not port.isdigit():
            raise PlannerError(ErrorCode.INVALID_CONFIG, f"{address!r} is no address of a world; give HOST:PORT")
        try:
            self._socket = socket.create_connection((host or LOOPBACK, int(port)), TIMEOUT_S)
        except OSError as error:
            raise PlannerError(
                ErrorCode.SERVER_UNREACHABLE,
                f"no physical world at {address} ({error}); start one with `llm-planner up --sim mujoco`",
            ) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lines = self._socket.makefile("rb")
        try:
            self._say("hello", name)
        except PlannerError:
            self.close()
            raise

    def enter(self, objects: Sequence[WorldObject], pose: Pose) -> float:
        """Clears the robot's stage, puts objects and the robot there; returns the world's time."""
        require_finite(objects, pose)
        return float(self._say("enter", tuple(objects), pose))

    def read(self, _until_s: float) -> Telemetry:
        """Returns the telemetry; the world follows its own clock."""
        telemetry: Telemetry = self._say("read")
        return telemetry

    def look(self) -> tuple[WorldObject, ...]:
        """Returns what is in sight."""
        return tuple(self._say("look"))

    def survey(self) -> tuple[WorldObject, ...]:
        """Returns everything on the robot's stage."""
        return tuple(self._say("survey"))

    def fly(self, target: Pose, turn_deg: float) -> None:
        """Flies a drone straight to a pose, turning meanwhile."""
        self._say("fly", target, turn_deg)

    def take_off(self, altitude_m: float) -> None:
        """Starts a drone's motors and lets it rise."""
        self._say("take_off", altitude_m)

    def land(self) -> None:
        """Lets a drone sink until it touches something."""
        self._say("land")

    def move(self, joints: Sequence[float]) -> None:
        """Brings an arm's joints to angles."""
        self._say("move", tuple(joints))

    def grip(self, *, is_open: bool) -> None:
        """Opens or closes an arm's gripper."""
        self._say("grip", is_open)

    def picture(self) -> str:
        """Takes a picture, if the world keeps any; returns the name of its file."""
        return str(self._say("picture"))

    def stop(self) -> None:
        """Brakes and holds."""
        self._say("stop")

    def close(self) -> None:
        """Makes the robot safe and lets it go; safe to call when the world has gone."""
        self._lines.close()
        self._socket.close()  # the world lands, or stops, whom nobody drives any more

    def _say(self, method: str, *arguments: Any) -> Any:
        try:
            self._socket.sendall(wire.order(method, *arguments))
            line = self._lines.readline(wire.MAX_LINE_BYTES + 1)
        except (OSError, ValueError) as error:
            raise self._gone(str(error)) from error
        if not line:
            raise self._gone("it closed the connection")
        wire.require_whole(line)
        return wire.read_answer(method, line)

    def _gone(self, reason: str) -> PlannerError:
        return PlannerError(ErrorCode.SERVER_UNREACHABLE, f"the physical world has gone ({reason}); start it again")
