"""How many more robots one server can hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.capacity.demand import Demand, Fleet, load_demands
from llm_planner.prediction.capacity.queueing import Objective, outlook
from llm_planner.prediction.profile import EngineProfile, find_profile
from llm_planner.prediction.throughput.estimated import estimated_profile, is_estimate
from llm_planner.prediction.throughput.model_file import load_kernel_model
from llm_planner.prediction.throughput.server_profile import fast, server_profile, slow
from llm_planner.robots.library import RobotLibrary

MOST_ROBOTS = 4096


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

    Args:
        profiles: Of the engine: ``slow``, ``expected`` and ``fast``.
        confidence: In these.
        max_num_seqs: Batch limit.
        robots: The robot models that the planner knows.
    """

    def __init__(
        self, profiles: Mapping[str, EngineProfile], confidence: float, max_num_seqs: int, robots: RobotLibrary
    ) -> None:
        self._profiles = profiles
        self._confidence = confidence
        self._max_num_seqs = max_num_seqs
        self._robots = robots
        self._demand = lru_cache(maxsize=64)(self._of_one)

    def left(self, active: Fleet, robot_model: str, objective: Objective) -> RoomLeft:
        """Returns how many robots of a model can be added to those that are active, so that the objective holds.

        Raises:
            PlannerError: UNKNOWN_ROBOT_MODEL, or INVALID_CONFIG for a model without a table of demands.
        """
        one = self._demand(robot_model)
        present = [d for name, count in active.items() for d in _times(self._demand(name), count)]
        numbers = {name: self._most(present, one, profile, objective) for name, profile in self._profiles.items()}
        load = [*present, *_times(one, max(1, numbers["expected"]))]
        expected = outlook(load, self._profiles["expected"], self._max_num_seqs, objective.slo_s)
        return RoomLeft(
            num_robots=numbers["expected"],
            num_robots_low=numbers["slow"],
            num_robots_high=numbers["fast"],
            utility=expected.utility,
            confidence=self._confidence,
        )

    def _of_one(self, robot_model: str) -> Sequence[Demand]:
        self._robots.get(robot_model)
        return load_demands(robot_model)

    def _most(
        self, present: Sequence[Demand], one: Sequence[Demand], profile: EngineProfile, objective: Objective
    ) -> int:
        def is_kept(number: int) -> bool:
            load = [*present, *_times(one, number)]
            return outlook(load, profile, self._max_num_seqs, objective.slo_s).share_in_slo >= objective.share

        low, high = 0, 1
        while high <= MOST_ROBOTS and is_kept(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if is_kept(middle) else (low, middle)
        return low


def build_room(profile_name: str, max_num_seqs: int, robots: RobotLibrary) -> Room:
    """Returns the room of a planner whose engine has a profile, measured or estimated.

    Raises:
        PlannerError: INVALID_CONFIG if it has none.
    """
    if not profile_name:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            "the engine's speed is not known beforehand; set engine.profile to one made by llm-planner profile, or to "
            "estimate:HARDWARE/DEVICES/FRAMEWORK/MODEL",
        )
    if not is_estimate(profile_name):
        profile = find_profile(profile_name)
        return Room({"slow": profile, "expected": profile, "fast": profile}, 1.0, max_num_seqs, robots)
    model = load_kernel_model()
    found = estimated_profile(profile_name, model)
    ends = {
        "slow": server_profile(model, found.combination, slow),
        "expected": found.profile,
        "fast": server_profile(model, found.combination, fast),
    }
    return Room(ends, found.estimate.confidence, max_num_seqs, robots)


def _times(load: Sequence[Demand], factor: float) -> Sequence[Demand]:
    return [demand.scaled(factor) for demand in load]
