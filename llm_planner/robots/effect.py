# SPDX-License-Identifier: Apache-2.0
"""What a skill does to the world, as data: the fixed vocabulary that safety gate and kinematic world interpret.

Body frame after ROS REP 103: x forward, y left, z up. The amount of a motion is the skill's number argument; the
objects and places are its identifier arguments, in order.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Discriminator

from llm_planner.robots.record import Record, require


@dataclass(frozen=True, slots=True, kw_only=True)
class Translate(Record):
    """Moves by ``argument * unit_m`` metres along ``axis``, a unit vector in the body frame."""

    kind: Literal["translate"] = "translate"
    axis: tuple[float, float, float]
    unit_m: float

    def __post_init__(self) -> None:
        require(math.isclose(math.hypot(*self.axis), 1.0, abs_tol=1e-6), "axis must have length 1")
        require(self.unit_m > 0, "unit_m must be > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(Record):
    """Turns on the spot by the argument in degrees: ``direction`` 1 counter-clockwise (left), -1 clockwise."""

    kind: Literal["turn"] = "turn"
    direction: Literal[1, -1]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOff(Record):
    """Rises straight up to ``altitude_m``; does nothing in the air."""

    kind: Literal["takeoff"] = "takeoff"
    altitude_m: float

    def __post_init__(self) -> None:
        require(self.altitude_m > 0, "altitude_m must be > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Land(Record):
    """Sinks straight down to the floor; afterwards only a take-off moves the robot."""

    kind: Literal["land"] = "land"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(Record):
    """Stops at once and holds the pose."""

    kind: Literal["stop"] = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay(Record):
    """Holds the pose for the argument in seconds."""

    kind: Literal["delay"] = "delay"


@dataclass(frozen=True, slots=True, kw_only=True)
class Orient(Record):
    """Turns on the spot to face a visible object."""

    kind: Literal["orient"] = "orient"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approach(Record):
    """Moves straight and level until the level distance to a visible object is ``stop_m``; ``max_travel_m`` at most.

    The distance is to its middle, and greater where a large object would be touched.
    """

    kind: Literal["approach"] = "approach"
    stop_m: float
    max_travel_m: float

    def __post_init__(self) -> None:
        require(self.stop_m > 0 and self.max_travel_m > 0, "stop_m and max_travel_m must be > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoTo(Record):
    """Orients, then approaches."""

    kind: Literal["goto"] = "goto"
    stop_m: float
    max_travel_m: float

    def __post_init__(self) -> None:
        require(self.stop_m > 0 and self.max_travel_m > 0, "stop_m and max_travel_m must be > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan(Record):
    """Turns in steps until something is visible; faces whatever it met it at, or the start after ``num_steps``.

    Attributes:
        direction: 1 counter-clockwise, -1 clockwise.
        match: ``name`` looks for the object of that name and returns true or false; ``description`` looks for any
            object that the text describes and returns its name or false.
    """

    kind: Literal["scan"] = "scan"
    step_deg: float
    num_steps: int
    direction: Literal[1, -1] = -1
    match: Literal["name", "description"] = "name"

    def __post_init__(self) -> None:
        require(0 < self.step_deg <= 360, "step_deg must be in (0, 360]")
        require(1 <= self.num_steps <= 360, "num_steps must be in [1, 360]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Perceive(Record):
    """Looks without moving and returns one quantity of an object.

    ``visible`` is a boolean; ``x y width height`` are shares of the picture (0-1, origin at the upper left corner);
    ``distance`` is in units of ``unit_m`` metres. All but ``visible`` fail if the object is not visible.
    """

    kind: Literal["perceive"] = "perceive"
    quantity: Literal["visible", "x", "y", "width", "height", "distance"]
    unit_m: float = 0.01

    def __post_init__(self) -> None:
        require(self.unit_m > 0, "unit_m must be > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Say(Record):
    """Tells the operator a text."""

    kind: Literal["say"] = "say"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask(Record):
    """Asks a question about what the camera sees; returns a text."""

    kind: Literal["ask"] = "ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakePicture(Record):
    """Takes a picture."""

    kind: Literal["picture"] = "picture"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replan(Record):
    """Ends this plan and asks for a new one."""

    kind: Literal["replan"] = "replan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grasp(Record):
    """Grasps an object; fails if the hand is full or the object is invisible, unreachable, fixed or covered."""

    kind: Literal["grasp"] = "grasp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place(Record):
    """Puts the held object (first identifier) on or into another object or area (second identifier)."""

    kind: Literal["place"] = "place"


@dataclass(frozen=True, slots=True, kw_only=True)
class Push(Record):
    """Pushes an object (first identifier) to an area or next to an object (second) with an empty hand."""

    kind: Literal["push"] = "push"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveTool(Record):
    """Moves the tool above an object or area, ``clearance_m`` over its top."""

    kind: Literal["move_tool"] = "move_tool"
    clearance_m: float

    def __post_init__(self) -> None:
        require(self.clearance_m >= 0, "clearance_m must be >= 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Home(Record):
    """Moves to the start pose; what is held stays held."""

    kind: Literal["home"] = "home"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gripper(Record):
    """Opens or closes the gripper; opening drops what is held straight down."""

    kind: Literal["gripper"] = "gripper"
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NoEffect(Record):
    """Takes time and changes nothing."""

    kind: Literal["none"] = "none"


Effect = Annotated[
    Translate
    | Turn
    | TakeOff
    | Land
    | Stop
    | Delay
    | Orient
    | Approach
    | GoTo
    | Scan
    | Perceive
    | Say
    | Ask
    | TakePicture
    | Replan
    | Grasp
    | Place
    | Push
    | MoveTool
    | Home
    | Gripper
    | NoEffect,
    Discriminator("kind"),
]
