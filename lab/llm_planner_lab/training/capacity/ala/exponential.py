# SPDX-License-Identifier: Apache-2.0
"""The exponential throughput law of ALA: throughput grows with the batch and saturates (Algorithm 1)."""

import math
from typing import NamedTuple


class ExponentialLaw(NamedTuple):
    """``c - a exp(-b B)`` tokens per second for a batch of ``B`` sequences.

    Attributes:
        a: How far one sequence stays below saturation, in tokens per second.
        b: How fast a growing batch gets there; > 0.
        c: Saturation, in tokens per second.
    """

    a: float
    b: float
    c: float

    def throughput(self, batch_size: float) -> float:
        """Returns tokens per second: Algorithm 1 of ALA."""
        return self.c - self.a * math.exp(-self.b * batch_size)
