# SPDX-License-Identifier: Apache-2.0
"""What there is besides robots: furniture, loose things, containers, and what walks about by itself."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_planner.robots.motion import wrapped_deg
from llm_planner.robots.shape import Point, Shape
from llm_planner.robots.world import ObjectRole, WorldObject
from llm_planner.sim.physics.frame import Home
from llm_planner.sim.physics.mujoco_loader import load_mujoco
from llm_planner.sim.physics.solids import add_shape, quaternion

Vector = NDArray[np.float64]
DENSITY = 400.0  # kg/m3 of what is loose: soft wood
_FRICTION = [0.9, 0.01, 0.003]  # sliding, about the normal, rolling: assumed, wood on wood
WALL_M = 0.006  # of a container
CONTAINER_KG = 0.4
_COLOURS = (
    (0.8, 0.3, 0.25),
    (0.25, 0.45, 0.8),
    (0.3, 0.65, 0.35),
    (0.85, 0.7, 0.25),
    (0.55, 0.4, 0.7),
    (0.4, 0.7, 0.7),
)
_SKIN, _SHIRT = (0.85, 0.65, 0.5), (0.2, 0.35, 0.6)
SMALLEST_PERSON_M = 0.6  # what is smaller is drawn as a box
PEOPLE = frozenset(("person", "man", "woman", "child", "girl", "boy", "people", "human"))
ROUND = frozenset(("ball", "football", "orange", "apple", "lemon"))


@dataclass(frozen=True, slots=True)
class Walk:
    """A way along corners at one speed, in the world frame, with rests at its ends and for ever after.

    Attributes:
        start_s: When it begins, on the world's clock.
    """

    corners: tuple[tuple[float, float, float], ...]
    speed_m_per_s: float
    start_s: float = 0.0
    is_repeated: bool = False

    def at(self, time_s: float) -> tuple[Vector, Vector]:
        """Returns position and velocity at a time."""
        corners = [np.array(corner) for corner in self.corners]
        legs = list(itertools.pairwise(corners))
        left_m = max(0.0, time_s - self.start_s) * self.speed_m_per_s
        total_m = sum(float(np.linalg.norm(end - begin)) for begin, end in legs)
        if self.is_repeated and total_m > 0.0:
            left_m = math.fmod(left_m, 2.0 * total_m)
            if left_m > total_m:
                left_m, legs = left_m - total_m, [(end, begin) for begin, end in reversed(legs)]
        for begin, end in legs:
            length_m = float(np.linalg.norm(end - begin))
            if left_m < length_m:
                ahead = (end - begin) / length_m
                moves = self.speed_m_per_s if time_s >= self.start_s else 0.0
                return begin + ahead * left_m, ahead * moves
            left_m -= length_m
        return (legs[-1][1] if legs else corners[0]), np.zeros(3)


@dataclass(slots=True, kw_only=True)
class Thing:
    """Something with a name in a MuJoCo world.

    Attributes:
        body: Its name there.
        known: As robots speak of it; position in the world frame when it was put there.
        owner: Robot on whose stage it is; empty for a shared one.
        shapes: What it is made of; empty for a box, or what its kind suggests.
        yaw_deg: How it stands.
        is_loose: Whether it can be moved.
        walk: Where it goes by itself; None if it does not.
    """

    body: str
    known: WorldObject
    owner: str = ""
    shapes: tuple[Shape, ...] = ()
    yaw_deg: float = 0.0
    is_loose: bool = False
    walk: Walk | None = None

    @property
    def is_solid(self) -> bool:
        """Whether it is more than a place."""
        return self.known.role is not ObjectRole.AREA

    @property
    def solids(self) -> tuple[Shape, ...]:
        """What it is made of."""
        return self.shapes or _shapes_of(self.known)

    @property
    def mass_kg(self) -> float:
        """Of all its solids, if it can be moved."""
        is_container = self.known.role is ObjectRole.CONTAINER
        volume_m3 = sum(shape.volume_m3 for shape in self.solids)
        return CONTAINER_KG if is_container else max(0.005, DENSITY * volume_m3)

    def add_to(self, spec: Any) -> None:
        """Adds it to a MuJoCo specification."""
        mujoco = load_mujoco()
        body = spec.worldbody.add_body(
            name=self.body,
            pos=self.known.position_m,
            quat=quaternion((0.0, 0.0, self.yaw_deg)),
            mocap=self.walk is not None,
        )
        if not self.is_solid:
            size = [max(1e-3, side / 2.0) for side in self.known.size_m[:2]]
            colour = [*_colour(self.known), 0.25]
            kind = mujoco.mjtGeom.mjGEOM_BOX
            body.add_geom(type=kind, size=[*size, 5e-4], rgba=colour, contype=0, conaffinity=0, group=1)
            return
        shapes = self.solids
        if self.is_loose and self.walk is None:
            body.add_freejoint()
            total_m3 = sum(shape.volume_m3 for shape in shapes)
            for shape in shapes:
                mass = self.mass_kg * shape.volume_m3 / total_m3
                condim = 6 if shape.kind == "sphere" else 3  # 6: it does not roll for ever
                add_shape(body, shape, mass=mass, friction=_FRICTION, condim=condim)
        else:
            for shape in shapes:
                add_shape(body, shape)


def on_stage(
    known: WorldObject, *, owner: str, home: Home, now_s: float, are_loose: bool, shapes: Sequence[Shape] = ()
) -> Thing:
    """Returns an object of a robot's own world as a thing in the physical one.

    Args:
        known: In the robot's frame, at the time 0 of that world.
        owner: The robot.
        home: Where that frame lies.
        now_s: The physical world's time at that time 0.
        are_loose: Whether what is not fixed can be moved: not in a room whose things float at the height of a drone.
        shapes: What it is made of.
    """
    position = tuple(float(x) for x in home.to_world(known.position_m))
    velocity = tuple(float(x) for x in home.turned(known.velocity_m_per_s))
    assert len(position) == len(velocity) == 3
    walk = None
    if any(velocity):
        speed = math.hypot(*velocity)
        moves_for_s = min(known.moves_for_s, 3600.0)
        end = tuple(p + v * moves_for_s for p, v in zip(position, velocity, strict=True))
        walk = Walk((position, (end[0], end[1], end[2])), speed, now_s)
    return Thing(
        body=f"{owner}:{known.name}",
        known=replace(known, position_m=position, velocity_m_per_s=(0.0, 0.0, 0.0)),
        owner=owner,
        shapes=tuple(shapes),
        yaw_deg=wrapped_deg(home.yaw_deg),
        is_loose=are_loose and not known.is_fixed,
        walk=walk,
    )


def _shapes_of(known: WorldObject) -> tuple[Shape, ...]:
    x, y, z = (max(2e-3, size) for size in known.size_m)
    colour = _colour(known)
    if known.role is ObjectRole.CONTAINER:
        return _open_box(x, y, z, colour)
    if known.kind in PEOPLE and z >= SMALLEST_PERSON_M:
        return person((x, y, z))
    if known.kind in ROUND and max(x, y, z) < 1.3 * min(x, y, z):
        return (Shape(kind="sphere", size_m=(min(x, y, z) / 2.0,), colour=colour),)
    return (Shape(kind="box", size_m=(x, y, z), colour=colour),)


def person(size_m: Point) -> tuple[Shape, ...]:
    """Returns a standing person of some size: legs and trunk in one, and a head."""
    x, y, z = size_m
    head_m = 0.12
    trunk_m = z - 2.0 * head_m
    return (
        Shape(kind="cylinder", size_m=(max(x, y) / 2.0, trunk_m), at_m=(0.0, 0.0, -head_m), colour=_SHIRT),
        Shape(kind="sphere", size_m=(head_m,), at_m=(0.0, 0.0, z / 2.0 - head_m), colour=_SKIN),
    )


def _open_box(x: float, y: float, z: float, colour: Point) -> tuple[Shape, ...]:
    sides = [
        ((x, y, WALL_M), (0.0, 0.0, (WALL_M - z) / 2)),
        ((WALL_M, y, z), ((x - WALL_M) / 2, 0.0, 0.0)),
        ((WALL_M, y, z), ((WALL_M - x) / 2, 0.0, 0.0)),
        ((x, WALL_M, z), (0.0, (y - WALL_M) / 2, 0.0)),
        ((x, WALL_M, z), (0.0, (WALL_M - y) / 2, 0.0)),
    ]
    return tuple(Shape(kind="box", size_m=size, at_m=at, colour=colour) for size, at in sides)


def _colour(known: WorldObject) -> Point:
    """Returns the colour that its name says, else one that depends on its name alone."""
    named = {"red": 0, "blue": 1, "green": 2, "yellow": 3, "purple": 4}
    for word in known.name.casefold().split("_"):
        if word in named:
            return _COLOURS[named[word]]
    return _COLOURS[sum(known.name.encode()) % len(_COLOURS)]
