# SPDX-License-Identifier: Apache-2.0
"""Worlds as data: ``worlds/<name>.yaml`` says what stands where, what walks about, and where robots begin."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.resources import share_dir
from llm_planner.documents import DocumentError, read_yaml, validated
from llm_planner.robots.record import Record, require
from llm_planner.robots.shape import Point, Shape
from llm_planner.robots.world import ObjectRole, WorldObject
from llm_planner.sim.physics.frame import Home
from llm_planner.sim.physics.things import Thing, Walk

APART_M = 24.0  # more than two geofences' halves: on stages of their own, robots never meet
TABLE_M = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldBody(Record):
    """Something that stands, or lies, in a world.

    Attributes:
        at_m: Of the centre of a box, or the origin of ``parts``.
        size_m: Of a box; left out with ``parts``.
        parts: Solids that it is made of.
        is_loose: Whether it can be moved.
        role: What robots take it for.
    """

    name: str
    at_m: Point
    size_m: Point | None = None
    parts: tuple[Shape, ...] = ()
    kind: str = ""
    tags: tuple[str, ...] = ()
    yaw_deg: float = 0.0
    is_loose: bool = False
    role: ObjectRole = ObjectRole.THING
    colour: Point = (0.75, 0.73, 0.7)

    def __post_init__(self) -> None:
        is_place = self.role is ObjectRole.AREA
        require((self.size_m is None) == bool(self.parts), f"{self.name}: give size_m or parts")
        require(all(0.0 <= c <= 1.0 for c in self.colour), f"{self.name}: colour must be three numbers in [0, 1]")
        smallest = 0.0 if is_place else 1e-3
        require(self.size_m is None or min(self.size_m) >= smallest, f"{self.name}: sizes must be > 0")

    def thing(self) -> Thing:
        """Returns it as a thing."""
        shapes = self.parts
        if self.size_m is not None and self.role is ObjectRole.THING:
            shapes = (Shape(kind="box", size_m=self.size_m, colour=self.colour),)
        known = WorldObject(
            name=self.name,
            kind=self.kind,
            tags=self.tags,
            position_m=self.at_m,
            size_m=self.size_m or _extent(self.parts, self.yaw_deg),
            role=self.role,
            is_fixed=not self.is_loose,
        )
        return Thing(body=f":{self.name}", known=known, shapes=shapes, yaw_deg=self.yaw_deg, is_loose=self.is_loose)


@dataclass(frozen=True, slots=True, kw_only=True)
class Walker(Record):
    """A person, an animal or a ball that goes its own way.

    Attributes:
        corners_m: Of its way; its centre.
        is_repeated: Whether it goes back and forth for ever.
    """

    name: str
    kind: str
    size_m: Point
    corners_m: tuple[Point, ...]
    speed_m_per_s: float
    start_s: float = 0.0
    is_repeated: bool = False

    def __post_init__(self) -> None:
        require(len(self.corners_m) >= 2, f"{self.name}: corners_m needs two points or more")
        require(self.speed_m_per_s > 0 and min(self.size_m) > 0, f"{self.name}: speed and sizes must be > 0")

    def thing(self) -> Thing:
        """Returns it as a thing."""
        known = WorldObject(name=self.name, kind=self.kind, position_m=self.corners_m[0], size_m=self.size_m)
        walk = Walk(self.corners_m, self.speed_m_per_s, self.start_s, self.is_repeated)
        return Thing(body=f":{self.name}", known=known, walk=walk)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place(Record):
    """Where a robot begins; an arm stands on a table of that height."""

    x_m: float
    y_m: float
    z_m: float = 0.0
    yaw_deg: float = 0.0

    @property
    def home(self) -> Home:
        """The same as a home."""
        return Home(x_m=self.x_m, y_m=self.y_m, z_m=self.z_m, yaw_deg=self.yaw_deg)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldFile(Record):
    """A world: bodies, walkers, and places for drones and arms, in the order in which robots come."""

    name: str
    description: str
    drones: tuple[Place, ...] = ()
    arms: tuple[Place, ...] = ()
    bodies: tuple[WorldBody, ...] = ()
    walkers: tuple[Walker, ...] = ()
    schema_version: Literal[1] = 1

    def __post_init__(self) -> None:
        names = [body.name for body in self.bodies] + [walker.name for walker in self.walkers]
        doubles = sorted({name for name in names if names.count(name) > 1})
        require(not doubles, f"names must differ; given twice: {', '.join(doubles)}")

    @property
    def things(self) -> list[Thing]:
        """All that there is."""
        return [body.thing() for body in self.bodies] + [walker.thing() for walker in self.walkers]


_ADAPTER = TypeAdapter(WorldFile)


def world_names() -> tuple[str, ...]:
    """Returns the names of the bundled worlds."""
    return tuple(sorted(path.stem for path in (share_dir() / "worlds").glob("*.yaml")))


def load_world_file(name: str) -> WorldFile:
    """Returns a world by the name of a bundled one, or by the path of its YAML file.

    Raises:
        PlannerError: INVALID_CONFIG for a name of none; INVALID_FILE, with the file and the path of every key that is
            unknown, missing or wrong.
    """
    path = share_dir() / "worlds" / f"{name}.yaml" if name in world_names() else Path(name).expanduser()
    if not (path.is_file() or path.suffix):
        known = ", ".join(world_names())
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"no world {name!r}; known are {known}, or give a YAML file")
    try:
        return validated(_ADAPTER, read_yaml(path))
    except DocumentError as error:
        raise PlannerError(ErrorCode.INVALID_FILE, f"{path} {error}") from error


def home_of(world_file: WorldFile | None, *, is_arm: bool, number: int) -> Home:
    """Returns where the drone, or arm, of a number begins.

    Raises:
        PlannerError: INVALID_CONFIG if the world has no place for it.
    """
    if world_file is None:
        return Home(x_m=APART_M * number, y_m=APART_M if is_arm else 0.0, z_m=TABLE_M if is_arm else 0.0)
    places = world_file.arms if is_arm else world_file.drones
    if number >= len(places):
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"world {world_file.name} has places for {len(world_file.drones)} drones and {len(world_file.arms)} arms; "
            "ask for fewer robots or another world",
        )
    return places[number].home


def _extent(parts: tuple[Shape, ...], yaw_deg: float) -> Point:
    """Returns the size of a box along the axes that holds all parts; parts are taken as upright."""
    lows, highs = [math.inf] * 3, [-math.inf] * 3
    for part in parts:
        radius_m = part.size_m[0]
        half = {
            "box": [size / 2 for size in part.size_m],
            "cylinder": [radius_m, radius_m, part.size_m[-1] / 2],
            "sphere": [radius_m] * 3,
        }[part.kind]
        for axis in range(3):
            lows[axis] = min(lows[axis], part.at_m[axis] - half[axis])
            highs[axis] = max(highs[axis], part.at_m[axis] + half[axis])
    x, y, z = (2 * max(-low, high) for low, high in zip(lows, highs, strict=True))
    c, s = abs(math.cos(math.radians(yaw_deg))), abs(math.sin(math.radians(yaw_deg)))
    return c * x + s * y, s * x + c * y, z
