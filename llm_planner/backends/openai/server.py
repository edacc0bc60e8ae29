"""The server at the other end: what it says of itself, and streams of what its model writes."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from llm_planner.backends.openai.errors import ServerError
from llm_planner.core.config import OpenAIConfig
from llm_planner.core.errors import ErrorCode, PlannerError

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
        config: Where it is, and how patient to be.
        api_key: None for a server that wants none.

    Raises:
        PlannerError: INVALID_CONFIG for an address or a key that cannot be used.
    """

    def __init__(self, config: OpenAIConfig, api_key: str | None) -> None:
        self._url = _checked_url(config.base_url)
        self._key_variable = config.api_key_variable
        headers = {"Authorization": f"Bearer {_checked_key(api_key, config)}"} if api_key else {}
        self._client = httpx2.AsyncClient(
            base_url=f"{self._url}/",
            headers=headers,
            timeout=httpx2.Timeout(config.connect_timeout_s, read=config.stall_timeout_s),
            limits=httpx2.Limits(max_connections=None),
        )

    async def models(self) -> list[ModelCard]:
        """Returns the models that it serves.

        Raises:
            ServerError: If it cannot be asked.
        """
        try:
            response = await self._client.get("models")
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from error
        if response.status_code != httpx2.codes.OK:
            raise self._refusal(response)
        try:
            return [_card(entry) for entry in response.json()["data"]]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ServerError(
                ErrorCode.INVALID_CONFIG,
                f"{self._url}/models is no list of models; openai.base_url must be the address that ends in /v1",
                is_final=True,
            ) from error

    async def complete(self, body: Mapping[str, Any]) -> AsyncIterator[Chunk]:
        """Yields what the model writes behind a prompt, up to the chunk that says why it ends.

        Raises:
            ServerError: If it refuses, falls silent, or ends without a reason.
        """
        try:
            async with self._client.stream("POST", "completions", json=dict(body)) as response:
                if response.status_code != httpx2.codes.OK:
                    await response.aread()
                    raise self._refusal(response)
                async for event in httpx2.EventSource(response):
                    if event.data == "[DONE]":
                        break
                    chunk = self._chunk(event.data)
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

    def _chunk(self, data: str) -> Chunk:
        try:
            message = json.loads(data)
            if "error" in message:
                error = message["error"]
                raise self._mid_stream(error if isinstance(error, dict) else {"message": error})
            if not message["choices"]:
                return Chunk()
            choice = message["choices"][0]
            token_ids = choice.get("token_ids")
            return Chunk(
                text=str(choice.get("text") or ""),
                token_ids=None if token_ids is None else tuple(map(int, token_ids)),
                finish_reason=choice.get("finish_reason"),
            )
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise ServerError(
                ErrorCode.ENGINE_FAILED,
                f"the model server {self._url} sent a line that is no completion: {data[:80]!r}",
                is_final=False,
            ) from error

    def _mid_stream(self, error: Mapping[str, Any]) -> ServerError:
        message = f"the model server {self._url} reports: {str(error.get('message'))[:300]}"
        return ServerError(ErrorCode.ENGINE_FAILED, message, is_final=error.get("code") in _FINAL)

    def _unreachable(self, error: httpx2.HTTPError) -> ServerError:
        what = str(error) or type(error).__name__
        return ServerError(
            ErrorCode.SERVER_UNREACHABLE,
            f"the model server {self._url} does not answer ({what}); start it, or correct openai.base_url",
            is_final=False,
        )

    def _refusal(self, response: httpx2.Response) -> ServerError:
        status, said = response.status_code, _message(response)
        code = ErrorCode.ENGINE_FAILED
        message = f"the model server {self._url} answers {status}: {said}"
        if status in {401, 403}:
            code = ErrorCode.INVALID_CONFIG
            message += f"; put its API key into the environment variable {self._key_variable}"
        elif status == 404:
            code = ErrorCode.INVALID_CONFIG
            message += "; openai.base_url must be the address that ends in /v1, openai.model a model of that server"
        is_final = status in _FINAL or 300 <= status < 400
        return ServerError(code, message, is_final=is_final)


def _card(entry: Mapping[str, Any]) -> ModelCard:
    length = entry.get("max_model_len") or (entry.get("meta") or {}).get("n_ctx_train")
    return ModelCard(
        name=str(entry["id"]),
        owned_by=str(entry.get("owned_by", "")),
        max_model_len=None if length is None else int(length),
    )


def _message(response: httpx2.Response) -> str:
    """Returns the reason that an error response gives, on one line and not too long."""
    try:
        body = response.json()
        error = body.get("error", body)
        text = error.get("message") or error.get("detail") if isinstance(error, dict) else error
    except (ValueError, AttributeError):
        text = response.text
    return " ".join(str(text or response.reason_phrase).split())[:300]


def _checked_url(base_url: str) -> str:
    try:
        url = httpx2.URL(base_url)
    except httpx2.InvalidURL as error:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"openai.base_url is no address: {error}") from error
    if url.userinfo:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            "openai.base_url holds a user name or password; leave it out, and put the API key into the environment "
            "variable that openai.api_key_variable names",
        )
    if url.scheme not in {"http", "https"} or not url.host:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG, f"openai.base_url is {base_url!r}; give an address like http://127.0.0.1:8000/v1"
        )
    return str(url).rstrip("/")


def _checked_key(api_key: str, config: OpenAIConfig) -> str:
    if not (api_key.isascii() and api_key.isprintable()):
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"the environment variable {config.api_key_variable} holds characters that no API key has",
        )
    return api_key
