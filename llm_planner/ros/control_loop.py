"""The control loop of a robot: a thread that nothing in rclpy can hold up."""

import logging
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)
AFTER_ERROR_S = 0.1


class ControlLoop:
    """Calls ``tick`` again and again.

    Args:
        tick: Returns after how many seconds it wants to be called again.
    """

    def __init__(self, tick: Callable[[], float]) -> None:
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
            self._woken.wait(self._period_s())
            self._woken.clear()

    def _period_s(self) -> float:
        try:
            return self._tick()
        except Exception:  # noqa: BLE001 (a robot whose loop ends has no reflex any more)
            _log.exception("the robot's control loop failed")
            return AFTER_ERROR_S
