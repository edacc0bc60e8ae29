# SPDX-License-Identifier: Apache-2.0
"""What a second of the engine is worth to requests that have not come yet."""

import math

MEMORY_S = 5.0
"""For how long the load is remembered."""
MOST_LOAD = 0.9
"""More is not counted: in an overload that does not end, the busy period has no mean."""
FORGETTING = 1 / 16
"""Weight of an answer in the mean of what delay costs."""


class EnginePrice:
    """Learns how busy the engine is and how pressing its answers are; prices engine time that a decision wastes.

    A decision about a step counts what delay costs those that are there. But time that the engine wastes also delays
    all that come before it is next idle. At a load of ``rho``, while ``n`` are served ``n rho / (1 - rho)`` others come
    (the mean busy period of M/G/1: Kleinrock, Queueing Systems I, 1975, section 5.8). Each of them is taken to lose per
    second what those lost that were answered last.
    """

    def __init__(self) -> None:
        self._load = 0.0
        self._cost = 0.0
        self._noted_s: float | None = None

    def note(self, now_s: float, *, was_busy: bool) -> None:
        """Notes whether there was something to do since the last note."""
        if self._noted_s is not None and now_s > self._noted_s:
            self._load += (was_busy - self._load) * -math.expm1((self._noted_s - now_s) / MEMORY_S)
        self._noted_s = now_s

    def observe(self, delay_cost: float) -> None:
        """Learns what another second would have cost an answer, as it was given."""
        self._cost += FORGETTING * (delay_cost - self._cost)

    def per_s(self, num_seqs: int) -> float:
        """Returns the utility that a lost second costs those who come behind ``num_seqs`` that are there."""
        load = min(self._load, MOST_LOAD)
        return self._cost * num_seqs * load / (1.0 - load)
