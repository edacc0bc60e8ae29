# SPDX-License-Identifier: Apache-2.0
"""The backend for OpenAI-compatible servers: applies scheduler outputs to streams of completions."""

import asyncio
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from collections.abc import Sequence as Seq
from typing import TypeVar

from llm_planner.backends.openai.background import BackgroundLoop
from llm_planner.backends.openai.chat import CHAT_MARKUP, ChatRequests, ChatTokens
from llm_planner.backends.openai.completions import CompletionRequests
from llm_planner.backends.openai.dialect import Dialect, find_dialect
from llm_planner.backends.openai.errors import ServerError
from llm_planner.backends.openai.opener import StreamOpener
from llm_planner.backends.openai.output_tokens import OutputTokens
from llm_planner.backends.openai.probe import Capabilities, Probe
from llm_planner.backends.openai.remote_sequence import RemoteSequence
from llm_planner.backends.openai.request import Requests
from llm_planner.backends.openai.server import MOST_NAMED, ModelCard, ModelServer
from llm_planner.backends.openai.stream import StreamEnd
from llm_planner.core.config import OpenAIConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.execution_time import MOST_DECODED_TOKENS
from llm_planner.core.interfaces import BackendInfo, Clock, Tokenizer
from llm_planner.core.step import FinishReason, SchedulerOutput, Sequence, StepOutput
from llm_planner.serving.prompt_encoder import PromptMarkup

