# SPDX-License-Identifier: Apache-2.0
"""Latency-guided batch size (TimelyLLM, section 4.4): may one more generation join this step?"""

import math

from llm_planner.scheduling.generation import Generation
from llm_planner.scheduling.policies.pricing import PricedPolicy
from llm_planner.scheduling.step_times import StepTimes

PAUSE_MARGIN_S = 0.3
"""Slack beyond its generation time that a generation must have left to be paused for others."""


class LatencyGuidedLimit:
    """Asked in the policy's order, most pressing first; lives for one decision.

    A generation joins if those before it still finish their segments in time: each may take
    ``(due - now) / remaining steps`` per step (WCET: remaining tokens over measured speed). One that is not
    pressing pauses instead, keeping its KV; one that is pressing itself joins if it would lose
    more by pausing for this step than the late ones before it lose by the longer step.

    Deviation: in the paper, a running request runs on until its segment is complete. Here all running ones are
    checked again in every step, so that low-utility work yields at once. Prompt tokens are limited to what a step
    computes for free while it reads the weights, so that no prompt makes a robot that is being served wait.

    Args:
        policy: Gives due times and weights.
        times: Of the engine.
        now_s: The time of the decision.
    """

    def __init__(self, policy: PricedPolicy, times: StepTimes, now_s: float) -> None:
        self._policy = policy
        self._times = times
        self._now_s = now_s
        self._num_seqs = 0
        self._allowance_s = math.inf
        self._late_weight = 0.0
        self._base_s, self._slope_s = times.model.base_s, times.model.slope_s
        self.free_tokens = times.free_tokens

    def admits(self, generation: Generation) -> bool:
        """Returns whether it may run in this step, and counts it if so."""
        left_s = self._policy.due_s(generation) - self._now_s
        step_s = self._base_s + self._slope_s * self._num_seqs  # with this one more
        loss = self._late_weight * self._slope_s  # of the late ones, per second that a longer step takes
        is_tight = loss > 0 or step_s > self._allowance_s
        if is_tight and self._pauses(generation, left_s, step_s, loss):
            return False
        self._num_seqs += 1
        allowance_s = left_s / self._times.remaining_steps(generation)
        if allowance_s < self._base_s:  # late whatever happens
            self._late_weight += self._policy.weight(generation, self._now_s)
        elif allowance_s < self._allowance_s:
            self._allowance_s = allowance_s
        return True

    def _pauses(self, generation: Generation, left_s: float, step_s: float, loss: float) -> bool:
        """Returns whether a generation that is due in ``left_s`` can do without this step, or should."""
        is_far = left_s > PAUSE_MARGIN_S  # if not, no time that it takes can make it so
        if is_far and left_s - 2 * self._times.generation_time_s(generation) > PAUSE_MARGIN_S:
            return True
        return self._policy.weight(generation, self._now_s) * step_s < loss
