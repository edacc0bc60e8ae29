# SPDX-License-Identifier: Apache-2.0
"""What the policies that weigh utility against time have in common: due times, worth, and estimates of time."""

import math
from collections.abc import Hashable
from typing import Protocol

from llm_planner.scheduling.policies.interface import GenerationView, Rank

SUB_QUEUE_TOKENS = 16
"""Prompt lengths are rounded up to a multiple of this when their time is estimated."""


LEAST_WEIGHT = 1e-3
AGEING_PER_S = 0.05
LOOKAHEAD_S = 0.1
"""Slack at which the cost of waiting counts a third: about the time of one segment."""


class Forecast(Protocol):
    """Estimates of the engine's pace, learned while it runs."""

    @property
    def network_latency_s(self) -> float:
        """One-way delay between planner and robot."""
        ...

    @property
    def step_s(self) -> float:
        """Mean time of a decode step; 0 for an engine whose steps take no time."""
        ...

    def generation_time_s(self, generation: GenerationView) -> float:
        """Returns how long its next segment takes if it runs from now on: G(s_k) of TimelyLLM, Eq. (4); > 0."""
        ...

    def move_s(self, num_tokens: int) -> float:
        """Returns how long the batch waits while the KV of so many tokens moves to host memory and back."""
        ...

    def chunk_s(self, num_prompt_tokens: int) -> float:
        """Returns the seconds that a chunk of a prompt adds to a step."""
        ...


class NominalForecast:
    """Before anything is known: what TimelyLLM reports (section 7, Table 1) for Llama-3-8B on an RTX 4090.

    90 ms per segment, 8 ms of network, 21.4 ms per step, 1,300 tokens moved in 9.5 ms, 1,170 computed in 133 ms.
    """

    network_latency_s = 0.008
    step_s = 0.0214

    def generation_time_s(self, generation: GenerationView) -> float:
        """Returns a constant."""
        return 0.09

    def move_s(self, num_tokens: int) -> float:
        """Returns the time of both ways."""
        return 2 * 0.0095 / 1300 * num_tokens

    def chunk_s(self, num_prompt_tokens: int) -> float:
        """Returns a time in proportion to the tokens."""
        return 0.133 / 1170 * num_prompt_tokens


class PricedPolicy:
    """Base of policies that suspend, deliver segments at once, and look at utility and time.

    Attributes:
        limits_batch: Whether the latency-guided limit (``scheduling.batch_limit``) is asked in every step.
        forecast: Where estimates come from; the scheduler sets its own.
    """

    suspends = True
    streams = True
    limits_batch = True

    def __init__(self, forecast: Forecast | None = None) -> None:
        self.forecast: Forecast = forecast or NominalForecast()

    def due_s(self, generation: GenerationView) -> float:
        """Returns when its next segment must leave the planner so as not to lose utility.

        ERT after the arrival for the first segment, the moment when the robot becomes idle for later ones, whose ERT
        is 0 (TimelyLLM, section 4.2), both less the way to the robot.
        """
        network_s = self.forecast.network_latency_s
        if generation.num_segments == 0:
            return generation.arrival_s + generation.request.time_utility.ert_s - network_s
        return generation.robot_idle_at_s - network_s

    def weight(self, generation: GenerationView, now_s: float) -> float:
        """Returns the utility that a late one loses per second; > 0.

        Deviation: it grows slowly with lateness, so that more important requests put off none for ever, not even
        a request whose utility never falls.
        """
        lateness_s = now_s - self.due_s(generation)
        ageing = AGEING_PER_S * lateness_s if lateness_s > 0 else 0.0
        return LEAST_WEIGHT + generation.request.time_utility.loss_per_s(lateness_s) + ageing

    def delay_cost(self, generation: GenerationView, now_s: float) -> float:
        """Returns the utility that it is expected to lose per second of delay: its weight, discounted by its slack."""
        slack_s = self.due_s(generation) - now_s - self.forecast.generation_time_s(generation)
        weight = self.weight(generation, now_s)
        return weight * math.exp(-slack_s / LOOKAHEAD_S) if slack_s > 0 else weight

    def sub_queue(self, generation: GenerationView) -> tuple[Hashable, Rank]:
        """Returns the kind of work, and its due time: of two alike, the one that is due first goes first.

        That holds for Eq. (1). What falls otherwise may have less to lose the later it is, and gets its own sub-queue.
        """
        request, time_utility = generation.request, generation.request.time_utility
        if not time_utility.is_linear:
            return (generation.order, ())
        kind = (
            request.robot_model,
            request.urgency,
            time_utility.ert_s,
            time_utility.alpha,
            time_utility.beta,
            generation.num_segments == 0,
            0 if generation.is_decoding else -(-generation.num_uncomputed_tokens // SUB_QUEUE_TOKENS),
            generation.num_segment_steps,
        )
        return (kind, (self.due_s(generation),))
