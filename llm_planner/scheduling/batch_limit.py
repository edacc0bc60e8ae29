# SPDX-License-Identifier: Apache-2.0
"""Latency-guided batch size (TimelyLLM, section 4.4): may one more generation join this step, and with how much?"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from llm_planner.scheduling.generation import Generation
from llm_planner.scheduling.policies.pricing import PricedPolicy
from llm_planner.scheduling.step_times import StepTimes

PAUSE_MARGIN_S = 0.3
"""Slack beyond its generation time that a generation must have left to be paused for others."""
NUM_PRICED = 4
"""Of the generations behind those that could run, how many are looked at to price them all."""


class LatencyGuidedLimit:
    """Asked in the policy's order, most pressing first, and told who runs; lives for one decision.

    A generation joins if those before it still finish their segments in time: each may take
    ``(due - now) / remaining steps`` per step (WCET: remaining tokens over measured speed). Else it pauses, keeping its
    KV, if that costs less than it brings:

    - it brings ``slope`` seconds to each that is late or just in time before it, at what a second of delay costs them;
    - it costs a generation that is pressing itself one step, and those that wait for a slot the ``base / B`` seconds of
      the engine that a place left empty in a batch of ``B`` wastes.

    Deviation: in the paper, a running request runs on until its segment is complete. Here all running ones are
    checked again in every step, so that low-utility work yields at once. Prompt tokens are limited as well
    (``prompt_tokens``), so that prompts do not make robots that are being served wait without need.

    Args:
        policy: Gives due times, weights, and what delay costs.
        times: Of the engine.
        now_s: The time of the decision.
        behind: First of those that find no slot, in the policy's order.
        num_behind: How many find none.
        price_per_s: What a second of the engine that is wasted costs those that are not there yet.
    """

    def __init__(
        self,
        policy: PricedPolicy,
        times: StepTimes,
        now_s: float,
        behind: Sequence[Generation] = (),
        num_behind: int = 0,
        price_per_s: float = 0.0,
    ) -> None:
        self._policy = policy
        self._times = times
        self._now_s = now_s
        self._num_seqs = 0
        self._allowance_s = math.inf
        self._late_weight = self._tightest_weight = 0.0
        self._base_s, self._slope_s = times.model.base_s, times.model.slope_s
        self._decoding: list[Generation] = []
        self._behind, self._num_behind = behind, num_behind
        self._price_per_s = price_per_s
        self._cost_behind = self._cost_of_those_behind(now_s)

    def _cost_of_those_behind(self, at_s: float) -> float:
        """Returns what a second of delay costs those that find no slot, if it comes at ``at_s``."""
        costs = [self._policy.delay_cost(generation, at_s) for generation in self._behind]
        return self._num_behind * sum(costs) / len(costs) if costs else 0.0

    def admits(self, generation: Generation) -> bool:
        """Returns whether it may run in this step, with those that were counted."""
        left_s = self._policy.due_s(generation) - self._now_s
        step_s = self._base_s + self._slope_s * self._num_seqs  # with this one more
        helped_weight = self._late_weight + (self._tightest_weight if step_s > self._allowance_s else 0.0)
        return not (helped_weight and self._pauses(generation, left_s, step_s, helped_weight * self._slope_s))

    def count(self, generation: Generation) -> None:
        """Counts one that runs in this step: no other is held back for one that was admitted but found no memory."""
        self._num_seqs += 1
        if generation.is_decoding:
            self._decoding.append(generation)
        left_s = self._policy.due_s(generation) - self._now_s
        allowance_s = left_s / self._times.remaining_steps(generation)
        if allowance_s < self._base_s:  # late whatever happens
            self._late_weight += self._policy.weight(generation, self._now_s)
        elif allowance_s < self._allowance_s:
            self._allowance_s = allowance_s
            self._tightest_weight = self._policy.weight(generation, self._now_s)

    def _pauses(self, generation: Generation, left_s: float, step_s: float, gain: float) -> bool:
        """Returns whether a generation that is due in ``left_s`` had better leave this step to those before it."""
        cost = self._cost_behind * self._base_s / (self._num_seqs + 1)
        is_far = left_s > PAUSE_MARGIN_S  # if not, no time that it takes can make it so
        if not (is_far and left_s - 2 * self._times.generation_time_s(generation) > PAUSE_MARGIN_S):
            cost += self._policy.weight(generation, self._now_s) * step_s
        return cost < gain

    def prompt_tokens(self, prompts: Sequence[Generation], max_tokens: int) -> int:
        """Returns how many prompt tokens this step computes: as many as cost least by the delay that they make.

        Large chunks make every step longer for those that decode; small ones make more steps, each of which costs the
        engine its constant, and the prompts wait for the last one. So for the tokens that a step takes for free, and
        for one, two, ... whole prompts, the loss is added up as if all steps were alike until these prompts are
        computed: of those that decode in this step, of each prompt until its last chunk, and of those that find no slot
        until all are computed. If the prompts lose less by waiting until those that decode are done, none is computed.
        Requests that come later pay for the engine's time: for prompts in pieces, and for places in steps that stay
        empty while a prompt waits.

        Args:
            prompts: That may run, in the policy's order; with tokens to compute.
            max_tokens: Most tokens that are left in the step.
        """
        ends = list(accumulate(generation.num_uncomputed_tokens for generation in prompts))
        model, free_tokens = self._times.model, min(self._times.free_tokens, max_tokens)
        if not ends or not max_tokens or (model.hides_prompts and ends[-1] <= free_tokens):
            return free_tokens
        begins_s = [self._now_s + model.rate_s * ahead for ahead in (0, *ends)]  # behind the prompts before it
        costs = [self._policy.delay_cost(*begun) for begun in zip(prompts, begins_s, strict=False)]
        cost_behind = self._cost_of_those_behind(begins_s[-1])
        decoding = [
            (self._policy.delay_cost(generation, self._now_s), self._times.remaining_steps(generation))
            for generation in self._decoding
        ]

        place_s = self._base_s / (len(decoding) + len(prompts))  # of the engine: an empty place in a step wastes it

        def losses(size: int) -> tuple[float, float]:
            """Returns what chunks of that size cost those that decode, and all others."""
            num_chunks = min(len(ends), bisect_left(ends, size) + 1)
            num_seqs = len(decoding) + num_chunks
            step_s = model.step_s(size, num_seqs, num_chunks)
            num_steps = -(-ends[-1] // size)
            of_decoding = (step_s - model.step_s(0, num_seqs)) * sum(
                cost * min(remaining, num_steps) for cost, remaining in decoding
            )
            num_waited = cost_behind * num_steps
            num_waited += sum(cost * -(-end // size) for cost, end in zip(costs, ends, strict=True))
            engine_s = num_steps * (step_s - model.step_s(0, len(decoding)))
            engine_s += place_s * sum(-(-end // size) - 1 for end in ends)
            return of_decoding, step_s * num_waited + self._price_per_s * engine_s

        sizes = {min(end, max_tokens) for end in ends if end > free_tokens or not model.hides_prompts} | {free_tokens}
        best = min(sorted(sizes), key=lambda size: sum(losses(size)))
        lost_by_decoding, _ = losses(best)
        if lost_by_decoding == 0.0:
            return best
        num_steps = sum(cost * remaining for cost, remaining in decoding) / sum(cost for cost, _ in decoding)
        lost_by_waiting = (sum(costs) + cost_behind) * num_steps * model.step_s(0, len(decoding))
        lost_by_waiting += self._price_per_s * num_steps * len(prompts) * place_s
        return 0 if lost_by_waiting < lost_by_decoding else best


class SlotExchange:
    """Asked whether a ready generation should take the slot of a running one; lives for one decision.

    A slot frees itself when the first running generation completes its segment. Until then the newcomer loses more than
    the incumbent would, or it does not rank before it; but an exchange moves KV out and in again, which costs about a
    step of the engine, and all that wait pay for it.

    Args:
        policy: Says what delay costs.
        times: Of the engine.
        now_s: The time of the decision.
        running: All that hold a slot.
        waiting: First of those that wait for one, in the policy's order.
    """

    def __init__(
        self,
        policy: PricedPolicy,
        times: StepTimes,
        now_s: float,
        running: Sequence[Generation],
        waiting: Sequence[Generation],
    ) -> None:
        self._policy = policy
        self._now_s = now_s
        self._free_in_s = sorted(times.generation_time_s(generation) for generation in running)
        self._step_s = times.step_s
        costs = [policy.delay_cost(generation, now_s) for generation in waiting[:NUM_PRICED]]
        self._mean_cost = sum(costs) / len(costs) if costs else 0.0
        self._num_made = 0

    def pays(self, incumbent: Generation, newcomer: Generation, num_waiting: int) -> bool:
        """Returns whether an exchange costs less than waiting for a slot, and counts it if so."""
        more = self._policy.delay_cost(newcomer, self._now_s) - self._policy.delay_cost(incumbent, self._now_s)
        if more * self._free_in_s[self._num_made] <= self._step_s * self._mean_cost * (num_waiting - 1):
            return False
        self._num_made += 1
        return True
