# SPDX-License-Identifier: Apache-2.0
"""What a robot sees: geometry of its camera, without a picture."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from llm_planner.robots.driver import PermanentFailureError, SkillFailedError
from llm_planner.robots.model import Camera, Pose
from llm_planner.robots.motion import wrapped_deg
from llm_planner.robots.world import ObjectRole, World, WorldObject


@dataclass(frozen=True, slots=True)
class View:
    """Where an object is, seen from the camera: bearing to the left and elevation are positive."""

    object: WorldObject
    bearing_deg: float
    elevation_deg: float
    distance_m: float


def view(pose: Pose, thing: WorldObject, now_s: float) -> View:
    """Returns where the centre of an object is, in or out of the picture."""
    x, y, z = thing.position_at(now_s)
    dx, dy, dz = x - pose.x_m, y - pose.y_m, z - pose.z_m
    level = math.hypot(dx, dy)
    bearing_deg = wrapped_deg(math.degrees(math.atan2(dy, dx)) - pose.yaw_deg) if level > 1e-9 else 0.0
    return View(thing, bearing_deg, math.degrees(math.atan2(dz, level)), math.hypot(level, dz))


def visible(camera: Camera | None, pose: Pose, things: Iterable[WorldObject], now_s: float) -> list[View]:
    """Returns those objects whose centre is in the picture and in range, the nearest first; without a camera, all."""
    views = (view(pose, thing, now_s) for thing in things if thing.role is not ObjectRole.AREA)
    return sorted((v for v in views if _is_in_picture(camera, v)), key=lambda v: (v.distance_m, v.object.name))


def seen(camera: Camera | None, pose: Pose, world: World, name: str, now_s: float) -> View:
    """Returns the nearest visible object of a name or kind.

    Raises:
        SkillFailedError: If there is none.
    """
    views = visible(camera, pose, world.find(name), now_s)
    if not views:
        raise SkillFailedError(f"{name} is not visible")
    return views[0]


def measure(quantity: str, unit_m: float, camera: Camera | None, sight: View) -> float:
    """Returns a quantity of ``effect.Perceive`` other than ``visible``.

    Raises:
        SkillFailedError: If the robot has no camera.
    """
    if camera is None:
        raise PermanentFailureError("there is no camera")
    if quantity == "distance":
        return round(sight.distance_m / unit_m, 3)
    size = sight.object.size_m
    width_deg = math.degrees(2.0 * math.atan2(max(size[0], size[1]) / 2.0, sight.distance_m))
    height_deg = math.degrees(2.0 * math.atan2(size[2] / 2.0, sight.distance_m))
    shares = {
        "x": 0.5 - sight.bearing_deg / camera.field_of_view_deg,
        "y": 0.5 - sight.elevation_deg / camera.vertical_field_of_view_deg,
        "width": width_deg / camera.field_of_view_deg,
        "height": height_deg / camera.vertical_field_of_view_deg,
    }
    return round(min(1.0, max(0.0, shares[quantity])), 6)


def _is_in_picture(camera: Camera | None, sight: View) -> bool:
    if camera is None:
        return True
    tolerance = 1e-6
    return (
        abs(sight.bearing_deg) <= camera.field_of_view_deg / 2.0 + tolerance
        and abs(sight.elevation_deg) <= camera.vertical_field_of_view_deg / 2.0 + tolerance
        and sight.distance_m <= camera.range_m + tolerance
    )
