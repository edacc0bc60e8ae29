# SPDX-License-Identifier: Apache-2.0
"""What skills do to the set of poses in which a robot may be."""

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pose import Pose
from llm_planner.planning.safety.poses import Box, Hand, Poses, merged
from llm_planner.planning.safety.space import space_of
from llm_planner.robots.effect import (
    Approach,
    Ask,
    Delay,
    Effect,
    GoTo,
    Grasp,
    Gripper,
    Home,
    Land,
    MoveTool,
    NoEffect,
    Orient,
    Perceive,
    Place,
    Push,
    Replan,
    Say,
    Scan,
    Stop,
    TakeOff,
    TakePicture,
    Translate,
    Turn,
)
from llm_planner.robots.model import RobotKind, RobotModel, Skill

_EMPTY_HAND = Hand()
MAX_ALTERNATIVES = 16  # more are merged into one larger set: bounds the time that a branching plan can take

Alternatives = tuple[Poses, ...]  # one of them holds; empty where the plan has ended


class Forecast:
    """Follows one skill at a time and refuses what could leave the robot's space.

    Where an object is, only the robot knows. A motion towards one is bounded by its declared travel and by the space
    itself, since the robot's driver carries out no motion that ends outside; every motion after it is judged from
    everywhere that it may have ended.
    """

    def __init__(self, model: RobotModel) -> None:
        self._model = model
        self._space = space_of(model)

    def start(self, pose: Pose, hand: Hand = _EMPTY_HAND) -> Alternatives:
        """Returns the set that holds nothing but one pose."""
        point = Box((pose.x_m, pose.x_m), (pose.y_m, pose.y_m), (pose.z_m, pose.z_m))
        return (Poses(point, pose.yaw_deg % 360.0, hand=hand),)

    def anywhere(self, hand: Hand = _EMPTY_HAND) -> Alternatives:
        """Returns the set that holds every pose in the robot's space, and for one that flies, on the floor."""
        inside = Poses(self._space.bounds, is_heading_known=False, hand=hand)
        if self._model.kind is not RobotKind.DRONE:
            return (inside,)
        return (inside, inside.at_height(0.0))

    def after(self, skill: Skill, number: float, names: Sequence[str], before: Alternatives) -> Alternatives:
        """Returns where the robot may be after a call with this number argument (0 without one) and these things.

        Raises:
            PlannerError: GEOFENCE_VIOLATED, if it could leave its space.
        """
        if self._model.kind is RobotKind.ARM:
            before = tuple(replace(poses, hand=_after_grip(poses.hand, skill.effect, names)) for poses in before)
        return joined(*(self._one(skill, number, poses) for poses in before))

    def _one(  # noqa: C901, PLR0911, PLR0912 (one case per effect)
        self, skill: Skill, number: float, poses: Poses
    ) -> Alternatives:
        effect = skill.effect
        match effect:
            case Translate(axis=axis, unit_m=unit_m):
                forward_m, left_m, up_m = (component * number * unit_m for component in axis)
                return self._if_ready(poses, self._checked(skill, poses, poses.moved(forward_m, left_m, up_m)))
            case Turn(direction=direction):
                return self._if_ready(poses, poses.turned(direction * number))
            case Orient():
                return self._if_ready(poses, poses.turned_anywhere())
            case Scan():
                return (poses.turned_anywhere(),)
            case Approach(max_travel_m=travel_m):
                return self._if_ready(poses, self._inside(poses.spread(travel_m)))
            case GoTo(max_travel_m=travel_m):
                return self._if_ready(poses, self._inside(poses.spread(travel_m)).turned_anywhere())
            case TakeOff(altitude_m=altitude_m):
                return self._taken_off(skill, poses, altitude_m)
            case Land():
                return (poses.at_height(0.0),)
            case Home():
                home = poses.within(self.start(self._model.start)[0].anchor)
                return self._if_ready(poses, self._checked(skill, poses, home))
            case Grasp() | Place() | Push() | MoveTool():
                return (poses.within(self._space.bounds),)
            case Stop() | Delay() | Perceive() | Say() | Ask() | TakePicture() | Replan() | Gripper() | NoEffect():
                return (poses,)
        assert_never(effect)

    def _if_ready(self, before: Poses, after: Poses) -> Alternatives:
        """Returns ``after``, or ``before`` for a drone on the floor: there it does nothing but take off."""
        if self._model.kind is not RobotKind.DRONE or before.is_in_the_air:
            return (after,)
        return (before,) if before.is_on_floor else (before, after)

    def _taken_off(self, skill: Skill, poses: Poses, altitude_m: float) -> Alternatives:
        """Returns the set after a take-off, which does nothing in the air."""
        if poses.is_in_the_air:
            return (poses,)
        risen = self._checked(skill, poses, poses.at_height(altitude_m))
        return (risen,) if poses.is_on_floor else (poses, risen)

    def _inside(self, poses: Poses) -> Poses:
        """Returns the part of a set that is inside the space; the space if none is, which no robot's driver permits."""
        return poses.within(poses.box.intersection(self._space.bounds) or self._space.bounds)

    def _checked(self, skill: Skill, before: Poses, after: Poses) -> Poses:
        if before.is_on_floor and self._model.kind is RobotKind.DRONE and isinstance(skill.effect, Translate):
            return after  # will not be carried out
        problem = self._space.problem(before.box, after.box)
        if problem:
            raise PlannerError(
                ErrorCode.GEOFENCE_VIOLATED,
                f"{skill.name} could bring the robot to {problem}; plan shorter ways, nearer to the start",
            )
        return after


def _after_grip(hand: Hand, effect: Effect, names: Sequence[str]) -> Hand:
    """Returns what a hand holds, and what it is above, after a call with these things."""
    match effect, names:
        case Grasp(), [name, *_]:
            return Hand(frozenset((name,)), frozenset((name,)))
        case Place(), [_, target, *_]:
            return Hand(over=frozenset((target,)))
        case (Push(), [_, target, *_]) | (MoveTool(), [target, *_]):
            return replace(hand, over=frozenset((target,)))
        case Gripper(is_open=True), _:
            return replace(hand, held=frozenset())
        case Home(), _:
            return replace(hand, over=frozenset())
        case _:
            return hand


def joined(*branches: Alternatives) -> Alternatives:
    """Returns the alternatives of all branches; if there are too many, two sets: one in the air, one on the floor."""
    distinct = tuple(dict.fromkeys(poses for branch in branches for poses in branch))
    if len(distinct) <= MAX_ALTERNATIVES:
        return distinct
    groups = (tuple(p for p in distinct if p.is_on_floor), tuple(p for p in distinct if not p.is_on_floor))
    return tuple(merged(group) for group in groups if group)
