# SPDX-License-Identifier: Apache-2.0
"""Where a robot may be: sets of poses that are never smaller than the truth.

A set is described by

    position = anchor + R(phi) offset        heading = phi + heading_deg

``anchor`` is a box (metres, world frame: x forward, y left, z up at the start). While the heading is known, phi is 0
and motions move the box. Once a skill has turned the robot towards something that only the robot sees, phi is any
angle, and what follows is reckoned exactly in the frame turned by phi: there and back still ends where it began.
"""

import math
from dataclasses import dataclass, replace
from functools import reduce

Interval = tuple[float, float]

FLOOR_M = 1e-9


@dataclass(frozen=True, slots=True)
class Box:
    """All points with each coordinate in its closed interval, in metres."""

    x: Interval
    y: Interval
    z: Interval

    def hull(self, other: "Box") -> "Box":
        """Returns the smallest box that holds both."""
        return Box(*((min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(self.sides, other.sides, strict=True)))

    def intersection(self, other: "Box") -> "Box | None":
        """Returns the common points; None if there are none."""
        sides = [(max(a[0], b[0]), min(a[1], b[1])) for a, b in zip(self.sides, other.sides, strict=True)]
        return Box(*sides) if all(low <= high for low, high in sides) else None

    @property
    def is_on_floor(self) -> bool:
        """Whether every point is on the floor."""
        return self.z[0] >= -FLOOR_M and self.z[1] <= FLOOR_M

    @property
    def sides(self) -> tuple[Interval, Interval, Interval]:
        """The intervals of x, y and z."""
        return self.x, self.y, self.z


@dataclass(frozen=True, slots=True)
class Hand:
    """Names of what the hand of an arm may hold, and of what it may be above."""

    held: frozenset[str] = frozenset()
    over: frozenset[str] = frozenset()

    def joined(self, other: "Hand") -> "Hand":
        """Returns what either may be."""
        return Hand(self.held | other.held, self.over | other.over)


@dataclass(frozen=True, slots=True)
class Poses:
    """A set of poses (see the module).

    Attributes:
        offset_m: Zero while the heading is known.
        hand: Of an arm.
    """

    anchor: Box
    heading_deg: float = 0.0
    is_heading_known: bool = True
    offset_m: tuple[float, float] = (0.0, 0.0)
    hand: Hand = Hand()

    @property
    def box(self) -> Box:
        """The smallest box that holds every position."""
        return _grown(self.anchor, math.hypot(*self.offset_m))

    @property
    def is_on_floor(self) -> bool:
        """Whether every position is on the floor."""
        return self.anchor.is_on_floor

    @property
    def is_in_the_air(self) -> bool:
        """Whether every position is above the floor."""
        return self.anchor.z[0] > FLOOR_M

    def moved(self, forward_m: float, left_m: float, up_m: float) -> "Poses":
        """Returns the set after a motion in the body frame."""
        angle = math.radians(self.heading_deg)
        dx = forward_m * math.cos(angle) - left_m * math.sin(angle)
        dy = forward_m * math.sin(angle) + left_m * math.cos(angle)
        risen = replace(self.anchor, z=_shifted(self.anchor.z, up_m))
        if self.is_heading_known:
            return replace(self, anchor=replace(risen, x=_shifted(risen.x, dx), y=_shifted(risen.y, dy)))
        return replace(self, anchor=risen, offset_m=(self.offset_m[0] + dx, self.offset_m[1] + dy))

    def turned(self, angle_deg: float) -> "Poses":
        """Returns the set after a turn, counter-clockwise if positive."""
        return replace(self, heading_deg=(self.heading_deg + angle_deg) % 360.0)

    def turned_anywhere(self) -> "Poses":
        """Returns the set after a turn by an unknown angle."""
        return Poses(self.box, is_heading_known=False)

    def within(self, box: Box) -> "Poses":
        """Returns the set after a motion to somewhere in ``box``, without a turn."""
        return Poses(box, self.heading_deg, self.is_heading_known, hand=self.hand)

    def spread(self, radius_m: float) -> "Poses":
        """Returns the set after a level motion of up to ``radius_m`` in an unknown direction, without a turn."""
        return self.within(_grown(self.box, radius_m))

    def at_height(self, z_m: float) -> "Poses":
        """Returns the set after a motion straight up or down to ``z_m``."""
        return replace(self, anchor=replace(self.anchor, z=(z_m, z_m)))


def merged(alternatives: tuple[Poses, ...]) -> Poses:
    """Returns one set that holds them all; of the heading nothing is known then."""
    box = reduce(Box.hull, (poses.box for poses in alternatives))
    return Poses(box, is_heading_known=False, hand=hand_of(alternatives))


def hand_of(alternatives: tuple[Poses, ...]) -> Hand:
    """Returns what the hand may hold and be above."""
    return reduce(Hand.joined, (poses.hand for poses in alternatives), Hand())


def _grown(box: Box, radius_m: float) -> Box:
    (x0, x1), (y0, y1) = box.x, box.y
    return Box((x0 - radius_m, x1 + radius_m), (y0 - radius_m, y1 + radius_m), box.z)


def _shifted(interval: Interval, by: float) -> Interval:
    return interval[0] + by, interval[1] + by
