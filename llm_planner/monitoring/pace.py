# SPDX-License-Identifier: Apache-2.0
"""How much an engine has done of late, by the last views of it."""

from collections import deque

from llm_planner.serving.meter import Rates, have_fallen, rates
from llm_planner.serving.view import LoopView

RATES_OVER_S = 2.0


class Pace:
    """Rates over the last seconds: they are steadier than between two views that follow each other."""

    def __init__(self) -> None:
        self._loops: deque[LoopView] = deque()

    @property
    def rates(self) -> Rates | None:
        """What happened between the first and the last view that are remembered; None before there are two."""
        if len(self._loops) < 2:
            return None
        first, last = self._loops[0], self._loops[-1]
        return rates(first.totals, last.totals, last.at_s - first.at_s)

    def take(self, loop: LoopView | None) -> None:
        """Takes the next view; one that is missing, or of a loop that began anew, ends what was known."""
        if loop is None:
            self._loops.clear()
            return
        if self._loops:
            last = self._loops[-1]
            if loop.at_s == last.at_s:  # the engine has not answered since
                return
            if loop.at_s < last.at_s or have_fallen(last.totals, loop.totals):
                self._loops.clear()
        self._loops.append(loop)
        while len(self._loops) > 2 and loop.at_s - self._loops[0].at_s > RATES_OVER_S:
            self._loops.popleft()
