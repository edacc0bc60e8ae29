# SPDX-License-Identifier: Apache-2.0
"""Hands one stream of documents to many browsers; a slow one is sent away, and never waited for."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

MAX_CLIENTS = 32
MAX_BEHIND = 20
"""Most documents that wait for one browser: five seconds. It then connects again and begins with a whole one."""


class Hub:
    """Documents come in on any thread; browsers are served on the thread of the event loop.

    Args:
        whole: Returns a whole document as JSON, and its number; called on the thread of the event loop.
    """

    def __init__(self, whole: Callable[[], tuple[int, str]]) -> None:
        self._whole = whole
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queues: set[asyncio.Queue[tuple[int, str] | None]] = set()
        self._is_closed = False

    @property
    def num_clients(self) -> int:
        """How many browsers listen."""
        return len(self._queues)

    def publish(self, number: int, document: str) -> None:
        """Hands a document to all subscribers; returns at once."""
        with self._lock:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._spread, (number, document))

    async def listen(self) -> AsyncIterator[str]:
        """Yields a whole document, then every later one, until the browser goes or falls behind."""
        with self._lock:
            self._loop = asyncio.get_running_loop()
            if self._is_closed:
                return
        queue: asyncio.Queue[tuple[int, str] | None] = asyncio.Queue(MAX_BEHIND)
        self._queues.add(queue)
        try:
            number, document = self._whole()
            yield document
            while (item := await queue.get()) is not None:
                if item[0] > number:
                    yield item[1]
        finally:
            self._queues.discard(queue)

    def close(self) -> None:
        """Ends every stream; without that, a server that stops would have to tear them."""
        with self._lock:
            self._is_closed = True
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._send_all_away)

    def _send_all_away(self) -> None:
        for queue in tuple(self._queues):
            self._send_away(queue)

    def _send_away(self, queue: "asyncio.Queue[tuple[int, str] | None]") -> None:
        self._queues.discard(queue)
        if queue.full():
            queue.get_nowait()
        queue.put_nowait(None)

    def _spread(self, item: tuple[int, str]) -> None:
        for queue in tuple(self._queues):
            if queue.full():
                self._send_away(queue)
            else:
                queue.put_nowait(item)
