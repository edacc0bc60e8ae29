# SPDX-License-Identifier: Apache-2.0
"""Tardiness where memory is short: loss per second times the chance to end soon per token of memory and step."""

import math
from collections.abc import Hashable, Iterable

from llm_planner.scheduling.admission.job import Job
from llm_planner.scheduling.admission.remaining import RemainingWork
from llm_planner.scheduling.policies.interface import GenerationView, Rank
from llm_planner.scheduling.policies.memory_safe import MemorySafe
from llm_planner.scheduling.policies.pricing import LOOKAHEAD_S, Forecast
from llm_planner.scheduling.policies.tardiness import Tardiness

REFERENCE_TOKENS = 1024
"""KV of this length says what each token costs to bring back, or to compute."""
OFF_BY, LEAST_STEPS = 0.5, 0.1
"""Costs, in steps per ``REFERENCE_TOKENS``, are taken over when they are off by this share of them or of the least
that count: every time, all indices are computed again."""


class TardinessSafe(Tardiness, MemorySafe):
    """Where memory is short ``Pri = -alpha G exp(-max(0, L) / K)``, most first, G a Gittins index; else ``tardiness``.

    As ``tardiness``, but what is short is memory: a request is worth its loss per second times the chance that it ends
    soon, per token of memory and step that it takes until then (Gittins, 1979; ``admission.gittins``). Lengths are
    learned while it runs. What KV has to be brought back or computed first counts as memory times steps that the whole
    batch loses, so that requests do not take the memory from each other in turns.

    Where KV can be offloaded a request starts as soon as it fits, and when memory runs out the worst ranked yields.
    Where it would be lost, a request starts if all that run fit until they end, at the lengths that are expected.
    """

    name = "tardiness_safe"
    yields_worst = True

    def __init__(self, forecast: Forecast | None = None) -> None:
        super().__init__(forecast)
        self._remaining = RemainingWork()
        self._moved_steps = self._computed_steps = 0.0
        self._note_costs()

    def rank(self, generation: GenerationView, now_s: float) -> Rank:
        """Returns (logarithm of the cost, due time, order)."""
        if not self.is_memory_short:
            return super().rank(generation, now_s)
        due_s = self.due_s(generation)
        slack_s = due_s - now_s - self.forecast.generation_time_s(generation)
        worth = self.weight(generation, now_s) * self._index(generation)
        discount = slack_s / LOOKAHEAD_S if slack_s > 0 else 0.0
        return (discount - math.log(worth), due_s, generation.order)

    def sub_queue(self, generation: GenerationView) -> tuple[Hashable, Rank]:
        """Returns the kind of work, in memory too, and its due time."""
        kind, place = super().sub_queue(generation)
        held = self._remaining.kind(_job(generation), generation.num_output_tokens)
        return ((kind, held, generation.is_offloaded, generation.is_decoding), place)

    def counted_tokens(self, generation: GenerationView, *, can_offload: bool) -> int:
        """Returns one more than there are, or the expected length."""
        if can_offload:
            return generation.num_output_tokens + 1
        return self._remaining.expected_tokens(_job(generation), generation.num_output_tokens)

    def note_complete(self, generation: GenerationView, others: Iterable[GenerationView]) -> None:
        """Learns lengths, and what the engine takes to bring back KV."""
        self._note_costs()
        attained = ((_job(other), other.num_output_tokens) for other in others if other is not generation)
        self._remaining.note_ended(_job(generation), generation.num_output_tokens, attained)

    def _note_costs(self) -> None:
        """Takes over how many steps the batch loses while KV is moved, or computed."""
        forecast = self.forecast
        if forecast.step_s > 0:
            self._moved_steps = _taken_over(self._moved_steps, forecast.move_s(REFERENCE_TOKENS) / forecast.step_s)
            self._computed_steps = _taken_over(
                self._computed_steps, forecast.chunk_s(REFERENCE_TOKENS) / forecast.step_s
            )

    def _index(self, generation: GenerationView) -> float:
        job = _job(generation)
        return self._remaining.index(job, generation.num_output_tokens, self._entry_volume(generation))

    def _entry_volume(self, generation: GenerationView) -> float:
        """Returns the memory x steps that each token of its KV costs before it goes on."""
        if generation.is_decoding and not generation.is_offloaded:
            return 0.0
        steps = self._moved_steps if generation.is_offloaded else self._computed_steps
        return steps / REFERENCE_TOKENS * self.capacity_tokens


def _taken_over(old_steps: float, new_steps: float) -> float:
    return new_steps if abs(new_steps - old_steps) > OFF_BY * max(old_steps, LEAST_STEPS) else old_steps


def _job(generation: GenerationView) -> Job:
    lower, upper = generation.predicted_bounds
    return Job(
        job_id=generation.order, prompt_tokens=generation.num_prompt_tokens, lower_tokens=lower, upper_tokens=upper
    )
