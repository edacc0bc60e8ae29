# SPDX-License-Identifier: Apache-2.0
"""The arc that a Tello's ``curve`` flies: through two points, seen from where it is."""

import math

Point = tuple[float, float, float]


def arc(through: Point, end: Point, num_points: int) -> tuple[float, list[Point]] | None:
    """Returns the radius of the circle through the origin and two points, and points of its arc behind the origin.

    Args:
        through: Where the arc passes.
        end: Where it ends: the last of the points.
        num_points: How many points, at equal distances.

    Returns:
        None if all three lie on a line: no circle leads through them.
    """
    normal = _cross(through, end)
    size = _dot(normal, normal)
    if size < 1e-12:
        return None
    a, b = _dot(through, through), _dot(end, end)  # the centre of a circumcircle, with one corner at the origin
    to_centre = _cross(_sum(_times(a, end), _times(-b, through)), normal)
    centre = _times(0.5 / size, to_centre)
    radius = math.sqrt(_dot(centre, centre))
    out, axis = _times(-1.0, centre), _times(1.0 / math.sqrt(size), normal)
    onward = _cross(axis, out)
    last = _sum(end, _times(-1.0, centre))
    angle = math.atan2(_dot(last, onward), _dot(last, out)) % (2.0 * math.pi)
    steps = (angle * (number + 1) / num_points for number in range(num_points))
    return radius, [_sum(centre, _sum(_times(math.cos(s), out), _times(math.sin(s), onward))) for s in steps]


def _cross(a: Point, b: Point) -> Point:
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def _dot(a: Point, b: Point) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _sum(a: Point, b: Point) -> Point:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def _times(factor: float, a: Point) -> Point:
    return (factor * a[0], factor * a[1], factor * a[2])
