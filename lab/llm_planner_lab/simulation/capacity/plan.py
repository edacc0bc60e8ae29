"""The plan: how many servers, which batch limit, what utility; in closed form, with an interval."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.capacity.demand import Demand, Fleet
from llm_planner.prediction.capacity.queueing import OVERLOADED, Objective, Outlook, outlook
from llm_planner.prediction.profile import EngineProfile
from llm_planner.prediction.throughput.kernel_model import KernelModel
from llm_planner.prediction.throughput.server_profile import fast, middle, server_profile, slow
from llm_planner.prediction.throughput.table import Combination, Workload
from llm_planner_lab.simulation.capacity.fleet import fleet_trace
from llm_planner_lab.simulation.script import ScriptLibrary
from llm_planner_lab.simulation.simulator import SimulationConfig, simulate
from llm_planner_lab.simulation.workload import STATIC_TOKENS

BATCH_LIMITS = (1, 2, 4, 8, 16, 32, 64)
MOST_SERVERS = 4096
AS_GOOD = 0.002
"""A smaller batch limit is taken if it costs no more than this share of utility."""
ENDS = {"slow": slow, "expected": middle, "fast": fast}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Servers and batch limit, and what they make of the load at one end of the throughput's interval."""

    num_servers: int
    max_num_seqs: int
    outlook: Outlook


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPlan:
    """A plan for a fleet.

    Attributes:
        choice: For the expected throughput.
        num_servers_range: Servers that the fast and the slow end of the throughput's interval would need.
        at: What the chosen servers make of the load if the throughput is ``slow``, ``expected`` or ``fast``.
        confidence: Of the throughput that it rests on, 0 to 1.
        is_seen: Whether the combination was ever measured.
        requests_per_s: Of the whole fleet.
    """

    choice: Choice
    num_servers_range: tuple[int, int]
    at: Mapping[str, Outlook]
    confidence: float
    is_seen: bool
    requests_per_s: float


def plan_capacity(
    model: KernelModel, combination: Combination, load: Sequence[Demand], objective: Objective
) -> CapacityPlan:
    """Returns the fewest servers that keep the objective, and the smallest batch limit that is about as good as any.

    Raises:
        PlannerError: INVALID_CONFIG if not even an idle server keeps it, with what it can keep.
    """
    profiles = {name: server_profile(model, combination, end) for name, end in ENDS.items()}
    choices = {name: choose(profile, load, objective) for name, profile in profiles.items()}
    choice = choices["expected"]
    if choice is None:
        raise _unattainable(profiles["expected"], load, objective, combination)
    share = spread(load, choice.num_servers)
    at = {name: outlook(share, profile, choice.max_num_seqs, objective.slo_s) for name, profile in profiles.items()}
    slowest = choices["slow"]
    estimate = model.estimate(combination, Workload(512, 512, choice.max_num_seqs))
    return CapacityPlan(
        choice=choice,
        num_servers_range=(
            choices["fast"].num_servers if choices["fast"] else choice.num_servers,
            slowest.num_servers if slowest else MOST_SERVERS,
        ),
        at=at,
        confidence=estimate.confidence,
        is_seen=estimate.is_seen,
        requests_per_s=math.fsum(d.per_s for d in load),
    )


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


def _unattainable(
    profile: EngineProfile, load: Sequence[Demand], objective: Objective, combination: Combination
) -> PlannerError:
    idle = outlook(spread(load, 1_000_000), profile, 1, objective.slo_s)
    if idle is OVERLOADED:  # pragma: no cover (a millionth of any load is none)
        return PlannerError(ErrorCode.INVALID_CONFIG, "the load is beyond all measure")
    return PlannerError(
        ErrorCode.INVALID_CONFIG,
        f"{combination} alone answers {idle.share_in_slo:.0%} of the requests within {objective.slo_s:g} s, "
        f"{idle.mean_response_s:.3g} s on the mean, however many servers there are; "
        f"{objective.share:.0%} are asked for: give a longer --slo, a faster device or a smaller model",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What the planner's own scheduler makes of the plan in virtual time."""

    utility: float
    share_in_slo: float
    mean_response_s: float
    num_requests: int


def check_in_simulation(
    fleet: Fleet,
    choice: Choice,
    profile: EngineProfile,
    objective: Objective,
    scripts: ScriptLibrary,
    *,
    seed: int = 0,
    duration_s: float = 300.0,
) -> Checked:
    """Returns what a server makes of its share of the fleet, simulated: the largest share, if robots do not divide."""
    share = {name: -(-count // choice.num_servers) for name, count in fleet.items()}
    trace = fleet_trace(share, seed, duration_s, scripts.robots)
    scheduler = SchedulerConfig(max_num_seqs=choice.max_num_seqs)
    run = simulate(trace, SimulationConfig(profile=profile, scheduler=scheduler), scripts)
    responses_s = [r.response_time_s for r in run.requests]
    served_s = [s for s in responses_s if s is not None]
    most = math.fsum(r.time_utility.beta for r in run.requests)
    return Checked(
        utility=math.fsum(max(0.0, r.utility) for r in run.requests) / most if most else 0.0,
        share_in_slo=sum(s <= objective.slo_s for s in served_s) / len(responses_s) if responses_s else 0.0,
        mean_response_s=math.fsum(served_s) / len(served_s) if served_s else math.inf,
        num_requests=len(responses_s),
    )
