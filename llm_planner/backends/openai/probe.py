# SPDX-License-Identifier: Apache-2.0
"""What a server really does of that which the planner relies on, asked with a few small requests at the start."""

import asyncio
import contextlib
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from llm_planner.backends.openai.chat import PLAN_AS_JSON
from llm_planner.backends.openai.dialect import Dialect
from llm_planner.backends.openai.errors import ServerError
from llm_planner.backends.openai.output_tokens import OutputTokens
from llm_planner.backends.openai.server import WRONG, ModelServer, token_id_of
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.documents import DocumentError, parse_json

TEXT = "robot: this request only asks what the server can do. scene: table_1, cat_2, red_block. "
"""Repeated, it is a prompt of several blocks of any prefix cache."""
PROMPT_TOKENS = 300
WORD = "zq7x"
"""What a grammar demands that no model writes by itself."""
GRAMMAR = f"start: WORD\nWORD: /{WORD}/ & ~/True|False/\n"
"""It uses what the grammars of robots use (``planning.grammar``): a server that cannot read them must not read this."""
WORD_TOKENS = 16
CHAT_TOKENS = 1024
"""Room for a model that thinks before it writes."""
STOP_S, LOOK_S = 2.0, 0.1
"""How long a server may go on after its client has left, and the pause between two looks."""
T = TypeVar("T")
_CHAT = "chat/completions"
_REFUSED = frozenset({400, 404, 405, 415, 422, 501})
_BETTER_SERVERS = "use vLLM, SGLang or llama.cpp's own llama-server"
_MOST_STREAMED = 4096  # tokens of the answer that is left


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a server does.

    Attributes:
        is_chat: Whether it has to be asked by messages, because it takes no token ids.
        writes_json: Whether it keeps to a JSON schema, where that is all it has to keep a plan to.
        has_token_ids: Whether its answers name their tokens; text is encoded here otherwise.
        num_cached_tokens: Of a prompt that it had just read; None if it does not say.
        num_prompt_tokens: Of that prompt.
        stops: Whether it stops writing when the client leaves; None if it does not say.
    """

    is_chat: bool = False
    writes_json: bool = False
    has_token_ids: bool
    num_cached_tokens: int | None
    num_prompt_tokens: int
    stops: bool | None

    def warnings(self) -> list[str]:
        """Returns what is missing and what to change, a sentence each."""
        found = []
        if self.is_chat:
            found.append(
                "token ids: the server takes messages only, so a suspended plan is written to its end all the same, "
                "and a task that spells a special token is refused; vLLM, SGLang and llama-server take token ids"
            )
        if self.num_cached_tokens == 0:
            found.append(
                f"prefix reuse: the server computed all {self.num_prompt_tokens} tokens of a prompt that it had just "
                "read, so every segment costs a whole prefill; turn its prefix cache on"
            )
        if self.stops is False:
            found.append(
                f"cancel: the server still wrote {STOP_S:.0f} s after its client had left, so suspended and cancelled "
                "goals keep their slots; connect the planner without a proxy that buffers, or update the server"
            )
        return found

    def __str__(self) -> str:
        cached = self.num_cached_tokens
        reuse = "not told" if cached is None else f"{cached} of {self.num_prompt_tokens} tokens"
        stops = {True: "yes", False: "no", None: "not told"}[self.stops]
        if self.is_chat:
            return f"asked by messages; plans in JSON: {'yes' if self.writes_json else 'no'}"
        return f"token ids in answers: {'yes' if self.has_token_ids else 'no'}; prefix reuse: {reuse}; cancel: {stops}"


class Probe:
    """Asks a server.

    Args:
        server: To ask.
        dialect: Of the server.
        model: Name of the model on the server.
        max_model_len: Most tokens of prompt and output together.
        tokens: Of the model, as ``engine.model`` has them.
        has_raw_prompts: Whether the model reads prompts that no chat template may wrap.
    """

    def __init__(
        self,
        server: ModelServer,
        *,
        dialect: Dialect,
        model: str,
        max_model_len: int,
        tokens: OutputTokens,
        has_raw_prompts: bool,
    ) -> None:
        self._server = server
        self._dialect = dialect
        self._tokens = tokens
        self._has_raw_prompts = has_raw_prompts
        self._model = model
        ids = tokens.encode(TEXT * PROMPT_TOKENS)[: min(PROMPT_TOKENS, max_model_len // 2)]
        self._body: Mapping[str, Any] = {"model": model, "prompt": ids, "temperature": 0.0, "seed": 0, **dialect.extra}
        self._num_prompt_tokens = len(ids)
        self._num_streamed = min(_MOST_STREAMED, max_model_len - len(ids))
        self._num_written = min(CHAT_TOKENS, max_model_len // 2)

    async def run(self) -> Capabilities:
        """Returns what the server does.

        Raises:
            PlannerError: INVALID_CONFIG, naming what is missing and what to change, if no plans can come from it.
            ServerError: If it does not answer.
        """
        refused = await self._refused_prompt()
        if refused is not None and self._has_raw_prompts:
            change = f"{_BETTER_SERVERS}; it gets no messages, as the prompts of engine.model are raw text"
            raise self._missing("token ids", refused, change)
        if refused is not None:
            return await self._chat(refused)
        answer = await self._word(self._answer(WORD_TOKENS, GRAMMAR))
        self._require_word(answer.text)
        await self._require_own_tokens(answer)
        return Capabilities(
            has_token_ids=answer.token_ids is not None,
            num_cached_tokens=answer.num_cached_tokens,
            num_prompt_tokens=self._num_prompt_tokens,
            stops=await self._stops(),
        )

    async def _refused_prompt(self) -> str | None:
        """Returns why a prompt of token ids is of no use to the server; None if it is read as one prompt."""
        try:
            answer = await self._answer(1)
        except ServerError as error:
            if error.status not in _REFUSED:
                raise
            return f"it refuses a prompt of token ids: {error.message}"
        if answer.num_prompt_tokens not in {None, self._num_prompt_tokens}:
            return f"it read {answer.num_prompt_tokens} tokens where {self._num_prompt_tokens} were sent"
        return None

    async def _chat(self, refused: str) -> Capabilities:
        """Returns what a server does that has to be asked by messages."""
        messages = [{"role": "system", "content": TEXT}, {"role": "user", "content": f"Write {WORD} and nothing else."}]
        body = {"model": self._model, "messages": messages, "temperature": 0.0, "max_tokens": self._num_written}
        try:
            text = _text(await self._server.ask(_CHAT, body))
        except ServerError as error:
            if error.status not in _REFUSED:
                raise
            raise self._missing("token ids", f"{refused}; and a chat, too: {error.message}", _BETTER_SERVERS) from error
        if self._dialect.grammar is not None:
            text = _text(await self._word(self._server.ask(_CHAT, {**body, **self._dialect.grammar(GRAMMAR)})))
        self._require_word(text)
        return Capabilities(
            is_chat=True,
            writes_json=self._dialect.grammar is None and await self._writes_json(body),
            has_token_ids=False,
            num_cached_tokens=None,
            num_prompt_tokens=0,
            stops=None,
        )

    async def _writes_json(self, body: Mapping[str, Any]) -> bool:
        """Returns whether the server keeps to the schema of a plan."""
        try:
            text = _text(await self._server.ask(_CHAT, {**body, **PLAN_AS_JSON}))
        except ServerError as error:
            if error.status not in _REFUSED:
                raise
            return False
        with contextlib.suppress(DocumentError):
            plan = parse_json(text)
            return isinstance(plan, dict) and isinstance(plan.get("plan"), str)
        return False

    async def _word(self, asked: Awaitable[T]) -> T:
        """Returns the answer to a request with a grammar; a request without one was answered before."""
        try:
            return await asked
        except ServerError as error:
            if error.status not in _REFUSED:
                raise
            raise self._ungrammatical(f"it refuses one: {error.message}") from error

    def _require_word(self, text: str) -> None:
        """Sees that the server has kept to the grammar, if there is one."""
        if self._dialect.grammar is not None and text.strip() != WORD:
            raise self._ungrammatical(f"asked for {WORD!r} alone, it wrote {text[:40]!r}")

    def _ungrammatical(self, what: str) -> PlannerError:
        change = f"{self._dialect.grammar_help}; or set openai.server: other, and every plan meets the gate as it is"
        return self._missing("grammar", what, change)

    async def _require_own_tokens(self, answer: "_Answer") -> None:
        """Sees that a token is the same text to the server and to us, where the server says."""
        ids, text = answer.token_ids, answer.text
        if ids is None and self._dialect.detokenize:
            ids = tuple(self._body["prompt"])
            spelled = await self._server.ask(self._dialect.detokenize, {"tokens": list(ids)})
            text = str(spelled.get("content")) if isinstance(spelled, dict) else ""
        if ids is None:
            return
        ours = b"".join(self._tokens.token_bytes(i) for i in ids if i not in self._tokens.eos_token_ids)
        if ours.decode(errors="replace").strip() != text.strip():
            raise self._missing(
                "tokens",
                "its tokens spell other texts than those of engine.model",
                "let engine.model be a directory with the tokenizer of the model that it serves",
            )

    async def _stops(self) -> bool | None:
        """Returns whether the server stops writing when the client leaves, as far as its gauge tells.

        A short request comes before each look, because vLLM's gauge is as of the last step.
        """
        before = await self._num_running()
        if before is None:
            return None
        body = {**self._body, "max_tokens": self._num_streamed, "ignore_eos": True, "stream": True}
        stream = self._server.complete("completions", body)
        try:
            async for _ in stream:
                break
        except ServerError:
            return None
        await stream.aclose()  # type: ignore[attr-defined] # an async generator
        for _ in range(round(STOP_S / LOOK_S)):
            now = await self._num_running()
            if now is None or now <= before:
                return None if now is None else True
            await asyncio.sleep(LOOK_S)
        return False

    async def _num_running(self) -> int | None:
        gauge = self._dialect.gauge
        if gauge is None:
            return None
        with contextlib.suppress(ServerError):
            await self._answer(1)
            return gauge.read(await self._server.look(gauge.path))
        return None

    async def _answer(self, max_tokens: int, grammar: str | None = None) -> "_Answer":
        extra = {} if grammar is None or self._dialect.grammar is None else self._dialect.grammar(grammar)
        body = {**self._body, **extra, "max_tokens": max_tokens}
        answer = await self._server.ask("completions", body)
        try:
            return _read(answer)
        except WRONG as error:
            raise self._missing("completions", "its answer is no completion", "correct openai.base_url") from error

    def _missing(self, capability: str, what: str, change: str) -> PlannerError:
        message = f"{self._server.url} ({self._dialect.name}) lacks {capability}: {what}; {change}"
        return PlannerError(ErrorCode.INVALID_CONFIG, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """A completion in one piece; what the server does not say is None."""

    text: str
    token_ids: tuple[int, ...] | None
    num_prompt_tokens: int | None
    num_cached_tokens: int | None


def _text(answer: Any) -> str:
    """Returns the text of a chat's answer; empty if there is none."""
    try:
        return str(answer["choices"][0]["message"]["content"] or "")
    except (LookupError, TypeError):
        return ""


def _read(answer: Mapping[str, Any]) -> _Answer:
    choice, usage = answer["choices"][0], answer.get("usage") or {}
    ids, num_prompt = choice.get("token_ids"), usage.get("prompt_tokens")
    num_cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    return _Answer(
        text=str(choice["text"]),
        token_ids=None if ids is None else tuple(map(token_id_of, ids)),
        num_prompt_tokens=None if num_prompt is None else int(num_prompt),
        num_cached_tokens=None if num_cached is None else int(num_cached),
    )
