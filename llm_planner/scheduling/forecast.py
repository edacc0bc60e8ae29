"""How long will the next segment of a generation take: G(s_k) of TimelyLLM, learned per kind of request."""

from collections.abc import Mapping

from llm_planner.core.step import SchedulerOutput, StepOutput
from llm_planner.scheduling.pace import SmoothedBound
from llm_planner.scheduling.policies.interface import GenerationView
from llm_planner.scheduling.policies.pricing import LANE_TOKENS
from llm_planner.scheduling.step_model import StepModel

DEFAULT_SEGMENT_TOKENS = 10.0
"""Before a segment of its kind was seen: the bound of TimelyLLM, section 7.1."""

_Kind = tuple[str, float, bool]


class EngineForecast:
    """Implements ``policies.pricing.Forecast``.

    The paper takes 90 ms and at most 10 tokens for every segment. Deviation: steps are modelled and segment lengths
    are learned, apart for each robot model, ERT (which tells urgent from other requests), and first or later segment.

    Args:
        network_latency_s: One-way delay between planner and robot.
    """

    def __init__(self, network_latency_s: float) -> None:
        self.network_latency_s = network_latency_s
        self.steps = StepModel()
        self._tokens: dict[_Kind, SmoothedBound] = {}

    def observe_step(self, scheduled: SchedulerOutput, output: StepOutput) -> None:
        """Learns from a step."""
        counts: Mapping[str, int] = scheduled.num_scheduled_tokens
        num_prompt_tokens = sum(n for n in counts.values() if n > 1)
        if counts:
            self.steps.observe(output.duration_s, num_prompt_tokens, len(counts))

    def observe_segment(self, generation: GenerationView, num_tokens: int) -> None:
        """Learns from a segment of ``num_tokens`` that ``generation`` completed as its ``num_segments``-th."""
        kind = self._kind(generation)
        if kind not in self._tokens:
            self._tokens[kind] = SmoothedBound(DEFAULT_SEGMENT_TOKENS)
        self._tokens[kind].observe(num_tokens)

    def _kind(self, generation: GenerationView) -> _Kind:
        request = generation.request
        return (request.robot_model, request.time_utility.ert_s, generation.num_segments == 0)

    def remaining_tokens(self, generation: GenerationView) -> float:
        """Returns how many tokens its segment still needs, on the cautious side; >= 1."""
        bound = self._tokens.get(self._kind(generation))
        tokens = (DEFAULT_SEGMENT_TOKENS if bound is None else bound.bound) - generation.num_segment_tokens
        return max(1.0, tokens)

    def generation_time_s(self, generation: GenerationView) -> float:
        """Returns how long its next segment takes if it runs from now on."""
        steps = self.steps
        step_s = max(steps.recent_s, steps.base_s)
        num_prompt_tokens = generation.num_uncomputed_tokens
        time_s = step_s * self.remaining_tokens(generation)
        if num_prompt_tokens > 1:
            num_prompt_tokens = -(-num_prompt_tokens // LANE_TOKENS) * LANE_TOKENS
            time_s += max(0.0, steps.rate_s * num_prompt_tokens - step_s)
        return time_s
