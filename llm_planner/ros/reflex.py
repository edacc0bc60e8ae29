"""Reflexes: what a robot does by itself, without asking the planner, because there is no time to ask."""

import math
from collections.abc import Callable

from llm_planner.core.skill import SkillCall
from llm_planner.robots.kinematics import KinematicDriver

Reflex = Callable[[KinematicDriver, float], tuple[SkillCall, ...] | None]
"""Looks at the robot and the time on its clock; returns calls to run at once (empty: only stop), or None."""


def back_off(distance_m: float, calls: tuple[SkillCall, ...]) -> Reflex:
    """Returns a reflex that answers a moving object nearer than ``distance_m`` with ``calls``, once per approach."""
    is_near = False

    def look(driver: KinematicDriver, now_s: float) -> tuple[SkillCall, ...] | None:
        nonlocal is_near
        pose = driver.state.pose
        body = (pose.x_m, pose.y_m, pose.z_m)
        moving = [thing for thing in driver.world.objects.values() if any(thing.velocity_m_per_s)]
        was_near, is_near = is_near, any(math.dist(thing.position_at(now_s), body) < distance_m for thing in moving)
        return calls if is_near and not was_near else None

    return look
