# SPDX-License-Identifier: Apache-2.0
"""``POST /v1/completions``: prompt and output as token ids, and the grammar of what may follow."""

from llm_planner.backends.openai.dialect import Dialect
from llm_planner.backends.openai.errors import ServerError
from llm_planner.backends.openai.output_tokens import OutputTokens
from llm_planner.backends.openai.remote_sequence import RemoteSequence
from llm_planner.backends.openai.request import StreamRequest
from llm_planner.backends.openai.statement_ends import StatementEnds
from llm_planner.core.errors import ErrorCode
from llm_planner.planning.grammar import continued


class CompletionRequests:
    """Implements ``Requests``.

    Args:
        dialect: Of the server.
        model: Name of the model on the server.
        max_model_len: Most tokens of prompt and output together.
        tokens: Of the model.
    """

    def __init__(self, dialect: Dialect, model: str, max_model_len: int, tokens: OutputTokens) -> None:
        self._dialect = dialect
        self._model = model
        self._max_model_len = max_model_len
        self._tokens = tokens

    def of(self, state: RemoteSequence) -> StreamRequest:
        """Returns a request; a seed of its own for each part, or sampled parts would resemble each other.

        Raises:
            ServerError: If there is no room left.
        """
        sequence, dialect = state.sequence, self._dialect
        ends, grammar = None, None
        if dialect.grammar is not None and sequence.grammar is not None:
            ends = StatementEnds(map(self._tokens.token_bytes, state.output_token_ids), sequence.num_open_blocks)
            if ends.is_at_end:
                is_begun = bool(state.output_token_ids)
                grammar = continued(sequence.grammar) if is_begun else sequence.first_grammar or sequence.grammar
        prompt = self._tokens.for_model([*sequence.prompt_token_ids, *state.output_token_ids])
        body = {
            "model": self._model,
            "prompt": prompt,
            "max_tokens": room(self._max_model_len, len(prompt)),
            "temperature": sequence.sampling.temperature,
            "top_p": sequence.sampling.top_p,
            "seed": sequence.sampling.seed + len(state.output_token_ids),
            "stream": True,
            **dialect.extra,
        }
        if grammar is not None and dialect.grammar is not None:
            body |= dialect.grammar(grammar)
        return StreamRequest(path="completions", body=body, ends=ends, has_grammar=grammar is not None)


def room(max_model_len: int, num_tokens: int) -> int:
    """Returns how many tokens may follow.

    Raises:
        ServerError: If none may.
    """
    if num_tokens < max_model_len:
        return max_model_len - num_tokens
    message = f"prompt and plan fill the {max_model_len} tokens that the model server takes"
    raise ServerError(ErrorCode.ENGINE_FAILED, message, is_final=True)
