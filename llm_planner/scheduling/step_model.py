# SPDX-License-Identifier: Apache-2.0
"""How long will a step take: learned from the steps as they happen."""

FORGETTING = 0.98  # weight of a step after the next one: some fifty steps count
DEFAULT_STEP_S = 0.05
DEFAULT_FREE_TOKENS = 192
DEFAULT_SLOPE = 0.02  # of a step, until batches of different sizes were seen
COMPUTE_BOUND = 1.05  # a step this much longer than a decode step was held up by its prompt tokens
FULL, EXPLORE = 0.9, 0.99  # if it was not, though full of them, a few more may be tried next time
GAIN = 0.125
FEW = 0.6  # of the free tokens: so few do not hold up a step of an engine that hides them
TELLING = 0.3  # of the free tokens: fewer say nothing of their rate, whatever made the step long
LEAST_SHARE = 0.01
DOUBT_GAIN, DOUBT = 1 / 16, 0.9
LEAST_TOKENS = 16  # a prompt always gets on


class StepModel:
    """``max(base, rate N) + slope (B - 1)`` seconds for ``N`` prompt tokens and ``B`` sequences.

    An engine reads its weights once per step. While it does, some prompt tokens are computed for free; with more, the
    step takes as long as they do (Sarathi-Serve, Agrawal et al., OSDI 2024). Base and slope are fitted to decode steps
    by least squares with forgetting; the rate follows the steps that prompt tokens held up, and falls while
    steps full of prompt tokens are no longer than others.

    Attributes:
        base_s: A decode step of one sequence.
        slope_s: Each further sequence.
        recent_s: What steps took of late, whatever was in them.
        hides_prompts: Whether prompt tokens are computed while the weights are read; else they come on top, as on most
            CPUs.
    """

    def __init__(self) -> None:
        self._weight = self._x = self._y = self._xx = self._xy = 0.0
        self.base_s = DEFAULT_STEP_S
        self.slope_s = 0.0
        self.recent_s = DEFAULT_STEP_S
        self._rate_s: float | None = None
        self.hides_prompts = True
        self._contradicted = 0.0

    def observe(self, duration_s: float, num_prompt_tokens: int, num_seqs: int) -> None:
        """Learns from one step that ran ``num_seqs`` >= 1 generations."""
        self.recent_s += GAIN * (duration_s - self.recent_s)
        if num_prompt_tokens == 0:
            self._fit(float(num_seqs - 1), duration_s)
            return
        if self._weight == 0.0:
            return  # nothing to compare with yet
        is_held_up = duration_s > COMPUTE_BOUND * self.step_s(0, num_seqs)
        without_seqs_s = duration_s - self.slope_s * (num_seqs - 1)
        self._doubt(num_prompt_tokens / self.free_tokens, is_held_up)
        if not self.hides_prompts:
            self._learn_rate(max(LEAST_SHARE * without_seqs_s, without_seqs_s - self.base_s) / num_prompt_tokens)
        elif is_held_up:
            if num_prompt_tokens >= TELLING * self.free_tokens:
                self._learn_rate(without_seqs_s / num_prompt_tokens)
        elif num_prompt_tokens > FULL * self.free_tokens:
            self._rate_s = EXPLORE * self.rate_s

    def _learn_rate(self, measured_s: float) -> None:
        self._rate_s = self.rate_s + GAIN * (measured_s - self.rate_s)

    def _doubt(self, fullness: float, is_held_up: bool) -> None:
        """Changes its mind on whether prompts are hidden, if that does not explain what happens.

        An engine that hides them is hardly held up by steps that are just full; one that does not, by every one,
        however small the steps become. An engine that is not held up by a few tokens does hide them.
        """
        if self.hides_prompts and fullness > FULL:
            self._contradicted += DOUBT_GAIN * (is_held_up - self._contradicted)
        elif not self.hides_prompts and fullness < FEW:
            self._contradicted += DOUBT_GAIN * ((not is_held_up) - self._contradicted)
        if self._contradicted > DOUBT:
            self.hides_prompts = not self.hides_prompts
            self._contradicted = 0.0
            self._rate_s = None

    def _fit(self, x: float, y: float) -> None:
        self._weight = FORGETTING * self._weight + 1.0
        self._x = FORGETTING * self._x + x
        self._y = FORGETTING * self._y + y
        self._xx = FORGETTING * self._xx + x * x
        self._xy = FORGETTING * self._xy + x * y
        mean_x, mean_y = self._x / self._weight, self._y / self._weight
        variance = self._xx / self._weight - mean_x * mean_x
        self.slope_s = DEFAULT_SLOPE * mean_y
        if variance > 1e-9:
            self.slope_s = max(0.0, (self._xy / self._weight - mean_x * mean_y) / variance)
        self.slope_s = min(self.slope_s, mean_y / (mean_x + 1.0))  # the first sequence is not cheaper than another
        self.base_s = mean_y - self.slope_s * mean_x

    @property
    def rate_s(self) -> float:
        """Seconds per prompt token of a step full of them."""
        return self.base_s / DEFAULT_FREE_TOKENS if self._rate_s is None else self._rate_s

    @property
    def free_tokens(self) -> int:
        """How many prompt tokens a step takes without becoming longer; or twice as long, if they are not hidden."""
        return max(LEAST_TOKENS, int(self.base_s / self.rate_s)) if self.rate_s > 0 else 1_000_000

    def step_s(self, num_prompt_tokens: int, num_seqs: int) -> float:
        """Returns the expected seconds of a step."""
        prompt_s = self.rate_s * num_prompt_tokens
        longer_s = max(self.base_s, prompt_s) if self.hides_prompts else self.base_s + prompt_s
        return longer_s + self.slope_s * max(0, num_seqs - 1)
