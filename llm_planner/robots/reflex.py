# SPDX-License-Identifier: Apache-2.0
"""Reflexes: what a robot does by itself when something comes too near. Pure: geometry and a rule, no clock, no network.

A reflex needs no planner, no plan and no message. It ends the goal that runs: what is denied is going on.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from llm_planner.core.pose import Pose
from llm_planner.core.skill import SkillCall
from llm_planner.robots.dodge import PACE, SAMPLE_S, Point, closest_m, dodge, forecast_s, moved, movers, way_to
from llm_planner.robots.effect import Translate
from llm_planner.robots.model import RobotModel
from llm_planner.robots.reflex_rule import ReflexAction, ReflexRule
from llm_planner.robots.world import WorldObject

RELEASE = 1.25  # times the distance: what is this far away has gone
CLOSER_M = 0.1  # what comes this much closer after a reaction is reacted to again
TOUCH = 0.5  # of the rule's distance: what would come this near is coming
NO_RULE = ReflexRule(distance_m=math.inf, action=ReflexAction.STOP)


@dataclass(frozen=True, slots=True)
class Threat:
    """Something that moves, and how far its surface is from the robot's reference point, in metres."""

    name: str
    position_m: tuple[float, float, float]
    distance_m: float


@dataclass(frozen=True, slots=True)
class Reaction:
    """What the robot shall do at once.

    Attributes:
        calls: Skills to run, never none.
    """

    reason: str
    calls: tuple[SkillCall, ...]

    @property
    def text(self) -> str:
        """The calls in MiniSpec."""
        return "".join(f"{call.name}({','.join(f'{a:g}' for a in call.arguments)});" for call in self.calls)


class Reflex:
    """The reflex of one robot. Ask it often: it sees no further than the present moment.

    It acts once per approach, and again if the thing keeps closing in on a robot that backs off. With HOLD it also
    denies every goal while something is near.

    Args:
        model: Of the robot; without a rule in it, only ``answer_missing`` reacts, by stopping.
        unsupported: Skills of the model that this robot cannot carry out: where no other motion helps, it stops.
    """

    def __init__(self, model: RobotModel, *, unsupported: Collection[str] = ()) -> None:
        self._model = model
        self._unsupported = frozenset(unsupported)
        self._rule = model.reflex or NO_RULE
        self._near_m: float | None = None  # how near it was at the last reaction; None if nothing is near

    def look(
        self,
        pose: Pose,
        things: Collection[WorldObject],
        now_s: float,
        *,
        is_at_work: bool,
        is_acting: bool,
        target: Pose | None = None,
        speed_m_per_s: float = 0.0,
    ) -> Reaction | None:
        """Returns what to do now, or None.

        Args:
            pose: Of the robot, or of an arm's tool.
            things: What it notices; what never moves is the plan's business.
            now_s: On the clock of the world.
            is_at_work: Whether the robot carries a goal out.
            is_acting: Whether it carries out a reaction.
            target: Where its present motion leads; None if it stands.
            speed_m_per_s: How fast it goes there now.
        """
        threat = nearest(pose, things, now_s) if self._model.reflex is not None else None
        limit_m = self._rule.distance_m * (1.0 if self._near_m is None else RELEASE)
        way = self._way(pose, target or pose, speed_m_per_s)
        is_coming = self._coming(way, things, now_s)
        if threat is None or (threat.distance_m > limit_m and not is_coming):
            self._near_m = None
            return None
        is_near = threat.distance_m <= limit_m
        is_new = self._near_m is None and (is_near or not is_acting)  # what is being dodged is coming still
        is_closer = self._rule.action is ReflexAction.BACK_OFF and threat.distance_m < (self._near_m or 0.0) - CLOSER_M
        is_denied = self._rule.action is ReflexAction.HOLD and is_at_work
        if not (is_new or ((is_closer or is_denied) and not is_acting)):
            return None
        calls = self._calls(pose, threat, things, now_s, None if target is None else way)
        if not calls:
            return None
        self._near_m = threat.distance_m
        verb = "comes, and is" if is_coming else "is"
        return Reaction(f"{threat.name} {verb} {threat.distance_m:.2f} m away", calls)

    def answer_missing(self, pose: Pose, things: Collection[WorldObject], now_s: float, reason: str) -> Reaction:
        """Returns what to do when the planner has no answer to an emergency: as if what moves nearest was too near."""
        return Reaction(reason, self._calls(pose, nearest(pose, things, now_s), things, now_s))

    def _way(self, pose: Pose, target: Pose, speed_m_per_s: float) -> list[Point]:
        """Returns its way if it goes on as it does."""
        pace = PACE * self._model.speed_limits.translation_m_per_s
        return way_to(pose, target, pace, forecast_s(self._rule.ahead_s), speed_m_per_s)

    def _coming(self, way: Sequence[Point], things: Iterable[WorldObject], now_s: float) -> bool:
        """Returns whether something would touch the robot soon if both go on as they do."""
        if self._rule.ahead_s <= 0.0:
            return False
        soon, limit_m = way[: int(self._rule.ahead_s / SAMPLE_S) + 1], TOUCH * self._rule.distance_m
        return any(closest_m(mover, soon) < limit_m for mover in movers(things, now_s))

    def _calls(
        self,
        pose: Pose,
        threat: Threat | None,
        things: Iterable[WorldObject],
        now_s: float,
        going_on: Sequence[Point] | None = None,
    ) -> tuple[SkillCall, ...]:
        """Returns the dodge at once, without waiting until the robot stands: whatever it does is halted anyway.

        None at all if it is under way and nothing would keep clearer of what comes: a motion that leads out of the way,
        the planner's or its own, is not interrupted for another one.
        """
        stop = SkillCall(self._model.stop_skill)
        if threat is None or self._rule.action is not ReflexAction.BACK_OFF:
            return (stop,)
        if self._rule.ahead_s > 0.0:
            coming, ahead_s = movers(things, now_s), self._rule.ahead_s
            step = dodge(self._model, pose, coming, ahead_s, going_on, unsupported=self._unsupported)
            if step is not None:
                return (step,)
            if going_on is not None:
                return ()
        step = step_away(self._model, pose, threat, self._rule.back_off_m, unsupported=self._unsupported)
        return (stop,) if step is None else (step,)


