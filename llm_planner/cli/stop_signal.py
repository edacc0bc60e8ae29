# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C and SIGTERM for commands that run until they are stopped."""

import contextlib
import queue
import signal


class StopSignal:
    """Set by the first SIGINT or SIGTERM after it was created; its creator is the main thread.

    A ``threading.Event`` does not do: its ``wait`` and ``set`` take the same lock, and a handler that runs in the main
    thread while that waits would wait for itself. ``queue.SimpleQueue`` may be used by handlers.
    """

    def __init__(self) -> None:
        self._received: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._is_set = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda received, _frame: self._received.put(received))

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the signal, for up to `timeout_s` seconds; returns whether it came, now or before."""
        if not self._is_set:
            with contextlib.suppress(queue.Empty):
                self._received.get(timeout=timeout_s)
                self._is_set = True
        return self._is_set
