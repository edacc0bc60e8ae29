"""What a server makes of a load, in closed form: steps, waiting, utility."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from llm_planner.prediction.profile import Chunk, EngineProfile
from llm_planner.simulation.capacity.fleet import Demand

NETWORK_S = 0.016
"""To the planner and back."""
ROUNDS = 60
QUANTILES = tuple((number + 0.5) / 20 for number in range(20))
STATIC_TOKENS = 1100
"""In the cache of every sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What to expect of one server.

    Attributes:
        utility: Mean utility of a response, as a share of the most possible.
        share_in_slo: Share of responses within the limit.
        mean_response_s: From a request to the robot's first segment.
        load: Share of the batch limit that is occupied on the mean; 1 and more means that it cannot keep up.
    """

    utility: float
    share_in_slo: float
    mean_response_s: float
    load: float


OVERLOADED = Outlook(utility=0.0, share_in_slo=0.0, mean_response_s=math.inf, load=math.inf)


def outlook(demands: Sequence[Demand], profile: EngineProfile, max_num_seqs: int, slo_s: float) -> Outlook:
    """Returns what a server with a batch limit makes of a load.

    Sequences occupy places only while they are generated: a suspended one does not. The mean number of places follows
    from Little's law with steps as long as that many sequences make them (a fixed point); whoever finds all places
    taken waits as in an M/M/c queue (Erlang C). The scheduler serves urgent requests first, which this leaves out.
    """
    rate_per_s = math.fsum(d.per_s for d in demands)
    num_seqs = 1.0
    for _ in range(ROUNDS):
        occupied = math.fsum(d.per_s * _service_s(d, d.num_tokens, profile, num_seqs) for d in demands)
        target = min(float(max_num_seqs), 1.0 + occupied)
        num_seqs += 0.5 * (target - num_seqs)
    load = occupied / max_num_seqs
    if load >= 1.0:
        return OVERLOADED
    waits = _waits_s(occupied, max_num_seqs, rate_per_s)
    in_slo, utility, most, response_s = 0.0, 0.0, 0.0, 0.0
    for d in demands:
        first_s = NETWORK_S + _service_s(d, d.first_tokens, profile, num_seqs)
        weight = d.per_s / (rate_per_s * len(waits))
        for wait_s in waits:
            in_slo += weight * (first_s + wait_s <= slo_s)
            utility += weight * max(0.0, d.time_utility(first_s + wait_s))
            response_s += weight * (first_s + wait_s)
        most += weight * len(waits) * d.time_utility.beta
    return Outlook(utility=utility / most, share_in_slo=in_slo, mean_response_s=response_s, load=load)


def _service_s(demand: Demand, num_tokens: int, profile: EngineProfile, num_seqs: float) -> float:
    """Returns the seconds that so many tokens of a request take among ``num_seqs``, its prompt included."""
    decode = profile.decode
    kv_tokens = num_seqs * (STATIC_TOKENS + demand.num_tokens / 2)
    step_s = (
        decode.base_s.value + decode.per_sequence_s.value * (num_seqs - 1.0) + decode.per_kv_token_s.value * kv_tokens
    )
    prefill_s = profile.step_s([Chunk(max(17, round(demand.num_prompt_tokens)), STATIC_TOKENS)])
    return prefill_s + (num_tokens - 1) * step_s


def _waits_s(occupied: float, num_places: int, rate_per_s: float) -> Sequence[float]:
    """Returns quantiles of the wait for a place: none with the chance that one is free, else exponential."""
    chance = _erlang_c(occupied, num_places)
    service_s = occupied / rate_per_s
    mean_s = service_s / (num_places - occupied)
    return [0.0 if q <= 1.0 - chance else mean_s * math.log(chance / (1.0 - q)) for q in QUANTILES]


def _erlang_c(occupied: float, num_places: int) -> float:
    """Returns the chance to find all places taken (Erlang C), by the recursion for Erlang B."""
    blocked = 1.0
    for place in range(1, num_places + 1):
        blocked = occupied * blocked / (place + occupied * blocked)
    return blocked / (1.0 - occupied / num_places * (1.0 - blocked))