def nearest(pose: Pose, things: Iterable[WorldObject], now_s: float) -> Threat | None:
    """Returns the nearest thing that moves, or has moved; None if there is none."""
    threats = (_threat(pose, thing, now_s) for thing in things if any(thing.velocity_m_per_s))
    return min(threats, key=lambda threat: threat.distance_m, default=None)


def _threat(pose: Pose, thing: WorldObject, now_s: float) -> Threat:
    position_m = thing.position_at(now_s)
    body = (pose.x_m, pose.y_m, pose.z_m)
    gaps = (max(0.0, abs(p - b) - size / 2) for p, b, size in zip(position_m, body, thing.size_m, strict=True))
    return Threat(thing.name, position_m, math.hypot(*gaps))


def step_away(
    model: RobotModel, pose: Pose, threat: Threat, distance_m: float, *, unsupported: Collection[str] = ()
) -> SkillCall | None:
    """Returns the one motion that takes the robot farthest from a threat, inside its fence; None if none does."""
    before_m = math.dist(threat.position_m, (pose.x_m, pose.y_m, pose.z_m))
    best: tuple[float, SkillCall] | None = None
    for skill in model.skills.values():
        number = skill.number
        if not isinstance(skill.effect, Translate) or number is None or len(skill.arguments) > 1:
            continue
        if skill.name in unsupported:
            continue
        least, most = number.minimum or 0.0, number.maximum or 0.0
        amount = min(max(distance_m / skill.effect.unit_m, least), most)
        amount = float(math.floor(amount)) if number.is_integer else amount
        end = moved(pose, skill.effect, amount)
        away_m = math.dist(threat.position_m, end) - before_m
        is_inside = model.geofence is None or model.geofence.contains(*end)
        if is_inside and away_m > (0.0 if best is None else best[0]):
            best = (away_m, SkillCall(skill.name, (amount,)))
    return None if best is None else best[1]
