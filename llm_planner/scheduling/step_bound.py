"""How long may the next step take at most: what must not be late stops one step earlier."""

from llm_planner.core.step import SchedulerOutput

FIRST_STEP_S = 0.05  # before a step was seen
FREE_TOKENS = 192  # prompt tokens that cost as much as a step, before any were seen
MOST_DECODED = 16  # tokens of one generation in a step, from which on they count as a prompt
FORGETTING = 1 / 32


class StepBound:
    """An upper estimate of a step: the longest decode step of late, and the dearest prompt token on top of it.

    A maximum that is slowly forgotten, where ``StepModel`` is a mean: a mean is exceeded by every other step.
    """

    def __init__(self) -> None:
        self._decode_s: float | None = None
        self._per_token_s: float | None = None

    def observe(self, scheduled: SchedulerOutput, duration_s: float) -> None:
        """Learns from one step that took ``duration_s``."""
        num_tokens = _num_prompt_tokens(scheduled)
        if not scheduled.num_scheduled_tokens:
            return
        if num_tokens == 0:
            self._decode_s = _forgetful_maximum(self._decode_s, duration_s)
        elif self._decode_s is not None:
            per_token_s = max(0.0, duration_s - self._decode_s) / num_tokens
            self._per_token_s = _forgetful_maximum(self._per_token_s, per_token_s)

    @property
    def decode_s(self) -> float:
        """Seconds of a step without prompt tokens, at most."""
        return FIRST_STEP_S if self._decode_s is None else self._decode_s

    def bound_s(self, scheduled: SchedulerOutput) -> float:
        """Returns the seconds that a step may take at most."""
        per_token_s = self.decode_s / FREE_TOKENS if self._per_token_s is None else self._per_token_s
        return self.decode_s + per_token_s * _num_prompt_tokens(scheduled)


def _num_prompt_tokens(scheduled: SchedulerOutput) -> int:
    return sum(n for n in scheduled.num_scheduled_tokens.values() if n > MOST_DECODED)


def _forgetful_maximum(maximum: float | None, value: float) -> float:
    return value if maximum is None else max(value, maximum + FORGETTING * (value - maximum))
