# SPDX-License-Identifier: Apache-2.0
"""How fast the memory of a process grows: a straight line through its samples, and how sure that is."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from llm_planner_lab.bench.intervals import t_975

MOST_SHARE_PER_HOUR = 0.01
NUM_BATCHES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Growth of a process.

    Attributes:
        mean_mb: Its memory.
        mb_per_h: Least-squares slope.
        interval_mb_per_h: Half of the 95 % interval of the slope.
        step_mb: The most that it rose within three batches: of a leak about a tenth of the whole, of one block that
            an allocator took once nearly all. The verdict does not depend on it.
    """

    mean_mb: float
    mb_per_h: float
    interval_mb_per_h: float
    step_mb: float

    @property
    def is_growing(self) -> bool:
        """Whether it grows by more than is allowed, whatever chance did."""
        return (self.mb_per_h - self.interval_mb_per_h) / self.mean_mb > MOST_SHARE_PER_HOUR


def growth(samples: Sequence[tuple[float, float]]) -> Growth | None:
    """Returns the growth of a process; None with fewer than two samples for each of ``NUM_BATCHES`` batches.

    Consecutive samples of memory are nearly the same, so single ones would make the interval far too small: it is of
    the means of ``NUM_BATCHES`` batches.

    Args:
        samples: Seconds and megabytes, in order, after warm-up.
    """
    size = len(samples) // NUM_BATCHES
    if size < 2:
        return None
    batches = [samples[i * size : (i + 1) * size] for i in range(NUM_BATCHES)]
    hours = [statistics.fmean(s for s, _ in batch) / 3600.0 for batch in batches]
    memory = [statistics.fmean(m for _, m in batch) for batch in batches]
    slope, intercept = statistics.linear_regression(hours, memory)
    mean_h = statistics.fmean(hours)
    spread = sum((h - mean_h) ** 2 for h in hours)
    rest = sum((m - slope * h - intercept) ** 2 for h, m in zip(hours, memory, strict=True))
    error = math.sqrt(rest / (NUM_BATCHES - 2) / spread)
    return Growth(
        mean_mb=statistics.fmean(memory),
        mb_per_h=slope,
        interval_mb_per_h=t_975(NUM_BATCHES - 2) * error,
        step_mb=max(later - before for before, later in zip(memory, memory[2:], strict=False)),
    )
