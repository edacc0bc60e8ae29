# SPDX-License-Identifier: Apache-2.0
"""Whether a robot's body fits what its model says that it can do."""

from typing import TYPE_CHECKING

from llm_planner.robots.effect import Approach, GoTo
from llm_planner.robots.record import require
from llm_planner.robots.shape import ChainBody, QuadrotorBody

if TYPE_CHECKING:
    from llm_planner.robots.model import RobotModel


def check_shape(model: "RobotModel") -> None:
    """Raises ValueError, naming what contradicts what, unless body and limits of a model fit together."""
    match model.body:
        case QuadrotorBody() as body:
            require(model.kind.value == "drone", f"body: a quadrotor is a drone, not of kind {model.kind.value}")
            _check_drone(model, body)
        case ChainBody() as body:
            require(model.kind.value == "arm", f"body: a chain is an arm, not of kind {model.kind.value}")
            _check_arm(model, body)
        case None:
            pass


def _check_drone(model: "RobotModel", body: QuadrotorBody) -> None:
    radius_m, limits, flight = body.link.radius_m, model.speed_limits, body.flight
    speed, turn = flight.speed_m_per_s.value, flight.turn_deg_per_s.value
    require(speed <= limits.translation_m_per_s, f"body: flies at {speed:g} m/s, over {limits.translation_m_per_s:g}")
    require(turn <= limits.rotation_deg_per_s, f"body: turns at {turn:g} deg/s, over {limits.rotation_deg_per_s:g}")
    if model.geofence is not None:
        low_m = model.geofence.z_m[0]
        require(low_m > radius_m / 2, f"body: of radius {radius_m:.2f} m, it touches the floor at {low_m:g} m")
    if model.reflex is not None:
        near_m = model.reflex.distance_m
        require(near_m > radius_m, f"body: of radius {radius_m:.2f} m, it is hit before reflex.distance_m {near_m:g}")
    for skill in model.skills.values():
        if isinstance(skill.effect, Approach | GoTo):
            stop_m = skill.effect.stop_m
            require(stop_m > radius_m, f"body: of radius {radius_m:.2f} m, skill {skill.name} stops at {stop_m:g} m")


def _check_arm(model: "RobotModel", body: ChainBody) -> None:
    space, limits = model.workspace, model.speed_limits
    if space is not None:
        require(
            space.reach_m[1] <= body.reach_m,
            f"body: its links add up to {body.reach_m:.2f} m, and workspace.reach_m says {space.reach_m[1]:g}",
        )
    for joint in body.joints:
        speed = joint.speed_deg_per_s.value * body.speed_share.value
        too_fast = f"body: joint {joint.name} turns at {speed:g} deg/s, over {limits.rotation_deg_per_s:g}"
        require(speed <= limits.rotation_deg_per_s * 1.5, too_fast)
