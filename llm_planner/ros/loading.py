# SPDX-License-Identifier: Apache-2.0
"""Brings up a server in a thread of its own: loading a model takes seconds, and a node must show life meanwhile."""

import threading
from collections.abc import Callable

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.serving.server import PlanServer

POLL_S = 0.05


class ServerLoader:
    """A server on its way up.

    Args:
        build: Returns the server, not yet started; may take long and may raise.
    """

    def __init__(self, build: Callable[[], PlanServer]) -> None:
        self._build = build
        self._server: PlanServer | None = None
        self._error: PlannerError | None = None
        self._is_unwanted = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load-server", daemon=True)
        self._thread.start()

    @property
    def is_loading(self) -> bool:
        """Whether ``wait`` would have to wait."""
        return self._thread.is_alive()

    def wait(self) -> PlanServer:
        """Returns the server as soon as it is ready; signals are still noticed meanwhile.

        Raises:
            PlannerError: What went wrong on the way.
        """
        while self._thread.is_alive():
            self._thread.join(POLL_S)
        if self._server is None:
            raise self._error or PlannerError(ErrorCode.SHUTTING_DOWN, "loading was given up")
        return self._server

    def close(self) -> None:
        """Gives up: closes the server as soon as it can be closed."""
        self._is_unwanted.set()
        self._thread.join()
        if self._server is not None:
            self._server.close()

    def _run(self) -> None:
        try:
            self._bring_up(self._build())
        except PlannerError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 -- whatever a model or a library throws must end in a numbered error
            self._error = PlannerError(ErrorCode.ENGINE_FAILED, f"loading the model failed: {error!r}")

    def _bring_up(self, server: PlanServer) -> None:
        server.start()
        try:
            while not self._is_unwanted.is_set() and not server.wait_ready(POLL_S):
                pass
        except PlannerError:
            server.close()
            raise
        self._server = server
