# SPDX-License-Identifier: Apache-2.0
"""What a server makes of what robots ask of it, in closed form: steps, waiting, utility."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from llm_planner.core.execution_time import MOST_DECODED_TOKENS
from llm_planner.core.time_utility import TimeUtility
from llm_planner.prediction.profile import Chunk, EngineProfile
from llm_planner.robots.record import require

NETWORK_S = 0.016
"""To the planner and back."""
ROUNDS = 60
CONVERGED = 1e-4
QUANTILES = tuple((number + 0.5) / 20 for number in range(20))
STATIC_TOKENS = 1100
"""In the cache of every sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One kind of request of a fleet.

    Attributes:
        per_s: How many come per second.
        num_prompt_tokens: That are computed for it: the static part of a prompt is shared.
        first_tokens: Until the robot can begin.
        num_tokens: Of the whole plan.
        time_utility: What a response is worth.
    """

    per_s: float
    num_prompt_tokens: float
    first_tokens: int
    num_tokens: int
    time_utility: TimeUtility

    def __post_init__(self) -> None:
        sizes = (self.per_s, self.num_prompt_tokens, self.first_tokens, self.num_tokens)
        require(all(math.isfinite(size) and size > 0 for size in sizes), "a demand has positive finite numbers")

    def scaled(self, factor: float) -> "Demand":
        """Returns the demand of ``factor`` times as many robots."""
        return replace(self, per_s=self.per_s * factor)


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
    from Little's law with steps as long as that many sequences make them (a fixed point), stretched by the share of the
    time in which prompts, as far as they do not hide behind decoding, and their preparation hold up all; a request that
    finds all places taken waits as in an M/M/c queue (Erlang C). The scheduler serves urgent requests first and limits
    batches, which this leaves out: it brackets what is simulated, and claims nothing.
    """
    server = _Server(demands, profile)
    if server.stalled >= 1.0:
        return OVERLOADED
    num_seqs, occupied = 1.0, 0.0
    for _ in range(ROUNDS):
        occupied = server.occupied(num_seqs)
        change = min(float(max_num_seqs), 1.0 + occupied) - num_seqs
        num_seqs += 0.5 * change
        if abs(change) < CONVERGED:
            break
    load = occupied / max_num_seqs
    if load >= 1.0:
        return OVERLOADED
    rate_per_s = float(server.per_s.sum())
    waits = _waits_s(occupied, max_num_seqs, rate_per_s)
    in_slo, utility, most, response_s = 0.0, 0.0, 0.0, 0.0
    for d, first_s in zip(demands, server.first_s(num_seqs), strict=True):
        weight = d.per_s / (rate_per_s * len(waits))
        for wait_s in waits:
            whole_s = NETWORK_S + float(first_s) + wait_s
            in_slo += weight * (whole_s <= slo_s)
            utility += weight * max(0.0, d.time_utility(whole_s))
            response_s += weight * whole_s
        most += weight * len(waits) * d.time_utility.beta
    return Outlook(
        utility=min(1.0, utility / most), share_in_slo=min(1.0, in_slo), mean_response_s=response_s, load=load
    )


class _Server:
    """What the requests of a load take on one server, all kinds at once.

    Attributes:
        per_s: Requests per second, by kind.
        stalled: Share of the time in which prompts and their preparation hold up every sequence.
    """

    def __init__(self, demands: Sequence[Demand], profile: EngineProfile) -> None:
        self.per_s = np.array([d.per_s for d in demands])
        self._first = np.array([d.first_tokens for d in demands], dtype=np.float64)
        self._total = np.array([d.num_tokens for d in demands], dtype=np.float64)
        self._decode, self._host = profile.decode, profile.host
        prefill_s = np.array([_prefill_s(d, profile) for d in demands])
        prepare_s = np.array([self._host.preparation_s(STATIC_TOKENS + round(d.num_prompt_tokens)) for d in demands])
        hidden_s = self._decode.base_s.value if profile.hides_prompts else 0.0
        self.stalled = float(self.per_s @ (np.maximum(0.0, prefill_s - hidden_s) + prepare_s))
        self._before_s = prefill_s + prepare_s + self._host.around_step_s(1)

    def occupied(self, num_seqs: float) -> float:
        """Returns how many places are taken on the mean, if steps are as long as ``num_seqs`` make them."""
        return float(self.per_s @ self._service_s(self._total, num_seqs))

    def first_s(self, num_seqs: float) -> NDArray[np.float64]:
        """Returns the seconds until the first segments are written."""
        return self._service_s(self._first, num_seqs) + 2 * self._host.transport_s.value

    def _service_s(self, num_tokens: NDArray[np.float64], num_seqs: float) -> NDArray[np.float64]:
        decode, host = self._decode, self._host
        kv_tokens = num_seqs * (STATIC_TOKENS + self._total / 2)
        step_s = decode.base_s.value + decode.per_sequence_s.value * (num_seqs - 1.0)
        step_s += host.step_s.value + host.step_per_sequence_s.value * num_seqs
        decoding_s = (num_tokens - 1.0) * (step_s + decode.per_kv_token_s.value * kv_tokens)
        service_s: NDArray[np.float64] = (self._before_s + decoding_s) / (1.0 - self.stalled)
        return service_s


def _prefill_s(demand: Demand, profile: EngineProfile) -> float:
    num_tokens = max(MOST_DECODED_TOKENS + 1, round(demand.num_prompt_tokens))
    return profile.step_s([Chunk(num_tokens, STATIC_TOKENS)])


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