T = TypeVar("T")
_log = logging.getLogger(__name__)
POLL_S = 0.05
"""Longest step: a cancellation or an urgent request waits at most this long while a server is silent."""
IDLE_S = 0.1
"""No step for this long means that all goals are suspended: the server must not generate for them any longer."""
GATHER_S = 0.003
"""How long a step waits for the tokens of the others once the first has come: a server sends them together."""
UNBOUNDED_BLOCKS = 1_000_000
"""Stands for a KV cache of unknown size: a server preempts and queues by itself."""
BLOCK_SIZE = 16
"""Tokens per block of that cache, for people."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
"""Between two attempts at a sequence whose stream failed; the pause doubles."""


class OpenAIBackend:
    """Implements ``core.interfaces.Backend`` with an unmodified server.

    A scheduled sequence has a stream open, and a step waits for its next tokens. One that is not scheduled leaves its
    stream where the plan may be cut; when scheduled again, it is requested with its prompt and all that it has written,
    which the server mostly finds in its prefix cache. So a server has no more to do than our scheduler has admitted.

    The server's KV cache is its own affair: that of a suspended sequence is kept as long as its prefix cache keeps it.

    Args:
        config: Where the server is.
        tokenizer: Of the model that it serves: prompts go out as token ids, so that no text of a user can spell a
            special token, and the server finds what it has computed before.
        api_key: None for a server that wants none.
        clock: Times the steps.
        has_raw_prompts: Whether the model reads prompts that no chat template may wrap.

    Attributes:
        tokenizer: Of prompts and answers.
        markup: Of prompts for a server that has the chat template and takes messages only; None for any other.

    Raises:
        PlannerError: SERVER_UNREACHABLE, INVALID_CONFIG or MODEL_NOT_FOUND if the server cannot be used, ENGINE_FAILED
            if it fails at its first requests.
    """

    def __init__(
        self,
        config: OpenAIConfig,
        tokenizer: Tokenizer,
        *,
        api_key: str | None,
        clock: Clock,
        has_raw_prompts: bool = True,
    ) -> None:
        self.tokenizer = OutputTokens(tokenizer)
        self.markup: PromptMarkup | None = None
        self._config = config
        self._clock = clock
        self._states: dict[str, RemoteSequence] = {}
        self._changed = threading.Event()
        self._num_steps = 0
        self._server = ModelServer(config, api_key)
        self._background = BackgroundLoop()
        try:
            cards = self._background.run(_patiently(self._server.models, config.retry_s, clock, must_answer=True))
            card = _choose(cards, config)
            dialect = find_dialect(config.server, card.owned_by)
            max_model_len = card.max_model_len or config.max_model_len
            probe = Probe(
                self._server,
                dialect=dialect,
                model=card.name,
                max_model_len=max_model_len,
                tokens=self.tokenizer,
                has_raw_prompts=has_raw_prompts,
            )
            capabilities = self._background.run(_patiently(probe.run, config.retry_s, clock))
        except (ServerError, PlannerError) as error:
            self.close()
            raise PlannerError(error.code, error.message) from error
        self._info = BackendInfo(
            model=card.name,
            num_kv_blocks=UNBOUNDED_BLOCKS,
            block_size=BLOCK_SIZE,
            max_model_len=max_model_len,
            can_offload=False,
            keeps_kv=True,
        )
        requests: Requests = CompletionRequests(dialect, card.name, max_model_len, self.tokenizer)
        if capabilities.is_chat:
            self.tokenizer, self.markup = (chat := ChatTokens(tokenizer)), CHAT_MARKUP
            requests = ChatRequests(dialect, card.name, max_model_len, chat, writes_json=capabilities.writes_json)
        self._opener = StreamOpener(
            self._server,
            self._background,
            requests=requests,
            tokens=self.tokenizer,
            notify=self._changed.set,
        )
        _say_limits(config, dialect, capabilities)
        self._background.start(self._watch())

    @property
    def info(self) -> BackendInfo:
        """Limits of this backend."""
        return self._info

    def load_prefix(self, prefix_id: str, token_ids: Seq[int], adapter: str | None = None) -> int:
        """Returns 0: a server's prefix cache guarantees nothing. The first request of its kind fills it."""
        return 0

    def execute(self, scheduled: SchedulerOutput) -> StepOutput:
        """Runs one step, of about ``POLL_S`` at most, and returns what has come.

        Raises:
            PlannerError: EVICTION_UNSUPPORTED if it is asked to change the KV cache.
        """
        if scheduled.evict:
            raise PlannerError(ErrorCode.EVICTION_UNSUPPORTED, "a planner cannot change the KV cache of a model server")
        start_s = self._clock.now_s()
        self._num_steps += 1
        for request_id in scheduled.release:
            self._release(request_id)
        failed: dict[str, ServerError] = {}
        for sequence in scheduled.new:
            self._admit(sequence, failed)
        for request_id, state in self._states.items():
            if request_id not in scheduled.num_scheduled_tokens:
                state.leave()
        running = self._keep_open(scheduled.num_scheduled_tokens, failed, start_s)
        self._wait(list(running.values()))
        return self._collect(running, failed, start_s)

    def close(self) -> None:
        """Closes all streams; safe to call twice."""
        for request_id in list(self._states):
            self._release(request_id)
        if not self._background.is_closed:
            self._background.run(self._server.close())
            self._background.close()

    async def _watch(self) -> None:
        """Leaves all streams when there are no more steps: no call reports that the last goal was suspended."""
        num_steps = 0
        while True:
            await asyncio.sleep(IDLE_S)
            if num_steps == self._num_steps:
                for state in list(self._states.values()):
                    if (stream := state.stream) is not None:  # the other thread may drop it
                        stream.leave()
            num_steps = self._num_steps

    def _admit(self, sequence: Sequence, failed: dict[str, ServerError]) -> None:
        if sequence.request_id in self._states:
            failed[sequence.request_id] = _misuse("another request of this name is not released yet")
            return
        state = RemoteSequence(sequence=sequence, output_token_ids=list(sequence.output_token_ids))
        self._states[sequence.request_id] = state

    def _release(self, request_id: str) -> None:
        state = self._states.pop(request_id, None)
        if state is not None:
            state.close()

    def _keep_open(
        self, request_ids: Iterable[str], failed: dict[str, ServerError], now_s: float
    ) -> dict[str, RemoteSequence]:
        """Sees to a stream for each scheduled sequence; returns those that can bring something."""
        running: dict[str, RemoteSequence] = {}
        for request_id in request_ids:
            state = self._states.get(request_id)
            if state is None or request_id in failed:
                failed.setdefault(request_id, _misuse("the backend does not know this request"))
                continue
            try:
                if state.needs_stream(now_s):
                    self._opener.open(state)
            except ServerError as failure:
                self._fail(request_id, failure, failed)
                continue
            if state.stream is not None:
                state.stream.stay()
            running[request_id] = state
        return running

    def _wait(self, states: Seq[RemoteSequence]) -> None:
        """Waits until all have something to tell; not long, once one has."""
        end_s = self._clock.now_s() + POLL_S
        while True:
            self._changed.clear()
            num_ready = sum(state.has_news for state in states)
            if num_ready:
                end_s = min(end_s, self._clock.now_s() + GATHER_S)
            left_s = end_s - self._clock.now_s()
            if num_ready == len(states) or left_s <= 0:
                return
            self._changed.wait(left_s)

    def _collect(
        self, running: Mapping[str, RemoteSequence], failed: dict[str, ServerError], start_s: float
    ) -> StepOutput:
        """Returns what has come; a sequence of which nothing came did not run, as the scheduler sees it.

        But its prompt did, once it was sent: no other one has to wait until the server has read it.
        """
        token_ids: dict[str, tuple[int, ...]] = {}
        finished: dict[str, FinishReason] = {}
        computed: dict[str, int] = {}
        for request_id, state in running.items():
            num_tokens = state.num_tokens
            new = state.take(MOST_DECODED_TOKENS)
            is_finished = state.is_drained(StreamEnd.STOPPED)
            if new:
                token_ids[request_id] = tuple(new)
            if is_finished:
                finished[request_id] = FinishReason.STOP
            num_done = num_tokens if new or is_finished else num_tokens - 1  # what was sent is the server's to compute
            if state.stream is not None and num_done > state.num_computed_tokens:
                computed[request_id] = num_done - state.num_computed_tokens
                state.num_computed_tokens = num_done
            if state.is_drained(StreamEnd.FAILED):
                self._bear(request_id, state, failed)
        num_held = sum(-(-state.num_computed_tokens // self._info.block_size) for state in self._states.values())
        return StepOutput(
            token_ids=token_ids,
            finished=finished,
            failed={request_id: failure.message for request_id, failure in failed.items()},
            unanswered=frozenset(r for r, failure in failed.items() if failure.code is ErrorCode.SERVER_UNREACHABLE),
            free_kv_blocks=max(0, self._info.num_kv_blocks - num_held),
            duration_s=self._clock.now_s() - start_s,
            step=SchedulerOutput(num_scheduled_tokens=computed),
        )

    def _bear(self, request_id: str, state: RemoteSequence, failed: dict[str, ServerError]) -> None:
        """Notes that a stream failed: it is asked for again after a pause, unless that is of no use or for too long."""
        failure = state.forget_stream()
        now_s = self._clock.now_s()
        if state.num_failures == 0:
            state.failing_since_s = now_s
        doublings = min(state.num_failures, 9)  # more would be longer than any pause
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**doublings)
        state.num_failures += 1
        state.retry_at_s = now_s + pause_s
        if failure.is_final or state.retry_at_s - state.failing_since_s > self._config.retry_s:
            self._fail(request_id, failure, failed)
        else:
            _log.warning("%s: %s; asking again in %.1f s", request_id, failure.message, pause_s)

    def _fail(self, request_id: str, failure: ServerError, failed: dict[str, ServerError]) -> None:
        self._release(request_id)
        failed[request_id] = failure


def _misuse(message: str) -> ServerError:
    """Returns the failure of a request that was not even sent."""
    return ServerError(ErrorCode.ENGINE_FAILED, message, is_final=True)


async def _patiently(ask: Callable[[], Awaitable[T]], retry_s: float, clock: Clock, *, must_answer: bool = False) -> T:
    """Returns an answer; a server that is busy, or still loads its model, is asked again for a while.

    Args:
        ask: The question.
        retry_s: From its first failure on, for so long.
        clock: Tells how long that is.
        must_answer: Whether a server that says nothing at all is not asked again.
    """
    pause_s, failing_since_s = FIRST_PAUSE_S, math.inf
    while True:
        try:
            return await ask()
        except ServerError as error:
            failing_since_s = min(failing_since_s, now_s := clock.now_s())
            is_silent = must_answer and error.status is None
            if error.is_final or is_silent or now_s + pause_s - failing_since_s > retry_s:
                raise
            _log.warning("%s; asking again in %.1f s", error.message, pause_s)
        await asyncio.sleep(pause_s)
        pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)


