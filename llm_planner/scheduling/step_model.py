"""How long will a step take: learned from the steps as they happen."""

FORGETTING = 0.98  # weight of a step after the next one: some fifty steps count
DEFAULT_STEP_S = 0.05
DEFAULT_FREE_TOKENS = 192
DEFAULT_SLOPE = 0.02  # of a step, until batches of different sizes were seen
COMPUTE_BOUND = 1.05  # a step this much longer than a decode step was held up by its prompt tokens
FULL, EXPLORE = 0.9, 0.99  # if it was not, though full of them, a few more may be tried next time
GAIN = 0.125
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
    """

    def __init__(self) -> None:
        self._weight = self._x = self._y = self._xx = self._xy = 0.0
        self.base_s = DEFAULT_STEP_S
        self.slope_s = 0.0
        self.recent_s = DEFAULT_STEP_S
        self._rate_s: float | None = None

    def observe(self, duration_s: float, num_prompt_tokens: int, num_seqs: int) -> None:
        """Learns from one step that ran ``num_seqs`` >= 1 generations."""
        self.recent_s += GAIN * (duration_s - self.recent_s)
        if num_prompt_tokens == 0:
            self._fit(float(num_seqs - 1), duration_s)
            return
        if self._weight == 0.0:
            return  # nothing to compare with yet
        if duration_s > COMPUTE_BOUND * self.step_s(0, num_seqs):
            measured_s = (duration_s - self.slope_s * (num_seqs - 1)) / num_prompt_tokens
            self._rate_s = self.rate_s + GAIN * (measured_s - self.rate_s)
        elif num_prompt_tokens > FULL * self.free_tokens:
            self._rate_s = EXPLORE * self.rate_s

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
        """How many prompt tokens fit into a step without making it longer."""
        return max(LEAST_TOKENS, int(self.base_s / self.rate_s)) if self.rate_s > 0 else 1_000_000

    def step_s(self, num_prompt_tokens: int, num_seqs: int) -> float:
        """Returns the expected seconds of a step."""
        return max(self.base_s, self.rate_s * num_prompt_tokens) + self.slope_s * max(0, num_seqs - 1)
