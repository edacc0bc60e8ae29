"""Execution times without an engine profile: what the scheduler learns from its steps anyway."""

from collections.abc import Sequence
from dataclasses import dataclass

from llm_planner.core.execution_time import ALONE, MOST_DECODED_TOKENS, Company, DecodeLine, ExecutionTime, WorkChunk
from llm_planner.scheduling.step_model import StepModel

ENOUGH_STEPS = 8
"""Decode steps after which a learned time is believed."""


@dataclass(frozen=True, slots=True)
class _LearnedTime:
    """Steps take what the step model says, times a factor. It tells batches apart, but no cache lengths."""

    model: StepModel
    factor: float

    def prefill_s(self, num_tokens: int, kv_len: int, chunk_tokens: int, company: Company = ALONE) -> float:  # noqa: ARG002
        num_full, rest = divmod(num_tokens, chunk_tokens)
        num_seqs = company.num_seqs + 1
        time_s = num_full * self.model.step_s(chunk_tokens, num_seqs)
        return self.factor * (time_s + (self.model.step_s(rest, num_seqs) if rest else 0.0))

    def decode_line(self, num_seqs: int) -> DecodeLine:
        return DecodeLine(self.factor * self.model.step_s(0, num_seqs), 0.0)

    def evict_s(self, num_tokens: int) -> float:  # noqa: ARG002
        return 0.0  # it knows no cache lengths, so nothing is evicted


class LearnedTimes:
    """Implements ``EngineTimes`` for an engine without a profile, with what the scheduler learns anyway.

    Args:
        model: Taught by the scheduler's forecast; nothing is learned here but how far single steps are off.
    """

    drift = None

    def __init__(self, model: StepModel) -> None:
        self._model = model
        self._num_steps = 0
        self._deviation = 0.0

    @property
    def expected(self) -> ExecutionTime:
        """As learned."""
        return _LearnedTime(self._model, 1.0)

    @property
    def cautious(self) -> ExecutionTime:
        """Longer by twice the smoothed mean deviation of single steps."""
        return _LearnedTime(self._model, 1.0 + 2.0 * self._deviation)

    @property
    def is_known(self) -> bool:
        """Whether enough decode steps were seen."""
        return self._num_steps >= ENOUGH_STEPS

    def observe(self, chunks: Sequence[WorkChunk], duration_s: float) -> None:
        """Notes how far a decode step was off."""
        if any(num_tokens > MOST_DECODED_TOKENS for num_tokens, _ in chunks):
            return
        self._num_steps += 1
        expected_s = self._model.step_s(0, len(chunks))
        if expected_s <= 0.0:  # of an engine whose steps take no time
            return
        off = abs(duration_s / expected_s - 1.0)
        self._deviation += (min(1.0, off) - self._deviation) / 16
