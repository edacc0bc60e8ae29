# SPDX-License-Identifier: Apache-2.0
"""The space that a robot may use, as the safety gate asks for it: a geofence, or the workspace of an arm."""

import math

from llm_planner.planning.safety.poses import Box
from llm_planner.robots.model import Geofence, RobotModel, Workspace

TOLERANCE_M = 1e-6  # as in Geofence.contains: rounding must not refuse a motion up to the limit


class FencedSpace:
    """A geofence. It is convex: straight ways between points inside stay inside.

    A drone may stand on the floor under the least height; flying down there needs a landing skill.
    """

    def __init__(self, fence: Geofence) -> None:
        self.bounds = Box(fence.x_m, fence.y_m, fence.z_m)

    def problem(self, start: Box, end: Box, /) -> str:
        """Returns which side of the fence a motion could cross farthest, and by how much; or an empty string."""
        names = "xy" if start.is_on_floor and end.is_on_floor else "xyz"
        sides = zip(names, end.sides, self.bounds.sides, strict=False)
        problems = [_excess(name, side, limits) for name, side, limits in sides]
        return max(problems, default=(0.0, ""))[1]


class ArmSpace:
    """The ring that an arm reaches, between two heights.

    It is not convex, so a straight way between points inside may leave it. But it is connected, and an arm's driver
    takes no way that leaves it (``robots.tool_path``): around the pedestal, or not at all. So the end is enough.
    """

    def __init__(self, workspace: Workspace) -> None:
        reach_m = workspace.reach_m[1]
        self.bounds = Box((-reach_m, reach_m), (-reach_m, reach_m), workspace.z_m)
        self._reach_m = workspace.reach_m

    def problem(self, _start: Box, end: Box, /) -> str:
        """Returns which limit a motion could break farthest, and by how much; or an empty string."""
        nearest = math.hypot(*(max(low, -high, 0.0) for low, high in (end.x, end.y)))
        farthest = math.hypot(*(max(abs(low), abs(high)) for low, high in (end.x, end.y)))
        reach = _excess("reach", (nearest, farthest), self._reach_m)
        return max(reach, _excess("z", end.z, self.bounds.z))[1]


def space_of(model: RobotModel) -> FencedSpace | ArmSpace:
    """Returns the space of a robot.

    Raises:
        ValueError: If its model has none, which no model that was read from a file can have.
    """
    if model.geofence is not None:
        return FencedSpace(model.geofence)
    if model.workspace is None:
        raise ValueError(f"robot model {model.name} has neither geofence nor workspace")
    return ArmSpace(model.workspace)


def _excess(name: str, side: tuple[float, float], limits: tuple[float, float]) -> tuple[float, str]:
    """Returns by how much an interval exceeds its limits, and a sentence; ``(0, "")`` if it does not."""
    if not all(map(math.isfinite, side)):  # max would drop a NaN
        return math.inf, f"a {name} that is no number"
    below, above = limits[0] - side[0], side[1] - limits[1]
    excess, value, limit = max((below, side[0], limits[0]), (above, side[1], limits[1]))
    if excess <= TOLERANCE_M:
        return 0.0, ""
    return excess, f"{name} = {value:.2f} m, {excess:.2f} m beyond the limit of {limit:g} m"
