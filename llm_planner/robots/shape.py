# SPDX-License-Identifier: Apache-2.0
"""The body of a robot as data: masses, primitive shapes, rotors, joints. MJCF, SDF and URDF are made from it.

Frames are those of ROS REP 103 (x forward, y left, z up); every number says where it comes from.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Discriminator

from llm_planner.robots.record import Record, require
from llm_planner.robots.timing import Parameter, Source

Point = tuple[float, float, float]
GRAVITY_M_PER_S2 = 9.81
_NUM_SIZES = {"box": 3, "cylinder": 2, "sphere": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape(Record):
    """A primitive solid of even density, in the frame of its link.

    Attributes:
        size_m: Box: length along x, y, z. Cylinder: radius, and length along z. Sphere: radius.
        at_m: Of its centre.
        rpy_deg: Roll, pitch and yaw about fixed axes, as in URDF.
        colour: Red, green, blue; 0-1.
    """

    kind: Literal["box", "cylinder", "sphere"]
    size_m: tuple[float, ...]
    at_m: Point = (0.0, 0.0, 0.0)
    rpy_deg: Point = (0.0, 0.0, 0.0)
    colour: Point = (0.7, 0.7, 0.7)

    def __post_init__(self) -> None:
        needed = _NUM_SIZES[self.kind]
        require(len(self.size_m) == needed, f"a {self.kind} has {needed} sizes, got {len(self.size_m)}")
        require(all(size > 0 for size in self.size_m), "sizes must be > 0")
        require(all(0 <= share <= 1 for share in self.colour), "colour must be three numbers in [0, 1]")

    @property
    def volume_m3(self) -> float:
        """Volume, by which the mass of a link is shared among its shapes."""
        if self.kind == "box":
            return math.prod(self.size_m)
        radius_m = self.size_m[0]
        return math.pi * radius_m**2 * (self.size_m[1] if self.kind == "cylinder" else 4.0 / 3.0 * radius_m)

    @property
    def radius_m(self) -> float:
        """Radius of the sphere around its centre that holds it."""
        if self.kind == "box":
            return math.hypot(*self.size_m) / 2.0
        return math.hypot(self.size_m[0], self.size_m[1] / 2.0) if self.kind == "cylinder" else self.size_m[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Link(Record):
    """One rigid part.

    Attributes:
        source: Of its shapes.
    """

    mass_kg: Parameter
    shapes: tuple[Shape, ...]
    source: Source

    def __post_init__(self) -> None:
        require(self.mass_kg.value > 0, "mass_kg must be > 0")
        require(bool(self.shapes), "a link needs a shape")

    @property
    def radius_m(self) -> float:
        """Radius of the sphere around the link's origin that holds it."""
        return max(math.hypot(*shape.at_m) + shape.radius_m for shape in self.shapes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotors(Record):
    """Four rotors in a cross, two turning each way.

    Attributes:
        at_m: Their distance from the centre along x and along y, and their height.
        thrust_n: The most that one of them pushes.
        torque_m: Reaction torque per thrust.
        lag_s: Time constant of their thrust.
    """

    at_m: Point
    radius_m: Parameter
    thrust_n: Parameter
    torque_m: Parameter
    lag_s: Parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight(Record):
    """How it flies what it is told.

    Attributes:
        speed_m_per_s: Of every motion.
        tilt_deg: The most that it leans.
        latency_s: From an order to the beginning of a motion, the median; log-normal with ``latency_sigma``.
        stop_latency_s: From the order to stop to braking.
        settle_m: It has arrived when it is so near, and slow.
        drift_share: Standard deviation of the odometry's error after one metre, in metres; a random walk.
        drift_deg_per_s: The same of its heading, in degrees after one second.
        endurance_s: How long it flies with a full battery.
        reserve_share: Of the battery, below which it lands where it is.
        proximity_m: How far it notices what moves around it; 0 if it has no such sensor.
        proximity_hz: How often.
    """

    speed_m_per_s: Parameter
    acceleration_m_per_s2: Parameter
    turn_deg_per_s: Parameter
    turn_deg_per_s2: Parameter
    tilt_deg: Parameter
    latency_s: Parameter
    latency_sigma: Parameter
    stop_latency_s: Parameter
    settle_m: Parameter
    drift_share: Parameter
    drift_deg_per_s: Parameter
    endurance_s: Parameter
    reserve_share: Parameter
    proximity_m: Parameter
    proximity_hz: Parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class QuadrotorBody(Record):
    """A drone: one link and four rotors.

    Attributes:
        camera_at_m: Where the camera is, in the link.
    """

    kind: Literal["quadrotor"] = "quadrotor"
    link: Link
    rotors: Rotors
    flight: Flight
    camera_at_m: Point

    def __post_init__(self) -> None:
        weight_n, flight = self.link.mass_kg.value * GRAVITY_M_PER_S2, self.flight
        require(
            4.0 * self.rotors.thrust_n.value >= 1.3 * weight_n,
            f"four rotors of {self.rotors.thrust_n.value:g} N do not lift {weight_n:.2f} N with 30 % to spare",
        )
        x, y, _ = self.rotors.at_m
        require(min(x, y) >= self.rotors.radius_m.value, "the rotors would hit each other: move them apart (at_m)")
        require(0 < flight.tilt_deg.value < 60, "tilt_deg must be in (0, 60)")
        leant = GRAVITY_M_PER_S2 * math.tan(math.radians(flight.tilt_deg.value))
        require(
            0 < flight.acceleration_m_per_s2.value <= leant,
            f"leaning by {flight.tilt_deg.value:g} degrees gives {leant:.1f} m/s2, less than the acceleration",
        )
        positive = (flight.speed_m_per_s, flight.turn_deg_per_s, flight.turn_deg_per_s2, flight.settle_m)
        require(all(p.value > 0 for p in (*positive, flight.endurance_s)), "speeds, settle_m, endurance_s must be > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint(Record):
    """A joint that turns about its z axis, and the link behind it.

    Attributes:
        at_m: Its frame in that of the joint before, with ``rpy_deg``.
        limit_deg: How far it turns, both ways.
        home_deg: Where it stands when the arm starts.
    """

    name: str
    at_m: Point
    rpy_deg: Point
    limit_deg: Parameter
    speed_deg_per_s: Parameter
    torque_nm: Parameter
    home_deg: float
    link: Link

    def __post_init__(self) -> None:
        require(abs(self.home_deg) <= self.limit_deg.value, f"joint {self.name}: home_deg is beyond limit_deg")
        require(self.speed_deg_per_s.value > 0 and self.torque_nm.value > 0, "speed and torque must be > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Record):
    """A gripper on the last joint's z axis.

    Attributes:
        length_m: From the last joint to the middle of the finger tips.
        opening_m: Between the open fingers.
        closing_s: How long they take.
        payload_kg: The heaviest thing that the arm lifts.
    """

    length_m: Parameter
    opening_m: Parameter
    closing_s: Parameter
    payload_kg: Parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainBody(Record):
    """An arm: a base that stands, joints one after the other, and a gripper.

    Attributes:
        speed_share: Of the joints' speed that is used.
        acceleration_deg_per_s2: Of every joint.
        latency_s: From an order to the beginning of a motion.
        settle_deg: It has arrived when every joint is so near.
    """

    kind: Literal["chain"] = "chain"
    base: Link
    joints: tuple[Joint, ...]
    tool: Tool
    speed_share: Parameter
    acceleration_deg_per_s2: Parameter
    latency_s: Parameter
    settle_deg: Parameter

    def __post_init__(self) -> None:
        names = [joint.name for joint in self.joints]
        require(bool(names) and len(set(names)) == len(names), "an arm needs joints of different names")
        require(0 < self.speed_share.value <= 1, "speed_share must be in (0, 1]")

    @property
    def reach_m(self) -> float:
        """How far the tool comes from the second joint with all links in line: more than that is impossible."""
        return sum(math.hypot(*joint.at_m) for joint in self.joints[1:]) + self.tool.length_m.value


BodyShape = Annotated[QuadrotorBody | ChainBody, Discriminator("kind")]
