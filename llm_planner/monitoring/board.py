# SPDX-License-Identifier: Apache-2.0
"""A fleet's state, shared by its receiver and its viewers, and the documents that browsers get."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from llm_planner.core.interfaces import Clock
from llm_planner.monitoring.fleet import FleetState

PERIOD_S = 0.25
"""Between two documents: as often as a planner shows itself."""


class Board:
    """Safe to use from any thread.

    Args:
        clock: The time of everything that is received and shown.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._state = FleetState()
        self._number = 0
        self._shown: Mapping[str, int] = {}

    @contextmanager
    def changing(self) -> Iterator[tuple[FleetState, float]]:
        """Yields the state and the time, for a caller that changes the state."""
        with self._lock:
            yield self._state, self._clock.now_s()

    def whole(self) -> tuple[int, str]:
        """Returns the number of the last document, and everything there is to show."""
        with self._lock:
            now_s = self._clock.now_s()
            self._state.forget(now_s)  # nobody may have looked until now
            return self._number, json.dumps(self._state.document(now_s), separators=(",", ":"))

    def rest(self) -> None:
        """Notes that nobody looks: what comes meanwhile is in the next whole document, and is no news behind that."""
        with self._lock:
            self._state.forget(self._clock.now_s())
            self._shown = self._state.revisions

    def news(self) -> tuple[int, str]:
        """Returns the next document: what has changed since the one before."""
        with self._lock:
            document = self._state.document(self._clock.now_s(), self._shown)
            self._number, self._shown = self._number + 1, document["revisions"]
            return self._number, json.dumps(document, separators=(",", ":"))
