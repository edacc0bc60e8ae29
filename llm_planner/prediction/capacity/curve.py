# SPDX-License-Identifier: Apache-2.0
"""How a server keeps its response times as robots are added: data, computed by ``llm-planner capacity curve``."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile

from llm_planner.robots.record import Record, require


@dataclass(frozen=True, slots=True, kw_only=True)
class Point(Record):
    """What a server makes of a fleet in the simulation.

    Attributes:
        number: How many times the fleet of the curve.
        within: Share of the responses within each limit of ``CapacityData.limits_s``.
        utility: Mean utility of a response, as a share of the most possible.
    """

    number: int
    within: tuple[float, ...]
    utility: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve(Record):
    """One fleet in growing numbers.

    Attributes:
        fleet: What is counted: robots of each model.
        points: By number, ascending.
    """

    fleet: Mapping[str, int]
    points: tuple[Point, ...]

    def __post_init__(self) -> None:
        numbers = [point.number for point in self.points]
        require(bool(self.fleet) and min(self.fleet.values()) > 0, "a curve is of at least one robot")
        require(bool(numbers) and numbers[0] > 0 and numbers == sorted(set(numbers)), "points ascend from 1")

    def most(self, column: int, share: float) -> int:
        """Returns the greatest number that was simulated, up to which ``share`` of the responses is within a limit."""
        kept = takewhile(lambda point: point.within[column] >= share, self.points)
        return max((point.number for point in kept), default=0)

    def utility(self, number: float) -> float:
        """Returns the mean utility of the next point that was simulated."""
        return next((point.utility for point in self.points if point.number >= number), self.points[-1].utility)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityData(Record):
    """The curves of one engine profile, and what they were computed for.

    Attributes:
        policy: Scheduling policy.
        max_num_seqs: Batch limit.
        limits_s: Response times, ascending.
        confidence: In the engine's speed; 1 for one that was measured.
        slowdown: How many times slower the engine may be, at the slow end of the 90 % interval; 1 for a measured one.
        expected: One curve per fleet: each robot model alone, and mixes.
        slow: At the slow end; none if the speed was measured.
        fast: At the fast end; likewise.
        planned_by: The model whose own plans were counted; empty if they are those of the tasks (TimelyLLM, Table 2).
    """

    policy: str
    max_num_seqs: int
    limits_s: tuple[float, ...]
    confidence: float = 1.0
    slowdown: float = 1.0
    expected: tuple[Curve, ...]
    slow: tuple[Curve, ...] = ()
    fast: tuple[Curve, ...] = ()
    planned_by: str = ""

    def __post_init__(self) -> None:
        require(bool(self.limits_s) and list(self.limits_s) == sorted(set(self.limits_s)), "limits_s must ascend")
        require(0.0 <= self.confidence <= 1.0 <= self.slowdown, "confidence is 0 to 1, slowdown 1 or more")
        fleets = [[curve.fleet for curve in curves] for curves in (self.slow, self.fast) if curves]
        are_same = all(known == [curve.fleet for curve in self.expected] for known in fleets)
        require(are_same, "slow and fast, if they are given, have the fleets of expected")
        points = [p for curve in (*self.expected, *self.slow, *self.fast) for p in curve.points]
        require(all(len(p.within) == len(self.limits_s) for p in points), "each point has one share for each limit")

    def column(self, slo_s: float) -> int | None:
        """Returns the place of the greatest limit that is not above ``slo_s``; None if all are."""
        return max((i for i, limit_s in enumerate(self.limits_s) if limit_s <= slo_s), default=None)
