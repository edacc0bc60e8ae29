# SPDX-License-Identifier: Apache-2.0
"""Events to an owner without a thread of its own for them, one after the other: a slow owner delays no step."""

import logging
import queue
import threading
from collections.abc import Callable

from llm_planner.serving.events import Event

_log = logging.getLogger(__name__)


class Dispatcher:
    """Calls ``on_event`` for every event in the order in which they were put, on a thread of its own.

    Its ``put`` is the ``post`` of a ``GoalBook``. A node needs none: its executor has a queue already (``ros.bridge``).

    Args:
        on_event: The owner's; what it raises is logged and has no other effect.
    """

    def __init__(self, on_event: Callable[[Event], None]) -> None:
        self._on_event = on_event
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="planner-events", daemon=True)
        self._thread.start()

    def put(self, event: Event) -> None:
        """Queues an event; never blocks."""
        self._events.put(event)

    def close(self) -> None:
        """Delivers what is queued and ends the thread; an owner may call it from ``on_event`` too."""
        self._events.put(None)
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while (event := self._events.get()) is not None:
            self._tell(event)

    def _tell(self, event: Event) -> None:
        try:
            self._on_event(event)
        except Exception:  # noqa: BLE001 (whatever it is, the next event must be delivered)
            _log.exception("an owner failed to handle %s", type(event).__name__)
