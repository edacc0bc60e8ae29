# SPDX-License-Identifier: Apache-2.0
"""Reflexes: what a robot does by itself when something comes too near. Pure: geometry and a rule, no clock, no network.

A reflex needs no planner, no plan and no message. It ends the goal that runs: what is denied is going on.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from llm_planner.core.pose import Pose
from llm_planner.core.skill import SkillCall
from llm_planner.robots.dodge import (
    PACE,
    SAMPLE_S,
    Point,
    closest_m,
    dodge,
    forecast_s,
    movers,
    straight_motions,
    way_to,
)
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

    It acts once per approach of each thing, and again if one keeps closing in on a robot that backs off. With HOLD it
    also denies every goal while something is near.

    Args:
        model: Of the robot; without a rule in it, only ``answer_missing`` reacts, by stopping.
        unsupported: Skills of the model that this robot cannot carry out: where no other motion helps, it stops.
    """

    def __init__(self, model: RobotModel, *, unsupported: Collection[str] = ()) -> None:
        self._model = model
        self._unsupported = frozenset(unsupported)
        self._rule = model.reflex or NO_RULE
        self._near_m: dict[str, float] = {}  # how near each thing was at the last reaction, until it has gone

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
        if self._model.reflex is None:
            return None
        way = self._way(pose, target or pose, speed_m_per_s)
        coming = self._coming(way, things, now_s)
        noticed = [t for t in threats(pose, things, now_s) if self._is_near(t) or t.name in coming]
        self._near_m = {t.name: self._near_m[t.name] for t in noticed if t.name in self._near_m}
        threat = next((t for t in noticed if self._needs_reaction(t, is_at_work=is_at_work, is_acting=is_acting)), None)
        calls = () if threat is None else self._calls(pose, threat, things, now_s, None if target is None else way)
        if threat is None or not calls:
            return None
        self._near_m = {t.name: t.distance_m for t in noticed}
        verb = "comes, and is" if threat.name in coming else "is"
        return Reaction(f"{threat.name} {verb} {threat.distance_m:.2f} m away", calls)

    def _is_near(self, threat: Threat) -> bool:
        """Returns whether a thing is too near, or was and has not gone."""
        return threat.distance_m <= self._rule.distance_m * (RELEASE if threat.name in self._near_m else 1.0)

    def _needs_reaction(self, threat: Threat, *, is_at_work: bool, is_acting: bool) -> bool:
        """Returns whether a thing is new, closes in on a robot that backed off, or lets no goal run."""
        if threat.name not in self._near_m:
            return self._is_near(threat) or not is_acting  # what is being dodged is coming still
        match self._rule.action:
            case ReflexAction.BACK_OFF:
                again = threat.distance_m < self._near_m[threat.name] - CLOSER_M
            case ReflexAction.HOLD:
                again = is_at_work
            case ReflexAction.STOP:
                again = False
        return again and not is_acting

    def answer_missing(self, pose: Pose, things: Collection[WorldObject], now_s: float, reason: str) -> Reaction:
        """Returns what to do when the planner has no answer to an emergency: as if what moves nearest was too near."""
        return Reaction(reason, self._calls(pose, nearest(pose, things, now_s), things, now_s))

    def _way(self, pose: Pose, target: Pose, speed_m_per_s: float) -> list[Point]:
        """Returns its way if it goes on as it does."""
        pace = PACE * self._model.speed_limits.translation_m_per_s
        return way_to(pose, target, pace, forecast_s(self._rule.ahead_s), speed_m_per_s)

    def _coming(self, way: Sequence[Point], things: Iterable[WorldObject], now_s: float) -> set[str]:
        """Returns the names of what would touch the robot soon if both go on as they do."""
        if self._rule.ahead_s <= 0.0:
            return set()
        soon, limit_m = way[: int(self._rule.ahead_s / SAMPLE_S) + 1], TOUCH * self._rule.distance_m
        return {mover.name for mover in movers(things, now_s) if closest_m(mover, soon) < limit_m}

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
    return next(iter(threats(pose, things, now_s)), None)


def threats(pose: Pose, things: Iterable[WorldObject], now_s: float) -> list[Threat]:
    """Returns what moves, or has moved, the nearest first."""
    found = (_threat(pose, thing, now_s) for thing in things if any(thing.velocity_m_per_s))
    return sorted(found, key=lambda threat: threat.distance_m)


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
    motions = straight_motions(model, pose, distance_m, unsupported)
    ways = [(math.dist(threat.position_m, end) - before_m, call) for call, end, _ in motions]
    away_m, call = max(ways, key=lambda way: way[0], default=(0.0, None))
    return call if away_m > 0.0 else None
