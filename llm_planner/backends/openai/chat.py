# SPDX-License-Identifier: Apache-2.0
"""``POST /v1/chat/completions``, for servers that take no prompts of token ids: the server has the chat template.

A chat cannot be asked to go on in the midst of an answer. So an answer is read to its end, whatever our scheduler
suspends meanwhile; what has come is handed out when the sequence runs.
"""

import re
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from typing import Any

from llm_planner.backends.openai.completions import room
from llm_planner.backends.openai.dialect import Dialect
from llm_planner.backends.openai.errors import ServerError
from llm_planner.backends.openai.output_tokens import OutputTokens
from llm_planner.backends.openai.remote_sequence import RemoteSequence
from llm_planner.backends.openai.request import StreamRequest
from llm_planner.backends.openai.server import Chunk
from llm_planner.backends.openai.statement_ends import StatementEnds
from llm_planner.core.errors import ErrorCode
from llm_planner.documents import parse_json
from llm_planner.serving.prompt_encoder import PromptMarkup

_FIRST_ROLE = 1 << 32
"""No token id of a model, and no piece of text (``OutputTokens``)."""
_ROLES = ("system", "user", "assistant")
ROLE_IDS = {role: _FIRST_ROLE + number for number, role in enumerate(_ROLES)}
CHAT_MARKUP = PromptMarkup(before_static="system", before_dynamic="user", after_dynamic="assistant", before_next="user")
"""A prompt is a list of messages: each begins with the id of its role."""
TEMPLATE_TOKENS = 16
"""Taken for a message's markup, which the server alone knows."""
_JSON_RULE = 'Write the plan as JSON, in one line: {"plan": "..."}\n'
_SCHEMA = {
    "type": "object",
    "properties": {"plan": {"type": "string", "description": "the whole plan in MiniSpec"}},
    "required": ["plan"],
    "additionalProperties": False,
}
PLAN_AS_JSON = {"response_format": {"type": "json_schema", "json_schema": {"name": "plan", "schema": _SCHEMA}}}


class ChatTokens(OutputTokens):
    """The tokens of a model whose prompts are messages: markup spells roles, any other text is text."""

    def encode(self, text: str, *, allow_special: bool = False) -> list[int]:
        """Returns the id of a role where markup may stand, else the ids of the text."""
        if allow_special and text in ROLE_IDS:
            return [ROLE_IDS[text]]
        return super().encode(text)

    def token_bytes(self, token_id: int) -> bytes:
        """Returns the bytes of a token; none for a role."""
        return b"" if _FIRST_ROLE <= token_id < _FIRST_ROLE + len(_ROLES) else super().token_bytes(token_id)

    def spells_special(self, text: str) -> bool:
        """Returns whether a text would be read as special tokens by a server that reads the whole prompt as markup."""
        return super().encode(text, allow_special=True) != super().encode(text)

    def messages(self, token_ids: Iterable[int]) -> list[dict[str, str]]:
        """Returns the messages of a prompt.

        Raises:
            ServerError: If a text of the prompt spells a special token of the model.
        """
        parts: list[tuple[str, bytearray]] = []
        for token_id in token_ids:
            role = token_id - _FIRST_ROLE
            if 0 <= role < len(_ROLES):
                parts.append((_ROLES[role], bytearray()))
            else:
                parts[-1][1].extend(self.token_bytes(token_id))
        messages = [{"role": role, "content": bytes(content).decode(errors="replace")} for role, content in parts]
        if any(self.spells_special(message["content"]) for message in messages):
            message = "a text of the request spells a special token of the model, which a chat cannot tell from its own"
            raise ServerError(ErrorCode.ENGINE_FAILED, message, is_final=True)
        return messages


class Uncut(StatementEnds):
    """An answer that cannot be asked for in parts."""

    def feed(self, piece: bytes) -> bool:
        """Returns False: it is not to be left."""
        return False


