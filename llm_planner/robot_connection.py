# SPDX-License-Identifier: Apache-2.0
"""Which body a robot node has: none (kinematic), or a real one, by name; connected once, for all worlds to come."""

import ipaddress
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.robots.driver import skills_with
from llm_planner.robots.drivers import indy7, tello
from llm_planner.robots.drivers.indy7 import ArmPort, GrippingPort, Indy7Driver
from llm_planner.robots.drivers.indy7_neuromeka import open_indy7
from llm_planner.robots.drivers.tello import TelloDriver
from llm_planner.robots.drivers.tello_connection import TelloConnection
from llm_planner.robots.drivers.tello_sockets import TelloSockets
from llm_planner.robots.model import Pose, RobotKind, RobotModel
from llm_planner.robots.own_driver import OwnRobot, is_own, load_driver
from llm_planner.robots.robot_driver import RobotDriver
from llm_planner.robots.shape import ChainBody
from llm_planner.robots.timing import Source
from llm_planner.robots.world import World
from llm_planner.sim.kinematics import KinematicDriver


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSettings:
    """Which driver, and what it needs.

    Attributes:
        name: One of ``DRIVERS``, or ``package.module:Class`` (``robots.own_driver``).
        address: Of the robot.
        takes_off: Whether a drone takes off as soon as its node is there (``ros.body.first_skill``).
        time_scale: How much faster than real time the robot runs.
        tool_length_m: Of an arm's gripper beyond its flange; 0 if there is none, or the robot model knows it.
        takes_worlds: Whether an instruction may say what there is around a real robot, and where it is.
        seed: Of the noise of a kinematic robot.
    """

    name: str = "kinematic"
    address: str = ""
    takes_off: bool = False
    time_scale: float = 1.0
    tool_length_m: float = 0.0
    takes_worlds: bool = False
    seed: int = 0


class RobotConnection(Protocol):
    """A robot, whatever world it is told about."""

    @property
    def takes_worlds(self) -> bool:
        """Whether an instruction may put it into a world: a simulated robot is wherever a world says that it is."""
        ...

    @property
    def unsupported_skills(self) -> frozenset[str]:
        """Skills of its model that it cannot carry out."""
        ...

    def enter(self, world: World, pose: Pose | None, epoch_s: float, /) -> RobotDriver:
        """Returns the driver for a world; the one before is used no more.

        Args:
            world: What there is.
            pose: Where the robot is, if the caller knows better than the robot.
            epoch_s: The robot's time (the clock times ``time_scale``) at the world's time 0.
        """
        ...

    def close(self) -> None:
        """Makes the robot safe and lets it go."""
        ...


class KinematicConnection:
    """A robot without a body: it is wherever a world says that it is."""

    takes_worlds = True
    unsupported_skills: frozenset[str] = frozenset()

    def __init__(self, model: RobotModel, seed: int) -> None:
        self._model = model
        self._rng = random.Random(seed)

    def enter(self, world: World, pose: Pose | None, _epoch_s: float, /) -> RobotDriver:
        """Returns a driver that starts at the pose."""
        return KinematicDriver(self._model, world, self._rng, pose=pose)

    def close(self) -> None:
        """Does nothing."""


class TelloRobot:
    """A drone that is connected; it stays where it is when the world changes, only the map is another."""

    def __init__(self, model: RobotModel, settings: DriverSettings, clock: Clock) -> None:
        self._tello = TelloConnection(
            model,
            TelloSockets(settings.address),
            clock=clock,
            time_scale=settings.time_scale,
            takes_off=settings.takes_off,
        )
        self.takes_worlds = settings.takes_worlds
        self.unsupported_skills = skills_with(model, tello.UNSUPPORTED)
        self._driver = TelloDriver(model, self._tello.line, pose=self._tello.pose, speed_cm_s=self._tello.speed_cm_s)

    def enter(self, world: World, pose: Pose | None, epoch_s: float, /) -> RobotDriver:
        """Returns the drone's driver with another map."""
        self._driver.enter(world, pose, epoch_s)
        return self._driver

    def close(self) -> None:
        """Lands, as well as can be done without waiting: a drone that gets no commands lands by itself after 15 s."""
        self._tello.line.say_goodbye()  # whatever it is believed to do: on the floor, an order to land does nothing
        self._tello.line.close()


class Indy7Robot:
    """An arm that is connected; it stays where it is when the world changes, only the map is another."""

    def __init__(self, model: RobotModel, port: ArmPort, *, tool_length_m: float, takes_worlds: bool = False) -> None:
        from llm_planner.robots.drivers.indy7_kinematics import Indy7Kinematics  # loads scipy

        self.takes_worlds = takes_worlds
        self._port = port
        needs = () if isinstance(port, GrippingPort) else indy7.NEEDS_GRIPPER
        self.unsupported_skills = skills_with(model, (*indy7.UNSUPPORTED, *needs))
        self._driver = Indy7Driver(model, port, Indy7Kinematics(tool_length_m))

    def enter(self, world: World, _pose: Pose | None, _epoch_s: float, /) -> RobotDriver:
        """Returns the arm's driver with another map; where it is, its joints say."""
        self._driver.enter(world)
        return self._driver

    def close(self) -> None:
        """Stops the arm and lets it go."""
        self._port.close()


