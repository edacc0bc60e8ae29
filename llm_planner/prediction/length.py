# SPDX-License-Identifier: Apache-2.0
"""How long will a response be? The distribution that a length predictor returns, and what can be asked of it.

A length counts the tokens that a model generates, its end-of-sequence token not included.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from llm_planner.prediction.calibration import IntervalCalibration

FloatArray = NDArray[np.float64]


class LengthInterval(NamedTuple):
    """Shortest and longest length that are expected, both included, in tokens."""

    lower: int
    upper: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LengthDistribution:
    """The distribution of one response's length.

    Attributes:
        cumulative: (max_tokens,); element ``n - 1`` is the probability of at most ``n`` tokens. Never falls, ends at 1.
        bucket_tokens: Tokens per bucket of the predictor, >= 1; within a bucket all lengths are equally probable.
        calibration: Gives intervals their nominal coverage.
    """

    cumulative: FloatArray
    bucket_tokens: int = 1
    calibration: IntervalCalibration = field(default_factory=IntervalCalibration)

    @classmethod
    def from_buckets(
        cls,
        probabilities: ArrayLike,
        bucket_tokens: int,
        max_tokens: int | None = None,
        calibration: IntervalCalibration | None = None,
    ) -> "LengthDistribution":
        """Returns the distribution of a classifier's answer (TimeBill, section 4.1).

        Args:
            probabilities: (num_buckets,), not negative, at least one above 0; bucket ``i`` holds the lengths
                ``i * bucket_tokens + 1 .. (i + 1) * bucket_tokens``.
            bucket_tokens: B, >= 1.
            max_tokens: N_max, the longest response that is allowed; None for the end of the last bucket.
            calibration: Of the predictor.
        """
        per_bucket = np.asarray(probabilities, dtype=np.float64)
        cumulative = np.repeat(per_bucket / (bucket_tokens * per_bucket.sum()), bucket_tokens).cumsum()
        cumulative[-1] = 1.0
        whole = cls(
            cumulative=np.minimum(cumulative, 1.0),
            bucket_tokens=bucket_tokens,
            calibration=calibration or IntervalCalibration(),
        )
        return whole if max_tokens is None else whole.limited_to(max_tokens)

    @property
    def max_tokens(self) -> int:
        """N_max: no response is longer."""
        return len(self.cumulative)

    @property
    def expected_tokens(self) -> float:
        """The mean length: the best guess in the sense of squared errors."""
        return float(self.max_tokens - self.cumulative[:-1].sum())

    @property
    def bucket_upper_tokens(self) -> int:
        """The end of the most probable bucket, at most N_max: the conservative guess, Eq. (2) of TimeBill."""
        ends = np.append(self.cumulative[self.bucket_tokens - 1 : -1 : self.bucket_tokens], 1.0)
        best = int(np.diff(ends, prepend=0.0).argmax())
        return min(self.max_tokens, (best + 1) * self.bucket_tokens)

    def at_most(self, num_tokens: int) -> float:
        """Returns the probability that the response has at most ``num_tokens``."""
        if num_tokens < 1:
            return 0.0
        return float(self.cumulative[min(num_tokens, self.max_tokens) - 1])

    def quantile(self, share: float) -> int:
        """Returns the shortest length that is reached or undercut with probability ``share`` in 0..1."""
        return int(np.searchsorted(self.cumulative, share, side="left").clip(0, self.max_tokens - 1)) + 1

    def interval(self, nominal: float = 0.9) -> LengthInterval:
        """Returns the interval that holds the length with probability ``nominal`` in 0..1.

        Central, with the level that held this share of lengths in calibration (``prediction.calibration``). One
        calibration serves all prompts of a group: coverage is an average over them, not a guarantee for each.
        """
        tail = (1.0 - self.calibration.level(nominal)) / 2.0
        upper = int(np.searchsorted(self.cumulative, 1.0 - tail, side="right").clip(0, self.max_tokens - 1)) + 1
        return LengthInterval(self.quantile(tail), upper)

    def nonconformity(self, num_tokens: int) -> float:
        """Returns the lowest level at which the uncalibrated central interval holds ``num_tokens``; 0 at the median.

        The score of distributional conformal prediction, ``2 |F(n) - 1/2|``, for a length that is a whole number.
        """
        return max(0.0, 1.0 - 2.0 * self.at_most(num_tokens), 2.0 * self.at_most(num_tokens - 1) - 1.0)

    def limited_to(self, max_tokens: int) -> "LengthDistribution":
        """Returns the distribution if generation stops after ``max_tokens`` >= 1 (Eq. (2) of TimeBill)."""
        if max_tokens >= self.max_tokens:
            return self
        cumulative = self.cumulative[: max(1, max_tokens)].copy()
        cumulative[-1] = 1.0
        return replace(self, cumulative=cumulative)

    def at_least(self, num_tokens: int) -> "LengthDistribution":
        """Returns the distribution once ``num_tokens`` have been generated and no end was seen.

        If the predictor thought that impossible, nothing is known but the limit: all longer lengths are as probable.
        """
        if num_tokens <= 1:
            return self
        num_impossible = min(num_tokens, self.max_tokens) - 1
        below = self.at_most(num_impossible)
        if below < 1.0 - 1e-9:
            cumulative = ((self.cumulative - below) / (1.0 - below)).clip(0.0, 1.0)
        else:
            ranks = np.arange(1.0, self.max_tokens + 1.0) - num_impossible
            cumulative = ranks.clip(0.0) / ranks[-1]
        cumulative[-1] = 1.0
        return replace(self, cumulative=cumulative)

    def remaining(self, num_tokens: int) -> "LengthDistribution":
        """Returns the distribution of what is still to come, at least one, after ``num_tokens`` without an end.

        It has buckets of one token: its lengths no longer begin where the predictor's buckets did.
        """
        if num_tokens < 1:
            return self
        after = self.at_least(num_tokens + 1)
        return replace(after, cumulative=after.cumulative[min(num_tokens, self.max_tokens - 1) :], bucket_tokens=1)


class LengthPredictor(Protocol):
    """Predicts response lengths of one model from its prompts."""

    def predict(self, prompt_token_ids: Sequence[int]) -> LengthDistribution:
        """Returns the distribution of the response's length; the prompt is in the target model's tokens."""
        ...