class ChatRequests:
    """Implements ``Requests``.

    Args:
        dialect: Of the server.
        model: Name of the model on the server.
        max_model_len: Most tokens of prompt and output together.
        tokens: Of the model.
        writes_json: Whether plans come as JSON, for want of a grammar.
    """

    def __init__(
        self, dialect: Dialect, model: str, max_model_len: int, tokens: ChatTokens, *, writes_json: bool
    ) -> None:
        self._dialect = dialect
        self._model = model
        self._max_model_len = max_model_len
        self._tokens = tokens
        self._writes_json = writes_json

    def of(self, state: RemoteSequence) -> StreamRequest:
        """Returns a request for the whole answer, of which what was written already is left out.

        A prompt ends with a message of the assistant: what it had written of the answer before the goal came here.

        Raises:
            ServerError: If there is no room left, or a text spells a special token.
        """
        sequence, prompt = state.sequence, state.sequence.prompt_token_ids
        num_asked = len(prompt) - 1 - prompt[::-1].index(ROLE_IDS["assistant"])
        messages = self._tokens.messages(prompt[:num_asked])
        num_tokens = num_asked + TEMPLATE_TOKENS * len(messages)
        constraint: Mapping[str, Any] = {}
        is_json = False
        if sequence.grammar is not None and self._dialect.grammar is not None:
            constraint = self._dialect.grammar(sequence.grammar)
        elif sequence.grammar is not None and self._writes_json:
            is_json, constraint = True, PLAN_AS_JSON
            messages[0]["content"] += _JSON_RULE
            num_tokens += len(self._tokens.encode(_JSON_RULE))
        body = {
            "model": self._model,
            "messages": messages,
            "max_tokens": room(self._max_model_len, num_tokens),
            "temperature": sequence.sampling.temperature,
            "top_p": sequence.sampling.top_p,
            "seed": sequence.sampling.seed,
            "stream": True,
            **constraint,
        }
        written_ids = (*prompt[num_asked:], *state.output_token_ids)
        written = b"".join(map(self._tokens.token_bytes, written_ids)).decode(errors="replace")

        def read(chunks: AsyncIterator[Chunk]) -> AsyncIterator[Chunk]:
            plain = plan_in_json(chunks) if is_json else chunks
            return behind(plain, written) if written else plain

        return StreamRequest(path="chat/completions", body=body, ends=Uncut(), has_grammar=True, read=read)


async def behind(chunks: AsyncIterator[Chunk], written: str) -> AsyncIterator[Chunk]:
    """Yields what follows a text that an answer must begin with, white space aside: it was handed out before.

    Raises:
        ServerError: If the answer begins otherwise.
    """
    left = deque("".join(written.split()))
    try:
        async for chunk in chunks:
            characters, is_other = iter(chunk.text), False
            while left and not is_other and (character := next(characters, "")):
                is_other = not character.isspace() and character != left.popleft()
            if is_other or (left and chunk.finish_reason is not None):
                message = "asked once more for an answer that it had begun, the model server wrote another plan"
                raise ServerError(ErrorCode.ENGINE_FAILED, message, is_final=True)
            yield replace(chunk, text="".join(characters), token_ids=None)
    finally:
        await chunks.aclose()  # type: ignore[attr-defined] # an async generator


async def plan_in_json(chunks: AsyncIterator[Chunk]) -> AsyncIterator[Chunk]:
    """Yields the plan of an answer ``{"plan": "..."}``, piece by piece; an answer that is no JSON as it is.

    Raises:
        ServerError: If it is other JSON.
    """
    reader = PlanReader()
    try:
        async for chunk in chunks:
            try:
                yield replace(chunk, text=reader.feed(chunk.text), token_ids=None)
            except ValueError as error:
                message = f'the model server wrote no {{"plan": "..."}}: {error}'
                raise ServerError(ErrorCode.ENGINE_FAILED, message, is_final=True) from error
    finally:
        await chunks.aclose()  # type: ignore[attr-defined] # an async generator


class PlanReader:
    """Reads the text of a plan out of a JSON object that comes in pieces."""

    _START = re.compile(r'\s*\{\s*"plan"\s*:\s*"')
    _UNIT = re.compile(
        r'[^"\\]+|\\["\\/bfnrt]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|\\u(?![dD][89abAB])[0-9a-fA-F]{4}'
    )
    _LONGEST_START, _LONGEST_UNIT = 100, 12

    def __init__(self) -> None:
        self._rest = ""
        self._is_json: bool | None = None
        self._has_begun = self._has_ended = False

    def feed(self, text: str) -> str:
        """Returns what more of the plan is known.

        Raises:
            ValueError: If there is no plan in it.
        """
        self._rest += text
        if self._is_json is None and self._rest.strip():
            self._is_json = self._rest.lstrip().startswith("{")
        if self._is_json is False:
            plain, self._rest = self._rest, ""
            return plain
        if not self._has_begun:
            match = self._START.match(self._rest)
            if match is None:
                if len(self._rest) > self._LONGEST_START:
                    raise ValueError(repr(self._rest[:40]))
                return ""
            self._has_begun, self._rest = True, self._rest[match.end() :]
        return self._read()

    def _read(self) -> str:
        plan = ""
        while not self._has_ended and (unit := self._UNIT.match(self._rest)):
            plan += parse_json(f'"{_escaped(unit[0])}"')
            self._rest = self._rest[unit.end() :]
        if self._has_ended or self._rest.startswith('"'):
            self._has_ended, self._rest = True, ""
        elif len(self._rest) >= self._LONGEST_UNIT:
            raise ValueError(repr(self._rest[:40]))
        return plan


def _escaped(unit: str) -> str:
    """Returns a unit of JSON with its control characters, which some servers leave as they are, as JSON wants them."""
    return "".join(c if c >= " " else f"\\u{ord(c):04x}" for c in unit)