DRIVERS = ("kinematic", "tello", "indy7")
NODE_DRIVERS = ("indy7_trajectory", "mujoco", "gazebo")
"""Those that ``ros.body`` connects: an arm through ROS 2's controllers, a body in ``ros.world_node``, one in Gazebo."""


def connect(model: RobotModel, settings: DriverSettings, clock: Clock) -> RobotConnection:
    """Returns the robot, connected; that may take some seconds.

    Raises:
        PlannerError: INVALID_CONFIG for settings that do not fit together, or whatever the robot's connection says.
    """
    if is_own(settings.name):
        require_real_time(settings.time_scale)
        ignored = [("take_off", settings.takes_off), ("tool_length_m", settings.tool_length_m)]
        if useless := [parameter for parameter, value in ignored if value]:
            raise _invalid(f"driver {settings.name!r} is a class of your own, which is not told {' or '.join(useless)}")
        driver = load_driver(settings.name, model, settings.address)
        return OwnRobot(model, driver, takes_worlds=settings.takes_worlds)
    if settings.name not in DRIVERS:
        known = ", ".join((*DRIVERS, *NODE_DRIVERS))
        raise _invalid(f"there is no driver {settings.name!r}; known are: {known}, or name one: package.module:Class")
    if settings.name == "kinematic":
        if settings.address:
            raise _invalid(
                f"a kinematic robot has no address; to drive the robot at {settings.address!r}, name its driver: "
                f"driver {' or '.join(_REAL)}"
            )
        return KinematicConnection(model, settings.seed)
    _check_address(settings)
    kind, build = _REAL[settings.name]
    require_kind(settings.name, kind, model)
    return build(model, settings, clock)


def require_kind(driver: str, kind: RobotKind, model: RobotModel) -> None:
    """Refuses a robot model that a driver cannot move.

    Raises:
        PlannerError: INVALID_CONFIG.
    """
    if model.kind is not kind:
        names = (driver, kind.value, model.name, model.kind.value)
        raise _invalid("driver {!r} moves robots of kind {}, and {!r} is of kind {}; set robot_model".format(*names))


def require_real_time(time_scale: float) -> None:
    """Refuses a time scale that no real robot has.

    Raises:
        PlannerError: INVALID_CONFIG.
    """
    if time_scale != 1.0:
        raise _invalid(f"time_scale is {time_scale:g}, but a real robot runs in real time; set it to 1")


def _indy7(model: RobotModel, settings: DriverSettings, _clock: Clock) -> RobotConnection:
    length_m, percent = settings.tool_length_m or _tool_length_m(model), indy7.speed_percent(model)
    if percent < 1:
        raise _invalid(f"robot model {model.name!r} allows less than 1 % of an Indy7's speed, the least that it has")
    port = open_indy7(settings.address, percent)
    return Indy7Robot(model, port, tool_length_m=length_m, takes_worlds=settings.takes_worlds)


def _tool_length_m(model: RobotModel) -> float:
    """Returns how long the gripper is beyond the flange by the model.

    Raises:
        PlannerError: INVALID_CONFIG if the model says nothing, or only assumes it: the fingers would hit the table.
    """
    from llm_planner.robots.drivers.indy7_kinematics import FLANGE_M

    if isinstance(model.body, ChainBody):
        length = model.body.tool.length_m
        if length.source is not Source.ASSUMED and length.value > FLANGE_M:
            return length.value - FLANGE_M
    raise _invalid(
        "driver 'indy7' must know how long the gripper is: set tool_length_m (--tool-length), in m from the flange to "
        "the middle of the fingers, or body.tool.length_m of the robot model, with a source that is not 'assumed'"
    )


_REAL: dict[str, tuple[RobotKind, Callable[[RobotModel, DriverSettings, Clock], RobotConnection]]] = {
    "tello": (RobotKind.DRONE, TelloRobot),
    "indy7": (RobotKind.ARM, _indy7),
}


def _check_address(settings: DriverSettings) -> None:
    try:
        address = ipaddress.IPv4Address(settings.address)
    except ValueError as error:
        raise _invalid(f"driver {settings.name!r} needs the robot's address, such as 192.168.10.1: {error}") from error
    if not address.is_loopback:
        require_real_time(settings.time_scale)


def _invalid(problem: str) -> PlannerError:
    return PlannerError(ErrorCode.INVALID_CONFIG, problem)
