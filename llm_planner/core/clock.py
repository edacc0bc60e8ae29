# SPDX-License-Identifier: Apache-2.0
"""Clocks. The only place that reads the time of day is here; everything else gets ``now_s``."""

import time


class MonotonicClock:
    """The real thing."""

    def now_s(self) -> float:
        """Returns seconds of the system's monotonic clock (shared by all processes of this machine)."""
        return time.monotonic()


class ProcessorClock:
    """Counts what this process computes, on all its threads: other programs disturb it little, and waiting is free."""

    def now_s(self) -> float:
        """Returns the processor seconds of this process."""
        return time.process_time()


class ManualClock:
    """A clock that moves when told: for tests and virtual time."""

    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = now_s

    def now_s(self) -> float:
        """Returns the time that was set."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Moves forward by ``seconds`` >= 0."""
        if seconds < 0:
            raise ValueError(f"time does not run backwards: {seconds}")
        self._now_s += seconds

    def advance_to(self, now_s: float) -> None:
        """Moves forward to ``now_s``; stays where it is if that has passed."""
        self._now_s = max(self._now_s, now_s)
