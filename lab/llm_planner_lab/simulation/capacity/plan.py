# SPDX-License-Identifier: Apache-2.0
"""The plan: how many servers, which batch limit, what utility; the closed form brackets, the simulation decides."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.capacity.room import Fleet, Objective
from llm_planner.prediction.profile import EngineProfile, served
from llm_planner.prediction.throughput.kernel_model import KernelModel
from llm_planner.prediction.throughput.server_profile import fast, middle, server_profile, slow
from llm_planner.prediction.throughput.table import Combination, Workload
from llm_planner_lab.simulation.capacity.fleet import demands, fleet_trace
from llm_planner_lab.simulation.capacity.queueing import OVERLOADED, Demand, Outlook, outlook
from llm_planner_lab.simulation.capacity.saturation import Checked, Server, checked, enough_s
from llm_planner_lab.simulation.script import ScriptLibrary
from llm_planner_lab.simulation.workload import STATIC_TOKENS

BATCH_LIMITS = (1, 2, 4, 8, 16, 32, 64)
MOST_SERVERS = 4096
SURE = 1.25
"""Servers that are overloaded in closed form by more than this factor are not simulated."""
AS_GOOD = 0.002
"""A smaller batch limit is taken if it costs no more than this share of utility."""
ENDS = {"slow": slow, "expected": middle, "fast": fast}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Servers and batch limit, and what they make of the load in closed form: where the simulation begins."""

    num_servers: int
    max_num_seqs: int
    outlook: Outlook


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Servers and batch limit, and what one server makes of its share of the fleet in the simulation."""

    num_servers: int
    max_num_seqs: int
    checked: Checked


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPlan:
    """A plan for a fleet.

    Attributes:
        decision: For the expected throughput.
        num_servers_range: Servers that the fast and the slow end of the throughput's interval need; None at the slow
            end if no number is enough there.
        at: What one of the chosen servers makes of its share if the throughput is ``slow``, ``expected`` or ``fast``.
        confidence: Of the throughput that it rests on, 0 to 1.
        is_seen: Whether the combination was ever measured.
        requests_per_s: Of the whole fleet.
    """

    decision: Decision
    num_servers_range: tuple[int, int | None]
    at: Mapping[str, Checked]
    confidence: float
    is_seen: bool
    requests_per_s: float


def plan_capacity(
    model: KernelModel,
    combination: Combination,
    fleet: Fleet,
    objective: Objective,
    scripts: ScriptLibrary,
    *,
    seed: int = 0,
    duration_s: float = 300.0,
) -> CapacityPlan:
    """Returns the fewest servers that keep the objective in the simulation, and the smallest batch limit that does.

    Args:
        model: Predicts throughput.
        combination: The server.
        fleet: That the servers share.
        objective: What is good enough.
        scripts: Compiles plans.
        seed: Of the traces.
        duration_s: Of the traces, at least: they are as much longer as ``NUM_REQUESTS`` take.

    Raises:
        PlannerError: INVALID_CONFIG for names that exist nowhere, or if not even a server for each robot keeps the
            objective, with what it keeps.
    """
    seconds = max(duration_s, enough_s(fleet, scripts.robots))
    load = demands(fleet_trace(fleet, seed, seconds, scripts.robots), scripts)
    trials = {
        name: Trial(server_profile(model, combination, end), fleet, load, objective, scripts, seed, duration_s)
        for name, end in ENDS.items()
    }
    expected = trials["expected"]
    decision = expected.fewest(expected.start())
    if decision is None:
        raise _unattainable(expected, combination)
    number, limit = decision.num_servers, decision.max_num_seqs
    fewest = {name: trials[name].fewest(number) for name in ("fast", "slow")}
    slowest = fewest["slow"]
    estimate = model.estimate(combination, Workload(512, 512, limit))
    return CapacityPlan(
        decision=decision,
        num_servers_range=(
            fewest["fast"].num_servers if fewest["fast"] else number,
            slowest.num_servers if slowest else None,
        ),
        at={name: trial.check(number, limit) for name, trial in trials.items()},
        confidence=estimate.confidence,
        is_seen=estimate.is_seen,
        requests_per_s=math.fsum(d.per_s for d in load),
    )


class Trial:
    """Tries numbers of servers of one speed in the simulation.

    Args:
        profile: Of the engine.
        fleet: That the servers share: the one with the largest share counts, if robots do not divide.
        load: What the fleet demands.
        objective: What is good enough.
        scripts: Compiles plans.
        seed: Of the traces.
        duration_s: Of the traces, at least.
    """

    def __init__(
        self,
        profile: EngineProfile,
        fleet: Fleet,
        load: Sequence[Demand],
        objective: Objective,
        scripts: ScriptLibrary,
        seed: int,
        duration_s: float,
    ) -> None:
        self._profile, self._load, self.objective = served(profile), load, objective
        self._fleet, self._scripts, self._seed, self._duration_s = fleet, scripts, seed, duration_s
        self._known: dict[tuple[tuple[tuple[str, int], ...], int], Checked] = {}
        self.most = sum(fleet.values())
        self.largest_limit = _limits(self._profile)[-1]

    def start(self) -> int:
        """Returns the number of servers that the closed form would take."""
        choice = choose(self._profile, self._load, self.objective)
        return self.most if choice is None else min(choice.num_servers, self.most)

    def fewest(self, start: int) -> Decision | None:
        """Returns the fewest servers that keep the objective and their smallest batch limit; None if none do.

        Looks around ``start`` in growing steps, then bisects.
        """
        low, high, step = start - 1, start, 1
        while not self._is_kept(high):
            if high >= self.most:
                return None
            low, high, step = high, min(self.most, high + step), 2 * step
        while low > 0 and self._is_kept(low):
            low, high, step = max(0, low - step), low, 2 * step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._is_kept(middle) else (middle, high)
        limits = _limits(self._profile)
        limit = next(limit for limit in limits if self._keeps(high, limit))
        return Decision(num_servers=high, max_num_seqs=limit, checked=self.check(high, limit))

    def check(self, num_servers: int, max_num_seqs: int) -> Checked:
        """Returns what one of ``num_servers`` servers makes of its share; the one that keeps the objective worst."""
        share = {name: -(-count // num_servers) for name, count in self._fleet.items()}
        shares = [{name: 1} for name in share] if num_servers >= self.most else [share]
        return min((self._of_share(share, max_num_seqs) for share in shares), key=lambda found: found.share_in_slo)

    def _of_share(self, share: Fleet, max_num_seqs: int) -> Checked:
        key = (tuple(share.items()), max_num_seqs)
        if key not in self._known:
            limits = SchedulerConfig(max_num_seqs=max_num_seqs)
            server = Server(profile=self._profile, scheduler=limits, scripts=self._scripts)
            duration_s = max(self._duration_s, enough_s(share, self._scripts.robots))
            self._known[key] = checked(server.requests(share, (self._seed,), duration_s), self.objective.slo_s)
        return self._known[key]

    def _is_kept(self, num_servers: int) -> bool:
        """Returns whether the largest batch limit keeps the objective; a larger one is never far behind a smaller."""
        return self._keeps(num_servers, self.largest_limit)

    def _keeps(self, num_servers: int, max_num_seqs: int) -> bool:
        fewer = [demand.scaled(1.0 / (SURE * num_servers)) for demand in self._load]
        if outlook(fewer, self._profile, max_num_seqs, self.objective.slo_s) is OVERLOADED:
            return False
        return self.check(num_servers, max_num_seqs).share_in_slo >= self.objective.share


def choose(profile: EngineProfile, load: Sequence[Demand], objective: Objective) -> Choice | None:
    """Returns the fewest servers and their batch limit; None if no number of them is enough."""

    def best(num_servers: int) -> Choice | None:
        share = spread(load, num_servers)
        found = [(limit, outlook(share, profile, limit, objective.slo_s)) for limit in _limits(profile)]
        kept = [(limit, o) for limit, o in found if o.share_in_slo >= objective.share]
        if not kept:
            return None
        utility = max(o.utility for _, o in kept)
        limit, chosen = next((limit, o) for limit, o in kept if o.utility >= (1.0 - AS_GOOD) * utility)
        return Choice(num_servers=num_servers, max_num_seqs=limit, outlook=chosen)

    most = 1
    while (choice := best(most)) is None:
        if most >= MOST_SERVERS:
            return None
        most *= 2
    low, high = most // 2, most  # low is not enough, high is
    while high - low > 1:
        number = (low + high) // 2
        found = best(number)
        low, high, choice = (low, number, found) if found else (number, high, choice)
    return choice


def spread(load: Sequence[Demand], num_servers: int) -> Sequence[Demand]:
    """Returns the share of one of ``num_servers`` servers."""
    return [replace(d, per_s=d.per_s / num_servers) for d in load]


def _limits(profile: EngineProfile) -> Sequence[int]:
    """Returns the batch limits whose caches fit."""
    most = profile.num_kv_blocks * profile.block_size // (STATIC_TOKENS + 300)
    return [limit for limit in BATCH_LIMITS if limit <= max(1, most)]


def _unattainable(trial: Trial, combination: Combination) -> PlannerError:
    alone, objective = trial.check(trial.most, trial.largest_limit), trial.objective
    return PlannerError(
        ErrorCode.INVALID_CONFIG,
        f"even with a server for each robot and a batch limit of {trial.largest_limit}, {combination} answers "
        f"{alone.share_in_slo:.0%} of {alone.num_requests} requests within {objective.slo_s:g} s, "
        f"{alone.mean_response_s:.3g} s on the mean; {objective.share:.0%} are asked for: "
        "give a longer --slo, a faster device or a smaller model",
    )
