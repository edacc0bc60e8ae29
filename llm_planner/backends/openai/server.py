# SPDX-License-Identifier: Apache-2.0
"""The server at the other end: what it says of itself, and streams of what its model writes.

Whatever it answers takes a bounded amount of memory, uncompressed, and is one of the errors of this module or a chunk.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from llm_planner.backends.openai.errors import ServerError
from llm_planner.backends.support import require_address
from llm_planner.core.config import OpenAIConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.documents import DocumentError, parse_json

MAX_BODY_BYTES = 4_000_000  # of an answer that is no stream
MAX_EVENT_BYTES = 1_000_000
MAX_BYTES_PER_TOKEN = 10_000  # of a stream: some servers add log probabilities
MAX_TOKEN_ID = 2**31
MAX_MODEL_LEN = 10**8
MOST_NAMED = 20  # models
MOST_STALLS = 10
"""Times ``stall_timeout_s``: so long a server may send nothing that counts, while it reads a long prompt."""
WRONG = (DocumentError, ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError)
"""What is raised where an answer is not what it should be."""
_FINAL = frozenset({400, 401, 403, 404, 405, 410, 413, 415, 422})
"""Statuses that say that the request itself is refused: asking again would not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """What a server says of a model.

    Attributes:
        name: As requests must name it.
        owned_by: Mostly the name of the server's software.
        max_model_len: Most tokens of prompt and output together; None if it does not say.
    """

    name: str
    owned_by: str
    max_model_len: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of a stream.

    Attributes:
        token_ids: What ``text`` was made from, if the server says so.
        finish_reason: Why nothing follows; None if more does.
    """

    text: str = ""
    token_ids: tuple[int, ...] | None = None
    finish_reason: str | None = None


class ModelServer:
    """An HTTP client of one server. The API key goes into the header of each request and nowhere else.

    Args:
        config: Its address and its timeouts.
        api_key: None for a server that wants none.

    Raises:
        PlannerError: INVALID_CONFIG for an address or a key that cannot be used.
    """

    def __init__(self, config: OpenAIConfig, api_key: str | None) -> None:
        require_address(config)
        self._url = config.base_url.rstrip("/")
        self._root = self._url.removesuffix("/v1")
        self._key_variable = config.api_key_variable
        self._most_silent_s = MOST_STALLS * config.stall_timeout_s
        headers = {"Accept-Encoding": "identity"}  # what is compressed could grow without bounds
        if api_key:
            headers["Authorization"] = f"Bearer {_checked_key(api_key, config)}"
        self._client = httpx2.AsyncClient(
            base_url=f"{self._url}/",
            headers=headers,
            timeout=httpx2.Timeout(config.connect_timeout_s, read=config.stall_timeout_s),
            limits=httpx2.Limits(max_connections=None),
        )

    @property
    def url(self) -> str:
        """Its address, for people."""
        return self._url

    async def models(self) -> list[ModelCard]:
        """Returns the models that it serves.

        Raises:
            ServerError: If it cannot be asked.
        """
        body = await self._whole("GET", "models")
        try:
            return [_card(entry) for entry in parse_json(body)["data"]]
        except WRONG as error:
            raise ServerError(
                ErrorCode.INVALID_CONFIG,
                f"{self._url}/models is no list of models; openai.base_url must be the address that ends in /v1",
                is_final=True,
            ) from error

    async def ask(self, path: str, body: Mapping[str, Any]) -> Any:
        """Returns what a path answers to a request, as JSON; a path that begins with ``/`` does not lie below /v1.

        Raises:
            ServerError: If it refuses, does not answer, or answers with something else.
        """
        answer = await self._whole("POST", path, body)
        try:
            return parse_json(answer)
        except DocumentError as error:
            raise self._nonsense(f"no JSON from {path}: {answer[:80]!r}", is_final=True) from error

    async def look(self, path: str) -> bytes:
        """Returns what a path that does not lie below /v1 holds.

        Raises:
            ServerError: If it refuses or does not answer.
        """
        return await self._whole("GET", path)

    async def complete(self, path: str, body: Mapping[str, Any]) -> AsyncIterator[Chunk]:
        """Yields what the model writes behind a prompt, up to the chunk that says why it ends.

        Raises:
            ServerError: If it refuses, falls silent, ends without a reason, or does not end.
        """
        max_tokens = int(body["max_tokens"])
        num_tokens = 0
        now_s = asyncio.get_running_loop().time
        try:
            async with self._client.stream("POST", path, json=dict(body)) as response:
                if response.status_code != httpx2.codes.OK:
                    raise self._refusal(response, await self._body(response))
                written_at_s = now_s()
                async for data in self._events(response, MAX_EVENT_BYTES + MAX_BYTES_PER_TOKEN * max_tokens):
                    if data == b"[DONE]":
                        break
                    chunk = self._chunk(data)
                    if chunk.text or chunk.token_ids or chunk.finish_reason is not None:
                        written_at_s = now_s()
                    elif now_s() - written_at_s > self._most_silent_s:
                        raise self._stalled("nothing but empty events")
                    num_tokens += len(chunk.token_ids or ())
                    if num_tokens > max_tokens:
                        raise self._nonsense(f"more than the {max_tokens} tokens that were asked for")
                    yield chunk
                    if chunk.finish_reason is not None:
                        return
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from error
        raise ServerError(
            ErrorCode.ENGINE_FAILED, f"the model server {self._url} ended a stream in its midst", is_final=False
        )

    async def close(self) -> None:
        """Closes all connections."""
        await self._client.aclose()

    async def _whole(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        """Returns the body of an answer in one piece."""
        url = f"{self._root}{path}" if path.startswith("/") else path
        try:
            async with self._client.stream(method, url, json=None if body is None else dict(body)) as response:
                answer = await self._body(response)
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from error
        if response.status_code != httpx2.codes.OK:
            raise self._refusal(response, answer)
        return answer

    async def _body(self, response: httpx2.Response) -> bytes:
        """Returns the body of an answer that is no stream."""
        self._require_uncompressed(response)
        body = bytearray()
        now_s = asyncio.get_running_loop().time
        begun_at_s = now_s()
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > MAX_BODY_BYTES:
                raise self._nonsense(f"an answer of more than {MAX_BODY_BYTES} bytes")
            if now_s() - begun_at_s > self._most_silent_s:
                raise self._stalled("no whole answer")
        return bytes(body)

    async def _events(self, response: httpx2.Response, max_bytes: int) -> AsyncIterator[bytes]:
        """Yields the data of server-sent events; each is one line, as all known servers send them."""
        self._require_uncompressed(response)
        rest, num_bytes = bytearray(), 0
        now_s = asyncio.get_running_loop().time
        silent_since_s = now_s()
        async for piece in response.aiter_raw():
            num_bytes += len(piece)
            rest += piece
            if b"\n" in piece:
                *lines, rest = rest.split(b"\n")
                for line in lines:
                    if line.startswith(b"data:"):
                        yield bytes(line[5:]).strip()
                        silent_since_s = now_s()
            if now_s() - silent_since_s > self._most_silent_s:
                raise self._stalled("nothing but comments")
            if len(rest) > MAX_EVENT_BYTES or num_bytes > max_bytes:
                raise self._nonsense(f"a line, or a stream, without an end ({num_bytes} bytes)")

    def _stalled(self, what: str) -> ServerError:
        message = f"the model server {self._url} has sent {what} for {self._most_silent_s:.0f} s"
        return ServerError(ErrorCode.SERVER_UNREACHABLE, message, is_final=False)

    def _require_uncompressed(self, response: httpx2.Response) -> None:
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding != "identity":
            raise self._nonsense(f"an answer compressed with {encoding[:40]!r}, which was not asked for", is_final=True)

    def _nonsense(self, what: str, *, is_final: bool = False) -> ServerError:
        return ServerError(ErrorCode.ENGINE_FAILED, f"the model server {self._url} sent {what}", is_final=is_final)

    def _chunk(self, data: bytes) -> Chunk:
        try:
            message = parse_json(data)
            if error := message.get("error"):
                raise self._mid_stream(error if isinstance(error, dict) else {"message": error})
            if not message["choices"]:
                return Chunk()
            choice = message["choices"][0]
            written = choice.get("delta") or choice  # of a chat, or of a completion
            token_ids, reason = choice.get("token_ids"), choice.get("finish_reason")
            return Chunk(
                text=str(written.get("content") or written.get("text") or ""),
                token_ids=None if token_ids is None else tuple(map(token_id_of, token_ids)),
                finish_reason=str(reason) if reason else None,
            )
        except WRONG as error:
            raise self._nonsense(f"a line that is no completion: {data[:80]!r}") from error

    def _mid_stream(self, error: Mapping[str, Any]) -> ServerError:
        message = f"the model server {self._url} reports: {_line(error.get('message'))}"
        code = error.get("code")
        return ServerError(ErrorCode.ENGINE_FAILED, message, is_final=isinstance(code, int) and code in _FINAL)

    def _unreachable(self, error: httpx2.HTTPError) -> ServerError:
        what = str(error) or type(error).__name__
        return ServerError(
            ErrorCode.SERVER_UNREACHABLE,
            f"the model server {self._url} does not answer ({what}); start it, or correct openai.base_url",
            is_final=False,
        )

    def _refusal(self, response: httpx2.Response, body: bytes) -> ServerError:
        status, said = response.status_code, _message(body) or response.reason_phrase
        code = ErrorCode.ENGINE_FAILED
        message = f"the model server {self._url} answers {status}: {said}"
        if status in {401, 403}:
            code = ErrorCode.INVALID_CONFIG
            message += f"; put its API key into the environment variable {self._key_variable}"
        elif status == 404:
            code = ErrorCode.INVALID_CONFIG
            message += "; openai.base_url must be the address that ends in /v1, openai.model a model of that server"
        is_final = status in _FINAL or 300 <= status < 400
        return ServerError(code, message, is_final=is_final, status=status)


def _card(entry: Mapping[str, Any]) -> ModelCard:
    meta = entry.get("meta") or {}  # of llama.cpp: the context of a slot, and what the model was trained for
    length = entry.get("max_model_len") or meta.get("n_ctx") or meta.get("n_ctx_train")
    if length is not None and not 1 <= int(length) <= MAX_MODEL_LEN:
        raise ValueError(f"a model takes {length} tokens")
    return ModelCard(
        name=str(entry["id"]),
        owned_by=str(entry.get("owned_by", "")),
        max_model_len=None if length is None else int(length),
    )


def token_id_of(value: Any) -> int:
    """Returns a token id of an answer.

    Raises:
        ValueError: If it can be none.
    """
    if not isinstance(value, int) or not 0 <= value < MAX_TOKEN_ID:
        raise ValueError(f"{value!r} is no token")
    return value


def _message(body: bytes) -> str:
    """Returns the reason that an error response gives, if any."""
    try:
        answer = parse_json(body)
        error = answer.get("error", answer)
        text = error.get("message") or error.get("detail") if isinstance(error, dict) else error
    except (DocumentError, AttributeError):
        text = body.decode("utf-8", "replace")
    return _line(text or "")


def _line(text: object) -> str:
    """Returns a text from outside on one line, not too long, and without what would control a terminal."""
    words = "".join(character if character.isprintable() else " " for character in str(text)[:2_000])
    return " ".join(words.split())[:300]


def _checked_key(api_key: str, config: OpenAIConfig) -> str:
    if not (api_key.isascii() and api_key.isprintable()):
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"the environment variable {config.api_key_variable} holds characters that no API key has",
        )
    return api_key
