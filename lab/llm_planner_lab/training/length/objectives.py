# SPDX-License-Identifier: Apache-2.0
"""What a head is asked to say about a length: its bucket, the number itself, or one of a few classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss

_UNSEEN = 0.05  # examples that a bucket counts for before the first is seen


class Objective(Protocol):
    """Turns lengths into a loss, and outputs into lengths."""

    @property
    def first_bias(self) -> Tensor:
        """What the head says before it has learned anything, (num_outputs,)."""
        ...

    def loss(self, outputs: Tensor, num_tokens: Tensor) -> Tensor:
        """Returns the loss of outputs (batch, num_outputs) for true lengths (batch,)."""
        ...

    def lengths(self, outputs: Tensor) -> Tensor:
        """Returns the predicted lengths (batch,) of outputs (batch, num_outputs)."""
        ...


@dataclass(frozen=True, slots=True)
class Buckets:
    """Classification into buckets of B tokens (TimeBill, section 4.1).

    Deviation: the loss also counts how far off a bucket is. To cross-entropy a miss by one bucket is as bad as one by a
    hundred, so that long, rare lengths, a few examples per bucket, are learned slowly.

    Attributes:
        bucket_tokens: B.
        counts: Training examples per bucket.
    """

    bucket_tokens: int
    counts: tuple[int, ...]

    @classmethod
    def of(cls, num_tokens: Sequence[int], bucket_tokens: int, num_buckets: int) -> "Buckets":
        """Returns buckets with the frequencies of training lengths, none of them beyond the last bucket."""
        indices = (np.array(num_tokens) - 1) // bucket_tokens
        return cls(bucket_tokens, tuple(np.bincount(indices, minlength=num_buckets).tolist()))

    @property
    def first_bias(self) -> Tensor:
        """The logarithms of the frequencies."""
        return torch.log(torch.tensor(self.counts) + _UNSEEN)

    def loss(self, outputs: Tensor, num_tokens: Tensor) -> Tensor:
        """Returns the cross-entropy of the true buckets, and the continuous ranked probability score with it.

        Both are proper scoring rules: no forecast gains by differing from what its author believes. The second, in
        units of the spread of the training lengths, is Eq. (20) of Gneiting and Raftery, JASA 2007.
        """
        true = (num_tokens - 1) // self.bucket_tokens
        reached = torch.arange(outputs.shape[1]) >= true[:, None]
        missed = (outputs.softmax(-1).cumsum(-1) - reached.to(outputs.dtype)).square().sum(-1).mean()
        return cross_entropy(outputs, true) + missed / self._deviation_buckets

    @property
    def _deviation_buckets(self) -> float:
        """The standard deviation of the training lengths, at least one bucket."""
        counts, index = np.array(self.counts, dtype=np.float64), np.arange(len(self.counts))
        mean = np.average(index, weights=counts)
        return max(1.0, float(np.average((index - mean) ** 2, weights=counts) ** 0.5))

    def lengths(self, outputs: Tensor) -> Tensor:
        """Returns the mean of each distribution."""
        centres = torch.arange(outputs.shape[1]) * self.bucket_tokens + (self.bucket_tokens + 1) / 2
        return outputs.double().softmax(-1) @ centres.double()


@dataclass(frozen=True, slots=True)
class Regression:
    """The number itself, in units of the spread of the training lengths."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, num_tokens: Sequence[int]) -> "Regression":
        """Returns a regression centred on training lengths."""
        return cls(float(np.mean(num_tokens)), float(np.std(num_tokens)) or 1.0)

    @property
    def first_bias(self) -> Tensor:
        """The mean."""
        return torch.zeros(1)

    def loss(self, outputs: Tensor, num_tokens: Tensor) -> Tensor:
        """Returns the mean squared error."""
        return mse_loss(outputs[:, 0], (num_tokens - self.mean) / self.deviation)

    def lengths(self, outputs: Tensor) -> Tensor:
        """Returns the numbers, at least 1."""
        return (outputs[:, 0].double() * self.deviation + self.mean).clamp_min(1.0)


@dataclass(frozen=True, slots=True)
class Classes:
    """A few coarse classes of lengths, each predicted as its mean.

    Attributes:
        starts: Shortest length of each class but the first, rising.
        means: Mean training length of each class.
    """

    starts: tuple[int, ...]
    means: tuple[float, ...]

    @classmethod
    def of(cls, num_tokens: Sequence[int], percentiles: Sequence[float]) -> "Classes":
        """Returns the classes between percentiles of the training lengths."""
        lengths = np.array(num_tokens)
        starts = np.unique(np.floor(np.percentile(lengths, percentiles)).astype(int) + 1)
        classes = np.searchsorted(starts, lengths, side="right")
        filled = [index for index in range(len(starts) + 1) if (classes == index).any()]
        return cls(
            tuple(int(lengths[classes == index].min()) for index in filled[1:]),
            tuple(float(lengths[classes == index].mean()) for index in filled),
        )

    @property
    def first_bias(self) -> Tensor:
        """Even odds."""
        return torch.zeros(len(self.means))

    def loss(self, outputs: Tensor, num_tokens: Tensor) -> Tensor:
        """Returns the cross-entropy of the true classes."""
        return cross_entropy(outputs, torch.bucketize(num_tokens, torch.tensor(self.starts), right=True))

    def lengths(self, outputs: Tensor) -> Tensor:
        """Returns the mean of the most probable class."""
        return torch.tensor(self.means, dtype=torch.float64)[outputs.argmax(-1)]
