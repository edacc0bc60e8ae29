# SPDX-License-Identifier: Apache-2.0
"""How many more robots one server can hold, by the curves that were simulated for its engine profile."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.capacity.curve import CapacityData, Curve
from llm_planner.prediction.profile import AUTO, find_profile
from llm_planner.prediction.throughput.estimated import is_estimate
from llm_planner.robots.library import RobotLibrary

MOST_ROBOTS = 4096
Fleet = Mapping[str, int]
"""How many robots of which model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """What is good enough.

    Attributes:
        slo_s: Limit of the response time: from the request to the robot's first segment.
        share: Of the responses that must be within it.
    """

    slo_s: float
    share: float = 0.95

    def __post_init__(self) -> None:
        if not (0.0 < self.slo_s < math.inf and 0.0 < self.share < 1.0):
            raise PlannerError(
                ErrorCode.INVALID_CONFIG, f"the limit must be above 0 s and the share between 0 and 1; got {self}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomLeft:
    """Robots of one kind that can be added.

    Attributes:
        num_robots: As expected.
        num_robots_low: At the slow end of the engine's speed.
        num_robots_high: At the fast end.
        utility: Expected mean utility with them, as a share of the most possible.
        confidence: In the engine's speed; 1 for one that was profiled.
    """

    num_robots: int
    num_robots_low: int
    num_robots_high: int
    utility: float
    confidence: float


class Room:
    """Answers how many more robots fit.

    A fleet between two curves counts as two fleets, one of each; without a curve of their mix, kinds are added up.

    Args:
        data: Of the engine's profile.
        robots: The robot models that the planner knows.
        num_replicas: Engines that share the fleet, each as quick as the profile says.
    """

    def __init__(self, data: CapacityData, robots: RobotLibrary, num_replicas: int = 1) -> None:
        self._data = data
        self._robots = robots
        self._num_replicas = num_replicas

    def left(self, known: Fleet, robot_model: str, objective: Objective) -> RoomLeft:
        """Returns how many robots of a model can be added to those that are known, so that the objective holds.

        A response time that lies between two limits of the curves counts as the smaller one.

        Raises:
            PlannerError: UNKNOWN_ROBOT_MODEL, or INVALID_CONFIG for a model without a curve.
        """
        for name in (robot_model, *known):
            self._require_curve(name)
        data = self._data
        column = data.column(objective.slo_s)
        if column is None:
            return RoomLeft(num_robots=0, num_robots_low=0, num_robots_high=0, utility=0.0, confidence=data.confidence)

        def most(curves: Sequence[Curve]) -> int:
            low, high = 0, MOST_ROBOTS
            while high - low > 1:
                middle = (low + high) // 2
                is_kept = self._used(curves, _plus(known, robot_model, middle), column, objective.share) <= 1.0
                low, high = (middle, high) if is_kept else (low, middle)
            return low

        number = most(data.expected)
        fleet = _plus(known, robot_model, max(1, number))
        parts, used = _parts(data.expected, fleet), self._used(data.expected, fleet, column, objective.share)
        return RoomLeft(
            num_robots=number,
            num_robots_low=most(data.slow or data.expected),
            num_robots_high=most(data.fast or data.expected),
            utility=min(
                curve.utility(used * curve.most(column, objective.share)) if math.isfinite(used) else 0.0
                for curve, _ in parts
            ),
            confidence=data.confidence,
        )

    def holds(self, fleet: Fleet, objective: Objective) -> bool:
        """Returns whether a fleet keeps an objective, as expected; raises as ``left``."""
        for name in fleet:
            self._require_curve(name)
        column = self._data.column(objective.slo_s)
        return column is not None and self._used(self._data.expected, fleet, column, objective.share) <= 1.0

    def _used(self, curves: Sequence[Curve], fleet: Fleet, column: int, share: float) -> float:
        """Returns the share of the engines that a fleet takes."""
        most = [(number, curve.most(column, share)) for curve, number in _parts(curves, fleet) if number > 0.0]
        return sum(number / limit if limit else math.inf for number, limit in most) / self._num_replicas

    def _require_curve(self, robot_model: str) -> None:
        self._robots.get(robot_model)
        known = [name for curve in self._data.expected if len(curve.fleet) == 1 for name in curve.fleet]
        if robot_model not in known:
            raise PlannerError(
                ErrorCode.INVALID_CONFIG,
                f"the engine's profile has no curve of what a {robot_model} asks for; there is one for "
                f"{', '.join(known)}",
            )


def build_room(config: PlannerConfig, robots: RobotLibrary) -> Room:
    """Returns the room of a planner whose engine's profile has curves.

    Raises:
        PlannerError: INVALID_CONFIG if it has none, or they were computed for another policy or batch limit.
    """
    name, scheduler = config.engine.profile, config.scheduler
    if name in {"", AUTO}:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            "how many robots this engine serves was never simulated; set engine.profile to one made by llm-planner "
            "profile and llm-planner capacity curve",
        )
    how = f"run `llm-planner capacity curve '{name}' FILE --policy {scheduler.policy} --batch {scheduler.max_num_seqs}`"
    data = None if is_estimate(name) else find_profile(name).capacity
    if data is None:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG, f"the profile {name} has no capacity curves; {how} and set engine.profile to FILE"
        )
    if (data.policy, data.max_num_seqs) != (scheduler.policy, scheduler.max_num_seqs):
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"the capacity curves of {name} are of scheduler.policy {data.policy} and scheduler.max_num_seqs "
            f"{data.max_num_seqs}; {how}",
        )
    return Room(data, robots, config.replicas)


def _plus(fleet: Fleet, robot_model: str, number: int) -> Fleet:
    whole = {name: count for name, count in fleet.items() if count > 0}
    return {**whole, robot_model: whole.get(robot_model, 0) + number}


def _parts(curves: Sequence[Curve], fleet: Fleet) -> list[tuple[Curve, float]]:
    """Returns the fleets of curves, and how many of each, that a fleet is the sum of."""
    if len(fleet) == 2:
        first, second = sorted(fleet)
        x, y = fleet[first], fleet[second]
        rays = sorted(
            ((c.fleet.get(first, 0), c.fleet.get(second, 0), c) for c in curves if set(c.fleet) <= set(fleet)),
            key=lambda ray: math.atan2(ray[1], ray[0]),
        )
        for (a, b, low), (c, d, high) in pairwise(rays):
            if a * d == b * c:  # two curves of one mix: either will do
                continue
            of_low, of_high = (x * d - y * c) / (a * d - b * c), (a * y - b * x) / (a * d - b * c)
            if min(of_low, of_high) >= 0.0:
                return [(low, of_low), (high, of_high)]
    alone = {name: curve for curve in curves if len(curve.fleet) == 1 for name in curve.fleet}
    return [(alone[name], count / alone[name].fleet[name]) for name, count in fleet.items()]
