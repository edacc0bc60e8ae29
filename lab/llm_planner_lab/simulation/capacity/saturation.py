# SPDX-License-Identifier: Apache-2.0
"""Where a server saturates, simulated: the curves of a profile, and the most robots by bisection."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import Any

import yaml
from pydantic import TypeAdapter

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.capacity.curve import CapacityData, Curve, Point
from llm_planner.prediction.capacity.room import Fleet, Objective, Room
from llm_planner.prediction.profile import EngineProfile, find_profile, profile_path, served
from llm_planner.prediction.throughput.estimated import estimated_profile, is_estimate, widened
from llm_planner.prediction.throughput.model_file import load_kernel_model
from llm_planner.prediction.throughput.server_profile import fast, server_profile, slow
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.simulation.capacity.fleet import MOST_ROBOTS, demands, fleet_trace
from llm_planner_lab.simulation.capacity.queueing import outlook
from llm_planner_lab.simulation.records import RequestRecord
from llm_planner_lab.simulation.script import ScriptLibrary
from llm_planner_lab.simulation.simulator import SimulationConfig, simulate
from llm_planner_lab.simulation.trace import Trace

LIMITS_S = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0)
OBJECTIVES = tuple(Objective(slo_s=slo_s, share=0.95) for slo_s in (2.0, 1.0, 0.5))
"""Around what these allow the points of a curve lie close together; the loosest first."""
NUM_REQUESTS = 2000
"""That a simulation has at least, so that its noise in a share of 0.95 is half a point."""
NUM_TRACES = 3
"""That a share is counted over: near saturation one trace asks for 1 to 3 % more or less than another."""
BEGIN = 0.6
"""Of what the closed form allows: far beyond its saturation a server takes long to simulate."""
LEAST_S, MOST_S = 60.0, 10_000.0
COARSE = 4
"""Ratio between the numbers of robots far below saturation."""
CLOSE_POINTS, CLOSE_NUMBERS = 0.02, 0.01
"""A bracket is narrow enough once its ends differ by no more of the responses, or of the robots."""
BETWEEN: Fleet = {"indy7": 1, "tello": 3}
"""A mix without a curve of its own."""
FLEETS: Sequence[Fleet] = ({"tello": 1}, {"indy7": 1}, {"indy7": 1, "tello": 1})


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What the planner's own scheduler makes of a fleet in virtual time."""

    utility: float
    share_in_slo: float
    mean_response_s: float
    num_requests: int


Asked = Callable[[Fleet, int, float], Trace]
"""What a fleet asks for, given a seed and seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that fleets are tried on.

    Attributes:
        profile: Of the engine; the planner's own time around steps is added where the profile has none.
        scheduler: Policy and limits.
        scripts: Compiles plans.
        asked: What a fleet asks for, by seed and seconds; None for ``fleet_trace``.
    """

    profile: EngineProfile
    scheduler: SchedulerConfig
    scripts: ScriptLibrary
    asked: Asked | None = None

    def requests(self, fleet: Fleet, seeds: Iterable[int], duration_s: float | None = None) -> list[RequestRecord]:
        """Returns what came of every request of a fleet; by default of enough seconds for ``NUM_REQUESTS``."""
        found: list[RequestRecord] = []
        for seed in seeds:
            seconds = duration_s or enough_s(fleet, self.scripts.robots)
            asked = self.asked or partial(fleet_trace, robots=self.scripts.robots)
            trace = asked(fleet, seed, seconds)
            config = SimulationConfig(profile=served(self.profile), scheduler=self.scheduler)
            found += simulate(trace, config, self.scripts).requests
        return found

    def point(self, unit: Fleet, number: int, seeds: Iterable[int]) -> Point:
        """Returns what the server makes of ``number`` times a fleet."""
        requests = self.requests(times(unit, number), seeds)
        return Point(
            number=number,
            within=tuple(round(share_within(requests, limit_s), 4) for limit_s in LIMITS_S),
            utility=round(mean_utility(requests), 4),
        )

    def bracket(self, unit: Fleet, objective: Objective) -> int:
        """Returns the most times a fleet that the closed form allows: where to begin to look."""
        one = demands(fleet_trace(times(unit, 40), 0, 100.0, self.scripts.robots), self.scripts)
        profile, limit = served(self.profile), self.scheduler.max_num_seqs

        def is_kept(number: int) -> bool:
            load = [demand.scaled(number / 40) for demand in one]
            return outlook(load, profile, limit, objective.slo_s).share_in_slo >= objective.share

        return most(is_kept, 1, MOST_ROBOTS)


