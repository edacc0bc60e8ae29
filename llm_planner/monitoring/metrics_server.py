# SPDX-License-Identifier: Apache-2.0
"""Serves figures to Prometheus from a thread of its own; few connections at once, and none for long.

``prometheus_client.start_http_server`` gives every connection a thread for as long as it likes: a client that opens
thousands and says nothing would take them, and the files of the planner's process.
"""

import socket
import threading
from typing import Any, ClassVar
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

TIMEOUT_S = 5.0  # for each piece of a request or an answer
MAX_CONNECTIONS = 16


class _Handler(WSGIRequestHandler):
    timeout: ClassVar[float | None] = TIMEOUT_S

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (http.server)
        """Says nothing: a scrape is no news."""


class MetricsServer(ThreadingWSGIServer):
    """Listens from its making until ``close``.

    Args:
        registry: What is served.
        host: Address to listen on.
        port: TCP port.

    Raises:
        OSError: If the address cannot be listened on.
    """

    def __init__(self, registry: CollectorRegistry, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._places = threading.BoundedSemaphore(MAX_CONNECTIONS)
        WSGIServer.__init__(self, (host, port), _Handler)
        self.set_app(make_wsgi_app(registry))
        self._thread = threading.Thread(target=self.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Gives a connection a thread, or closes it if there are too many."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started: the server closes the connection
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serves a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Does nothing: a client that goes away, or takes too long, is its own affair."""

    def close(self) -> None:
        """Ends the thread and frees the port."""
        self.shutdown()
        self.server_close()
        self._thread.join()
