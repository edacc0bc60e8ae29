# SPDX-License-Identifier: Apache-2.0
"""The control loop of a robot: a thread that nothing in rclpy can hold up."""

import threading
from collections.abc import Callable

AFTER_ERROR_S = 0.1


class ControlLoop:
    """Calls ``tick`` again and again.

    Args:
        tick: Returns after how many seconds it wants to be called again, None if it has failed; raises nothing
            (``ros.guard``), because a robot whose loop ends has no reflex any more.
    """

    def __init__(self, tick: Callable[[], float | None]) -> None:
        self._tick = tick
        self._woken = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="robot-control", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Ticks at once."""
        self._woken.set()

    def close(self) -> None:
        """Ends the thread; safe to call twice."""
        self._is_closed = True
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._is_closed:
            period_s = self._tick()
            self._woken.wait(AFTER_ERROR_S if period_s is None else period_s)
            self._woken.clear()
