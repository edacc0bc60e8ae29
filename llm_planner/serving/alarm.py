# SPDX-License-Identifier: Apache-2.0
"""Calls at given times, from one thread."""

import heapq
import logging
import threading
from collections.abc import Callable, Iterable

from llm_planner.core.interfaces import Clock

_log = logging.getLogger(__name__)
LONGEST_WAIT_S = 3600.0  # a thread cannot wait for any number


class Alarm:
    """A clock that rings.

    Args:
        clock: Tells the time.
        on_ring: Called without arguments after each time that was set, once for those that came together.
    """

    def __init__(self, clock: Clock, on_ring: Callable[[], None]) -> None:
        self._clock = clock
        self._on_ring = on_ring
        self._times_s: list[float] = []
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="planner-alarm", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def set(self, time_s: float) -> None:
        """Rings at ``time_s`` too; never blocks."""
        with self._changed:
            heapq.heappush(self._times_s, time_s)
            self._changed.notify()

    def set_only(self, times_s: Iterable[float]) -> None:
        """Rings at these times, and at none that was set before; never blocks."""
        with self._changed:
            self._times_s = sorted(times_s)
            self._changed.notify()

    @property
    def num_times(self) -> int:
        """Times that are set."""
        return len(self._times_s)

    def close(self) -> None:
        """Rings no more; waits for the call that runs."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while self._wait():
            try:
                self._on_ring()
            except Exception:  # noqa: BLE001 (whatever it is, the next time must be kept)
                _log.exception("an alarm was not handled")

    def _wait(self) -> bool:
        """Returns True when it is time, False at the end."""
        with self._changed:
            while not self._is_closed:
                left_s = self._times_s[0] - self._clock.now_s() if self._times_s else None
                if left_s is not None and left_s <= 0:
                    while self._times_s and self._times_s[0] <= self._clock.now_s():
                        heapq.heappop(self._times_s)
                    return True
                self._changed.wait(None if left_s is None else min(left_s, LONGEST_WAIT_S))
        return False