def enough_s(fleet: Fleet, robots: RobotLibrary) -> float:
    """Returns for how long a fleet must be simulated for ``NUM_REQUESTS``, within ``LEAST_S`` and ``MOST_S``."""
    sample = fleet_trace(times(fleet, 4), 0, LEAST_S, robots)
    per_s = max(1, len(sample.requests)) / (4 * LEAST_S)
    return min(MOST_S, max(LEAST_S, NUM_REQUESTS / per_s))


def make_curve(server: Server, unit: Fleet, seeds: Sequence[int], note: Callable[[str], None]) -> Curve:
    """Returns the curve of a fleet: coarse up to a clear overload, fine where an objective ceases to be kept.

    The closed form says where to begin; the simulation decides by bisection.
    """
    points: dict[int, Point] = {}

    def look(number: int) -> Point:
        if number not in points:
            points[number] = server.point(unit, number, seeds)
            note(f"{describe(unit)} x {number}: {points[number].within[LIMITS_S.index(1.0)]:.1%} within 1 s")
        return points[number]

    loosest = OBJECTIVES[0]
    number = first = math.ceil(BEGIN * max(1, server.bracket(unit, loosest)))
    while look(number).within[LIMITS_S.index(loosest.slo_s)] >= loosest.share and number < MOST_ROBOTS:
        number = math.ceil(1.15 * number)
    while first > 1:
        first = max(1, first // COARSE)
        look(first)
    for objective in OBJECTIVES:
        column = LIMITS_S.index(objective.slo_s)
        while (ends := _open_bracket(points, column, objective.share)) is not None:
            look((ends[0] + ends[1]) // 2)
    return Curve(fleet=dict(unit), points=tuple(points[number] for number in sorted(points)))


def _open_bracket(points: Mapping[int, Point], column: int, share: float) -> tuple[int, int] | None:
    """Returns the two numbers between which a share ceases to be kept, unless they are close."""
    numbers = sorted(points)
    fails = next((i for i, n in enumerate(numbers) if points[n].within[column] < share), None)
    if not fails:
        return None
    low, high = numbers[fails - 1], numbers[fails]
    apart = points[low].within[column] - points[high].within[column]
    is_close = apart <= CLOSE_POINTS or high - low <= max(1, CLOSE_NUMBERS * high)
    return None if is_close else (low, high)


def most(is_kept: Callable[[int], bool], start: int, ceiling: int) -> int:
    """Returns the greatest number that is kept, by bisection from a start; 0 if not even 1 is."""
    low, high = 0, start
    while high <= ceiling and is_kept(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_kept(middle) else (low, middle)
    return low


def times(unit: Fleet, number: int) -> Fleet:
    """Returns ``number`` times a fleet."""
    return {name: count * number for name, count in unit.items()}


def describe(unit: Fleet) -> str:
    """Returns a fleet as commands name it."""
    return ",".join(f"{name}:{count}" for name, count in sorted(unit.items()))


def share_within(requests: Sequence[RequestRecord], limit_s: float) -> float:
    """Returns the share of the requests that are answered within a limit."""
    answers = [r.response_time_s for r in requests]
    return sum(s is not None and s <= limit_s for s in answers) / len(answers) if answers else 0.0


def mean_utility(requests: Sequence[RequestRecord]) -> float:
    """Returns the mean utility as a share of the most possible; unlike elsewhere, losses count as 0."""
    possible = math.fsum(r.time_utility.beta for r in requests)
    return math.fsum(max(0.0, r.utility) for r in requests) / possible if possible else 0.0


def checked(requests: Sequence[RequestRecord], slo_s: float) -> Checked:
    """Returns the figures of a simulation."""
    served_s = [s for r in requests if (s := r.response_time_s) is not None]
    return Checked(
        utility=mean_utility(requests),
        share_in_slo=share_within(requests, slo_s),
        mean_response_s=math.fsum(served_s) / len(served_s) if served_s else math.inf,
        num_requests=len(requests),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What curves claim, and what comes of it.

    Attributes:
        fleet: That is counted.
        slo_s: Limit that 95 % of the responses are to keep.
        number: The most times the fleet that keep it; 0 if not even one does.
        share: Of the responses of ``number`` fleets that are within the limit; of none, None.
    """

    fleet: str
    slo_s: float
    number: int
    share: float | None


Requests = Callable[[Fleet, SchedulerConfig], Sequence[RequestRecord]]
"""What comes of every request of a fleet that a planner with these limits serves."""


def simulated(name: str, seeds: Sequence[int], asked: Asked | None = None) -> Requests:
    """Returns what an engine's profile makes of fleets, in virtual time, over the traces of all seeds."""
    profile, scripts = find_profile(name), ScriptLibrary(RobotLibrary())

    def requests(fleet: Fleet, limits: SchedulerConfig) -> Sequence[RequestRecord]:
        return Server(profile=profile, scheduler=limits, scripts=scripts, asked=asked).requests(fleet, seeds)

    return requests


def check_claims(name: str, requests: Requests, units: Iterable[Fleet] = (*FLEETS, BETWEEN)) -> Iterator[Claim]:
    """Yields the claims of a profile for fleets with and without a curve of their own.

    Args:
        name: Of the profile.
        requests: Serves the fleets.
        units: The fleets that are counted.

    Raises:
        PlannerError: INVALID_CONFIG if the profile is unknown or has no curves.
    """
    robots = RobotLibrary()
    if (data := find_profile(name).capacity) is None:
        message = f"the profile {name} has no capacity curves; run llm-planner capacity curve first"
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    limits, room = SchedulerConfig(policy=data.policy, max_num_seqs=data.max_num_seqs), Room(data, robots)
    for unit in units:
        for objective in reversed(OBJECTIVES):
            number = most(lambda n, u=unit, o=objective: room.holds(times(u, n), o), 1, MOST_ROBOTS)  # type: ignore[misc]
            share = share_within(requests(times(unit, number), limits), objective.slo_s) if number else None
            yield Claim(fleet=describe(unit), slo_s=objective.slo_s, number=number, share=share)


def with_curves(
    name: str,
    limits: SchedulerConfig,
    seeds: Sequence[int],
    note: Callable[[str], None],
    *,
    units: Sequence[Fleet] = FLEETS,
    asked: Asked | None = None,
    planned_by: str = "",
) -> CapacityData:
    """Returns the curves of a profile over all seeds; of an estimate, also those of the ends of its interval.

    Args:
        name: Of the profile.
        limits: Policy and batch limit.
        seeds: Of the traces; a share is counted over all of them.
        note: Receives one line per simulated fleet.
        units: The fleets that are counted, one curve each.
        asked: What fleets ask for; None for the plans of the tasks.
        planned_by: The model that planned it; empty for None.
    """
    scripts = ScriptLibrary(RobotLibrary())

    def curves(profile: EngineProfile) -> tuple[Curve, ...]:
        server = Server(profile=profile, scheduler=limits, scripts=scripts, asked=asked)
        return tuple(make_curve(server, unit, seeds, note) for unit in units)

    about = CapacityData(
        policy=limits.policy,
        max_num_seqs=limits.max_num_seqs,
        limits_s=LIMITS_S,
        expected=curves(_engine(name)),
        planned_by=planned_by,
    )
    if not is_estimate(name):
        return about
    model = load_kernel_model()
    found = estimated_profile(name, model)
    return replace(
        about,
        confidence=found.estimate.confidence,
        slowdown=widened(1.0, found.estimate),
        slow=curves(server_profile(model, found.combination, slow)),
        fast=curves(server_profile(model, found.combination, fast)),
    )


def _engine(name: str) -> EngineProfile:
    return estimated_profile(name).profile if is_estimate(name) else find_profile(name)


def profile_text(name: str) -> str:
    """Returns the YAML of a profile, comments included."""
    if is_estimate(name):
        return yaml.safe_dump(_as_document(estimated_profile(name).profile), sort_keys=False)
    return profile_path(name).read_text(encoding="utf-8")


def with_section(text: str, data: CapacityData) -> str:
    """Returns the text of a profile with its section ``capacity``, the last one, written or replaced."""
    head = "".join(takewhile(lambda line: not line.startswith("capacity:"), text.splitlines(keepends=True)))
    document = {"capacity": _as_document(data)}
    return head + yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=160)


def _as_document(record: EngineProfile | CapacityData) -> dict[str, Any]:
    document: dict[str, Any] = TypeAdapter(type(record)).dump_python(record, mode="json", exclude_none=True)
    return document
