# SPDX-License-Identifier: Apache-2.0
"""Asks a server to go on with a sequence: prompt, what was written so far, and the grammar of what may follow."""

from collections.abc import Callable
from typing import Any

from llm_planner.backends.openai.background import BackgroundLoop
from llm_planner.backends.openai.dialect import Dialect
from llm_planner.backends.openai.errors import ServerError
from llm_planner.backends.openai.output_tokens import OutputTokens
from llm_planner.backends.openai.remote_sequence import RemoteSequence
from llm_planner.backends.openai.server import ModelServer
from llm_planner.backends.openai.statement_ends import StatementEnds
from llm_planner.backends.openai.stream import Stream
from llm_planner.core.errors import ErrorCode
from llm_planner.planning.grammar import continued


class StreamOpener:
    """Opens streams.

    Args:
        server: To ask.
        background: Reads the streams.
        dialect: Of the server.
        model: Name of the model on the server.
        max_model_len: Most tokens of prompt and output together.
        tokens: Of the model.
        notify: Called on the reading thread whenever something has come.
    """

    def __init__(
        self,
        server: ModelServer,
        background: BackgroundLoop,
        *,
        dialect: Dialect,
        model: str,
        max_model_len: int,
        tokens: OutputTokens,
        notify: Callable[[], None],
    ) -> None:
        self._server = server
        self._background = background
        self._dialect = dialect
        self._model = model
        self._max_model_len = max_model_len
        self._tokens = tokens
        self._notify = notify

    def open(self, state: RemoteSequence) -> None:
        """Opens a stream that goes on behind what the sequence has written.

        Raises:
            ServerError: If there is no room left.
        """
        ends, grammar, sequence = None, None, state.sequence
        if self._dialect.grammar is not None and sequence.grammar is not None:
            ends = StatementEnds(map(self._tokens.token_bytes, state.output_token_ids), sequence.num_open_blocks)
            if ends.is_at_end:
                is_begun = bool(state.output_token_ids)
                grammar = continued(sequence.grammar) if is_begun else sequence.first_grammar or sequence.grammar
        stream = Stream(
            self._server.complete(self._body(state, grammar)),
            tokens=self._tokens,
            ends=ends,
            has_grammar=grammar is not None,
            notify=self._notify,
        )
        state.stream, state.reading = stream, self._background.start(stream.read())

    def _body(self, state: RemoteSequence, grammar: str | None) -> dict[str, Any]:
        """Returns the request; a seed of its own for each part, or sampled parts would resemble each other."""
        sequence, dialect = state.sequence, self._dialect
        prompt = [*sequence.prompt_token_ids, *self._tokens.for_model(state.output_token_ids)]
        max_tokens = self._max_model_len - len(prompt)
        if max_tokens < 1:
            message = f"prompt and plan fill the {self._max_model_len} tokens that the model server takes"
            raise ServerError(ErrorCode.ENGINE_FAILED, message, is_final=True)
        body = {
            "model": self._model,
            "prompt": prompt,
            "max_tokens": max_tokens,
            "temperature": sequence.sampling.temperature,
            "top_p": sequence.sampling.top_p,
            "seed": sequence.sampling.seed + len(state.output_token_ids),
            "stream": True,
            **dialect.extra,
        }
        if grammar is not None and dialect.grammar is not None:
            body |= dialect.grammar(grammar)
        return body