def _choose(cards: Seq[ModelCard], config: OpenAIConfig) -> ModelCard:
    """Returns the model that is meant."""
    names = ", ".join(card.name[:80] for card in cards[:MOST_NAMED]) or "none"
    if not config.model:
        if len(cards) == 1:
            return cards[0]
        message = f"{config.base_url} serves these models: {names}; name one of them in openai.model"
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    for card in cards:
        if card.name == config.model:
            return card
    message = f"{config.base_url} does not serve {config.model!r}; it serves: {names}"
    raise PlannerError(ErrorCode.MODEL_NOT_FOUND, message)


def _say_limits(config: OpenAIConfig, dialect: Dialect, capabilities: Capabilities) -> None:
    """Says what this backend cannot do, and what the server was found to do."""
    _log.info("%s (%s): %s", config.base_url, dialect.name, capabilities)
    for warning in capabilities.warnings():
        _log.warning("%s: %s", config.base_url, warning)
    _log.warning(
        "backend openai at %s (%s): KV cannot be evicted, and that of a suspended goal lasts only as long as the "
        "server's prefix cache keeps it; time budgets use the other measures",
        config.base_url,
        dialect.name,
    )
    if dialect.grammar is None and not capabilities.writes_json:
        _log.warning(
            "decoding is not kept to the grammar of the robot's skills: every plan meets the safety gate as is"
        )
