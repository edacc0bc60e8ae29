# SPDX-License-Identifier: Apache-2.0
"""How long will a step take: learned from the steps as they happen."""

from collections.abc import Sequence

import numpy as np

FORGETTING = 0.98  # weight of a step after the next one: some fifty steps count
DEFAULT_STEP_S = 0.05
DEFAULT_FREE_TOKENS = 192
DEFAULT_SLOPE = 0.02  # of a step, until batches of different sizes were seen
COMPUTE_BOUND = 1.05  # a step this much longer than a decode step was held up by its prompt tokens
FULL, EXPLORE = 0.9, 0.99  # if it was not, though full of them, a few more may be tried next time
RELIEF = 0.9  # at most so much less is expected of prompts after a step that they should have held up and did not
PRIOR = 0.1  # steps that the last fit counts as: it stands where the steps since do not tell
TOKENS = 100.0  # unit of prompt tokens in the fit: about one prompt behind a shared prefix
LEAST_TOKENS = 16  # a prompt always gets on
SEVERAL = 8.0  # steps after which a model tells what is a hiccup
MOST_OFF = 4.0  # a step teaches no more than one that took so many times as long as expected


class StepModel:
    """``max(base, a D + c P + rate N) + slope (B - 1)`` seconds for ``N`` tokens of ``P`` prompts, ``B`` sequences.

    ``D`` is 1 if some of the sequences decode, else 0. An engine reads its weights once per step. While it does, some
    prompt tokens are computed for free; with more, the step takes as long as they do (Sarathi-Serve, Agrawal et al.,
    OSDI 2024): then ``a`` is 0. On an engine that computes prompts on top of a decode step, as most CPUs do, ``a`` is
    ``base``. ``c`` is what each chunk of a prompt costs, however short it is.

    Base and slope are fitted to decode steps by least squares with forgetting. The other three are fitted, none below
    0, to the steps that prompt tokens held up. All three fall while steps that are full of prompt tokens are no longer
    than others: such a step tells no more than that they are not too high.

    Attributes:
        base_s: A decode step of one sequence.
        slope_s: Each further sequence.
        recent_s: What steps took of late, whatever was in them.
        move_s: What a step took longer, of late, for each token whose KV it moved to host memory or back.
    """

    def __init__(self) -> None:
        self._weight = self._x = self._y = self._xx = self._xy = 0.0
        self.base_s = DEFAULT_STEP_S
        self.slope_s = 0.0
        self.recent_s = DEFAULT_STEP_S
        self.move_s = 0.0
        self._moments = [[0.0] * 3 for _ in range(3)]
        self._targets = [0.0] * 3
        self._fitted: list[float] | None = None

    def observe(self, duration_s: float, num_prompt_tokens: int, num_seqs: int, num_prompts: int = 1) -> None:
        """Learns from one step that ran ``num_seqs`` >= 1 generations, ``num_prompts`` of them with prompt tokens."""
        expected_s = self.step_s(num_prompt_tokens, num_seqs, num_prompts)
        if self._weight >= SEVERAL and expected_s > 0.0:
            duration_s = min(duration_s, MOST_OFF * expected_s)
        self.recent_s += (duration_s - self.recent_s) / 8
        if num_prompt_tokens == 0:
            self._fit(float(num_seqs - 1), duration_s)
            return
        if self._weight == 0.0:
            return  # nothing to compare with yet
        is_held_up = duration_s > COMPUTE_BOUND * self.step_s(0, num_seqs)
        without_seqs_s = duration_s - self.slope_s * (num_seqs - 1)
        prompts_s = self.prompts_s(num_prompt_tokens, num_prompts, decodes=num_seqs > num_prompts)
        if is_held_up:
            features = (float(num_seqs > num_prompts), float(num_prompts), num_prompt_tokens / TOKENS)
            self._fit_prompts(features, without_seqs_s)
        elif prompts_s > FULL * self.base_s:
            self._lower(min(EXPLORE, max(RELIEF, self.base_s / prompts_s)))

    def observe_move(self, num_tokens: int, time_s: float) -> None:
        """Learns from a step that took ``time_s`` longer to move the KV of ``num_tokens`` >= 1."""
        self.move_s += (max(0.0, time_s) / num_tokens - self.move_s) / 8

    def _fit_prompts(self, features: Sequence[float], time_s: float) -> None:
        for i, x in enumerate(features):
            self._targets[i] = FORGETTING * self._targets[i] + x * time_s
            row = self._moments[i]
            for j, other in enumerate(features):
                row[j] = FORGETTING * row[j] + x * other
        self._fitted = _not_negative(self._moments, self._targets, self._coefficients)

    def _lower(self, factor: float) -> None:
        self._targets = [factor * target for target in self._targets]
        self._fitted = [factor * coefficient for coefficient in self._coefficients]

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
    def _coefficients(self) -> Sequence[float]:
        """``a``, ``c``, and the rate per ``TOKENS``."""
        return self._fitted or (0.0, 0.0, TOKENS * self.base_s / DEFAULT_FREE_TOKENS)

    @property
    def rate_s(self) -> float:
        """Seconds per prompt token of a step full of them; > 0."""
        return max(self._coefficients[2] / TOKENS, 1e-6 * self.base_s)

    @property
    def chunk_overhead_s(self) -> float:
        """What a chunk of a prompt costs with decoding sequences, however short it is; < 0 if some of it is hidden."""
        alongside_s, chunk_s, _ = self._coefficients
        return alongside_s + chunk_s - self.base_s

    @property
    def hides_prompts(self) -> bool:
        """Whether a step takes some prompt tokens without becoming longer."""
        return self._hidden_tokens >= LEAST_TOKENS

    @property
    def free_tokens(self) -> int:
        """How many prompt tokens a step takes without becoming longer; or twice as long, if none are hidden."""
        if self.hides_prompts:
            return self._hidden_tokens
        return max(LEAST_TOKENS, int(self.base_s / self.rate_s)) if self.base_s > 0.0 else LEAST_TOKENS

    @property
    def _hidden_tokens(self) -> int:
        return int(-self.chunk_overhead_s / self.rate_s) if self.base_s > 0.0 else 0

    def prompts_s(self, num_prompt_tokens: int, num_prompts: int = 1, *, decodes: bool = True) -> float:
        """Returns what prompt tokens alone would make of a step, without further sequences."""
        alongside_s, chunk_s, _ = self._coefficients
        return alongside_s * decodes + chunk_s * num_prompts + self.rate_s * num_prompt_tokens

    def step_s(self, num_prompt_tokens: int, num_seqs: int, num_prompts: int = 1) -> float:
        """Returns the expected seconds of a step."""
        longer_s = self.base_s
        if num_prompt_tokens:
            decodes = num_seqs > num_prompts
            longer_s = max(longer_s, self.prompts_s(num_prompt_tokens, num_prompts, decodes=decodes))
        return longer_s + self.slope_s * max(0, num_seqs - 1)


def _not_negative(moments: Sequence[Sequence[float]], targets: Sequence[float], prior: Sequence[float]) -> list[float]:
    """Returns the least squares fit, held to ``prior`` by ``PRIOR`` steps, whose coefficients are not below 0."""
    kept = [0, 1, 2]
    while True:
        matrix = [[moments[i][j] + (PRIOR if i == j else 0.0) for j in kept] for i in kept]
        solution = np.linalg.solve(matrix, [targets[i] + PRIOR * prior[i] for i in kept]).tolist()
        if min(solution) >= 0.0:
            break
        del kept[solution.index(min(solution))]  # the last one is positive: targets and prior are
    fitted = [0.0] * 3
    for index, coefficient in zip(kept, solution, strict=True):
        fitted[index] = coefficient
    return fitted
