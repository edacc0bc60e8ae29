"""How long will the next segment of a generation take: G(s_k) of TimelyLLM, learned per kind of request."""

from llm_planner.scheduling.pace import SmoothedBound
from llm_planner.scheduling.policies.interface import GenerationView
from llm_planner.scheduling.policies.pricing import LANE_TOKENS
from llm_planner.scheduling.step_model import StepModel

DEFAULT_SEGMENT_STEPS = 10.0
"""Before a segment of its kind was seen: the bound of TimelyLLM, section 7.1, a token per step."""

_Kind = tuple[str, float, bool]


class EngineForecast:
    """Implements ``policies.pricing.Forecast``.

    The paper takes 90 ms and at most 10 tokens for every segment. Deviation: steps are modelled, and how many of
    them a segment takes is learned, apart for each robot model, ERT (which tells urgent from other requests), and first
    or later segment.

    Args:
        network_latency_s: One-way delay between planner and robot.
    """

    def __init__(self, network_latency_s: float) -> None:
        self.network_latency_s = network_latency_s
        self.steps = StepModel()
        self._num_steps: dict[_Kind, SmoothedBound] = {}

    def observe_step(self, num_prompt_tokens: int, num_seqs: int, duration_s: float) -> None:
        """Learns from a step that ran ``num_seqs`` generations."""
        if num_seqs:
            self.steps.observe(duration_s, num_prompt_tokens, num_seqs)

    def observe_segment(self, generation: GenerationView, num_steps: int) -> None:
        """Learns from a segment of ``num_steps`` that ``generation`` completed as its ``num_segments``-th."""
        kind = self._kind(generation)
        if kind not in self._num_steps:
            self._num_steps[kind] = SmoothedBound(DEFAULT_SEGMENT_STEPS)
        self._num_steps[kind].observe(num_steps)

    def _kind(self, generation: GenerationView) -> _Kind:
        request = generation.request
        return (request.robot_model, request.time_utility.ert_s, generation.num_segments == 0)

    def remaining_steps(self, generation: GenerationView) -> float:
        """Returns how many steps its segment still needs, on the cautious side; >= 1."""
        bound = self._num_steps.get(self._kind(generation))
        num_steps = (DEFAULT_SEGMENT_STEPS if bound is None else bound.bound) - generation.num_segment_steps
        return max(1.0, num_steps)

    def generation_time_s(self, generation: GenerationView) -> float:
        """Returns how long its next segment takes if it runs from now on."""
        steps = self.steps
        step_s = max(steps.base_s, steps.recent_s)
        time_s = step_s * self.remaining_steps(generation)
        if not generation.is_decoding:
            num_prompt_tokens = -(-generation.num_uncomputed_tokens // LANE_TOKENS) * LANE_TOKENS
            time_s += max(0.0, steps.rate_s * num_prompt_tokens - step_s)
        return time_s
