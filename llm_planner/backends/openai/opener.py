# SPDX-License-Identifier: Apache-2.0
"""Asks a server to go on with a sequence."""

from collections.abc import Callable

from llm_planner.backends.openai.background import BackgroundLoop
from llm_planner.backends.openai.output_tokens import OutputTokens
from llm_planner.backends.openai.remote_sequence import RemoteSequence
from llm_planner.backends.openai.request import Requests
from llm_planner.backends.openai.server import ModelServer
from llm_planner.backends.openai.stream import Stream


class StreamOpener:
    """Opens streams.

    Args:
        server: To ask.
        background: Reads the streams.
        requests: What is asked.
        tokens: Of the model.
        notify: Called on the reading thread whenever something has come.
    """

    def __init__(
        self,
        server: ModelServer,
        background: BackgroundLoop,
        *,
        requests: Requests,
        tokens: OutputTokens,
        notify: Callable[[], None],
    ) -> None:
        self._server = server
        self._background = background
        self._requests = requests
        self._tokens = tokens
        self._notify = notify

    def open(self, state: RemoteSequence) -> None:
        """Opens a stream that goes on behind what the sequence has written.

        Raises:
            ServerError: If there is no room left.
        """
        request = self._requests.of(state)
        stream = Stream(
            request.read(self._server.complete(request.path, request.body)),
            tokens=self._tokens,
            ends=request.ends,
            has_grammar=request.has_grammar,
            notify=self._notify,
        )
        state.stream, state.reading = stream, self._background.start(stream.read())
