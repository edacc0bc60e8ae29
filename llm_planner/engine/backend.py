# SPDX-License-Identifier: Apache-2.0
"""The torch backend: applies scheduler outputs to sequences, blocks and the model."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import BackendInfo, Clock
from llm_planner.core.step import FinishReason, SchedulerOutput, Sequence, StepOutput, TokenChoice
from llm_planner.engine.block_manager import BlockManager
from llm_planner.engine.checkpoint import Checkpoint, OpenWeights
from llm_planner.engine.eviction import make_eviction_method
from llm_planner.engine.eviction.evictor import Evictor
from llm_planner.engine.grammar import compiler_for
from llm_planner.engine.hardware import default_num_host_blocks
from llm_planner.engine.lookahead import Lookahead, measure_step_cost, verify
from llm_planner.engine.model_config import read_model_config
from llm_planner.engine.model_runner import Chunk, ModelRunner, StepInterrupted
from llm_planner.engine.prefix_store import PrefixStore
from llm_planner.engine.sampler import SamplingError
from llm_planner.engine.sequence_opener import RequestError, SequenceOpener
from llm_planner.engine.sequence_state import SequenceState
from llm_planner.engine.tokenizer import HFTokenizer, load_tokenizer

_log = logging.getLogger(__name__)


class _LostKVError(RequestError):
    """The KV of one request could not be moved; it can be computed again."""


class TorchBackend:
    """Implements ``core.interfaces.InterruptibleBackend`` for a local checkpoint directory.

    Args:
        model_dir: Hugging Face checkpoint directory.
        device: ``auto`` (CUDA if there is one), ``cpu``, ``cuda`` or ``cuda:N``.
        dtype: ``auto`` (``hardware.select_dtype``), float32, bfloat16 or float16.
        num_kv_blocks: 0 sizes the KV cache from the free memory and ``max_num_seqs``.
        max_num_seqs: Most sequences that will decode together.
        num_engines: Those that share the memory of this host, this one included.
        block_size: Tokens per KV block.
        num_threads: CPU threads; 0 leaves the library's default.
        eviction_method: Which KV goes where the scheduler asks for it (``engine.eviction``).
        lookahead: What a step may add to the one token that it yields (``lookahead.Lookahead``).
        adapters: Directories of the LoRA adapters that sequences may name.
        open_weights: Another source of weights than the files in ``model_dir``: a benchmark's random ones.
        clock: Times the steps.

    Raises:
        PlannerError: Before any weight is read if the checkpoint cannot be used; OUT_OF_MEMORY if it does not fit.
    """

    def __init__(  # noqa: PLR0913 (one argument per setting)
        self,
        model_dir: Path | str,
        *,
        device: str = "auto",
        dtype: str = "auto",
        num_kv_blocks: int = 0,
        max_num_seqs: int = 16,
        num_engines: int = 1,
        block_size: int = 16,
        num_threads: int = 0,
        eviction_method: str = "snapkv",
        lookahead: str = "off",
        adapters: Collection[str] = (),
        open_weights: OpenWeights = Checkpoint,
        clock: Clock | None = None,
    ) -> None:
        if num_threads:
            torch.set_num_threads(num_threads)
        self._evictor = Evictor(make_eviction_method(eviction_method))
        self._lookahead = Lookahead(lookahead)
        path = Path(model_dir)
        config = read_model_config(path)
        self.tokenizer: HFTokenizer = load_tokenizer(path)
        self._clock = clock or MonotonicClock()
        grammars = compiler_for(path, self.tokenizer, config.vocab_size)
        with torch.inference_mode():
            self._runner: ModelRunner | None = ModelRunner(
                path,
                config,
                device=device,
                dtype=dtype,
                num_kv_blocks=num_kv_blocks,
                block_size=block_size,
                max_num_seqs=max_num_seqs,
                num_engines=num_engines,
                adapters=adapters,
                open_weights=open_weights,
            )
            if self._lookahead.follows_device:
                self._lookahead.cost = measure_step_cost(self._runner)
        num_blocks = self._runner.cache.num_blocks
        self._block_manager = BlockManager(num_blocks)
        self._prefixes = PrefixStore(self._block_manager, block_size)
        self._states: dict[str, SequenceState] = {}
        self._is_pressing: Callable[[float], bool] = lambda _: False
        self._info = BackendInfo(
            model=path.resolve().name,
            num_kv_blocks=num_blocks,
            block_size=block_size,
            max_model_len=min(config.max_model_len, num_blocks * block_size),
            can_offload=True,
            num_host_blocks=default_num_host_blocks(self._runner.cache.pool, num_engines),
            can_evict=config.has_plain_attention,
            can_insert=True,
            device=self._runner.device_name,
        )
        self._opener = SequenceOpener(
            grammars,
            self._prefixes,
            self._lookahead,
            vocab_size=config.vocab_size,
            info=self._info,
            adapters=frozenset(adapters),
        )

    @property
    def info(self) -> BackendInfo:
        """Limits of this backend."""
        return self._info

    def load_prefix(self, prefix_id: str, token_ids: Seq[int], adapter: str | None = None) -> int:
        """Prefills a static prompt prefix once and pins its KV; returns how many tokens are shared from now on.

        The count is a multiple of ``block_size``; 0 if the prefix is shorter than a block or no blocks are free.

        Raises:
            PlannerError: ENGINE_FAILED if another prefix has this name, or a token or adapter is unknown.
        """
        known = self._prefixes.get(prefix_id)
        if known is not None:
            if known.token_ids != tuple(token_ids[: len(known.token_ids)]) or known.adapter != adapter:
                message = f"prefix {prefix_id!r} is loaded with other tokens or another adapter"
                raise PlannerError(ErrorCode.ENGINE_FAILED, message)
            return len(known.token_ids)
        if len(token_ids) < self._info.block_size:
            return 0
        try:
            self._opener.check_token_ids(token_ids)
            self._opener.check_adapter(adapter)
        except RequestError as error:
            raise PlannerError(ErrorCode.ENGINE_FAILED, f"prefix {prefix_id!r}: {error}") from error
        prefix = self._prefixes.reserve(token_ids, adapter)
        if prefix is None:
            _log.warning("prefix %r of %d tokens is not shared: too few KV blocks are free", prefix_id, len(token_ids))
            return 0
        try:
            with torch.inference_mode():
                runner = self._open_runner()
                runner.prefill_blocks(prefix.token_ids, prefix.blocks, adapter)
                runner.wait()
        except BaseException:
            self._prefixes.discard(prefix)
            raise
        self._prefixes.add(prefix_id, prefix)
        return len(prefix.token_ids)

    def interrupt_by(self, is_pressing: Callable[[float], bool]) -> None:
        """See ``InterruptibleBackend``; asked before each layer."""
        self._is_pressing = is_pressing

    def execute(self, scheduled: SchedulerOutput) -> StepOutput:
        """Runs one step and returns its tokens."""
        start_s = self._clock.now_s()
        runner = self._open_runner()
        failed: dict[str, Exception] = {}
        with torch.inference_mode():
            for request_id in scheduled.release:
                self._release(request_id)
            self._each(scheduled.offload, lambda request_id: self._offload(request_id, runner), failed)
            evict, restore = scheduled.evict, scheduled.restore
            present = [request_id for request_id in evict if request_id not in restore]
            self._each(present, lambda request_id: self._evict(request_id, evict[request_id], runner), failed)
            self._each(restore, lambda request_id: self._restore(request_id, runner, evict.get(request_id)), failed)
            doubled = [sequence.request_id for sequence in scheduled.new if sequence.request_id in self._states]
            failed |= dict.fromkeys(doubled, RequestError("another request of this name is not released yet"))
            new = {sequence.request_id: sequence for sequence in scheduled.new}
            self._each(new, lambda request_id: self._admit(new[request_id]), failed)
            insert = scheduled.insert
            self._each(insert, lambda request_id: self._insert(request_id, insert[request_id]), failed)
            try:
                output = self._run(scheduled.num_scheduled_tokens, runner, failed)
            except StepInterrupted:
                output = self._give_up(scheduled, failed)
        runner.wait()  # a step that yields no token has not waited; what it takes must not be that of the next one
        duration_s = self._clock.now_s() - start_s
        lost = frozenset(name for name, error in failed.items() if isinstance(error, _LostKVError))
        return replace(
            output,
            failed={name: str(error) for name, error in failed.items() if name not in lost},
            lost=lost,
            free_kv_blocks=self._block_manager.num_free,
            duration_s=duration_s,
        )

    def close(self) -> None:
        """Frees everything; safe to call twice."""
        for request_id in list(self._states):
            self._release(request_id)
        self._runner = None

    def check_integrity(self) -> None:
        """Checks that every KV block is free or held by exactly as many holders as its count says.

        Raises:
            AssertionError: Naming the first block that is not.
        """
        holders = [state.blocks for state in self._states.values()]
        self._block_manager.check_integrity([*holders, *self._prefixes.holders()])

    def _open_runner(self) -> ModelRunner:
        if self._runner is None:
            raise PlannerError(ErrorCode.SHUTTING_DOWN, "the engine is closed")
        return self._runner

    def _each(self, request_ids: Iterable[str], action: Callable[[str], None], failed: dict[str, Exception]) -> None:
        """Applies an action to each request; one that fails is released and named in ``failed``."""
        for request_id in request_ids:
            if request_id in failed:
                continue
            try:
                action(request_id)
            except RequestError as error:
                self._fail(request_id, error, failed)

    def _fail(self, request_id: str, error: Exception, failed: dict[str, Exception]) -> None:
        self._release(request_id)
        failed[request_id] = error

    def _state(self, request_id: str) -> SequenceState:
        if request_id not in self._states:
            raise RequestError("the engine does not know this request")
        return self._states[request_id]

    def _release(self, request_id: str) -> None:
        state = self._states.pop(request_id, None)
        if state is not None:
            self._block_manager.free(state.blocks)

    def _offload(self, request_id: str, runner: ModelRunner) -> None:
        state = self._state(request_id)
        if not state.is_offloaded:
            own = state.own_blocks
            with _moving_kv(request_id):
                state.host_kv = runner.cache.to_host(own)
            self._block_manager.free(own)
            del state.blocks[state.num_shared_blocks :]

    def _restore(self, request_id: str, runner: ModelRunner, num_evicted: int | None) -> None:
        state = self._state(request_id)
        if state.host_kv is not None:
            blocks = self._allocate(state.host_kv.shape[2])
            state.blocks += blocks
            with _moving_kv(request_id):
                runner.cache.from_host(state.host_kv, blocks)
            state.host_kv = None
        if num_evicted is not None:
            self._evict(request_id, num_evicted, runner)

    def _evict(self, request_id: str, num_tokens: int, runner: ModelRunner) -> None:
        self._block_manager.free(self._evictor.evict(self._state(request_id), num_tokens, runner.cache))

    def _allocate(self, count: int) -> list[int]:
        blocks = self._block_manager.allocate(count)
        if blocks is None:
            raise RequestError(f"{count} KV blocks are needed, {self._block_manager.num_free} are free")
        return blocks

    def _admit(self, sequence: Sequence) -> None:
        state = self._states[sequence.request_id] = self._opener.open(sequence)
        state.evictable = self._evictor.prospect(sequence) if self._info.can_evict else None

    def _insert(self, request_id: str, token_ids: Seq[int]) -> None:
        self._opener.insert(self._state(request_id), token_ids, self.tokenizer.eos_token_ids)

    def _run(self, num_scheduled: Mapping[str, int], runner: ModelRunner, failed: dict[str, Exception]) -> StepOutput:
        self._each(num_scheduled, lambda request_id: self._grow(request_id, num_scheduled[request_id], runner), failed)
        chunks = [self._chunk(name, count) for name, count in num_scheduled.items() if name not in failed]
        ready, logits = runner.run(chunks, self._is_pressing)
        yields = [] if logits is None else verify(ready, logits, self.tokenizer.eos_token_ids)
        token_ids: dict[str, tuple[int, ...]] = {}
        choices: dict[str, tuple[TokenChoice, ...]] = {}
        finished: dict[str, FinishReason] = {}
        drafted: dict[str, int] = {}
        rejected: dict[str, int] = {}
        for chunk, chosen in zip(ready, yields, strict=True):
            state, name = chunk.state, chunk.state.request_id
            if isinstance(chosen, SamplingError):
                self._fail(name, chosen, failed)
                continue
            rejected[name] = 1 + len(chunk.draft) - len(chosen)
            self._shrink(state)
            forced = self._lookahead.add_forced(state, self._info.max_model_len - len(state.token_ids))
            choices[name] = (*chosen, *map(TokenChoice, forced))
            new = [choice.token_id for choice in choices[name]]
            self._lookahead.draft(state, new, self._info.max_model_len - len(state.token_ids), len(chunks))
            token_ids[name] = tuple(new[:-1] if new[-1] in self.tokenizer.eos_token_ids else new)
            drafted[name] = len(state.draft)
            if state.is_finished:
                finished[name] = FinishReason.STOP
        return StepOutput(
            token_ids=token_ids,
            choices=choices,
            finished=finished,
            num_draft_tokens=drafted,
            num_rejected_tokens=rejected,
        )

    def _give_up(self, scheduled: SchedulerOutput, failed: Collection[str]) -> StepOutput:
        """Takes back the room that was made for tokens which have not been computed."""
        states = [self._states[request_id] for request_id in scheduled.num_scheduled_tokens if request_id not in failed]
        for state in states:
            self._shrink(state)
        return StepOutput(
            step=replace(scheduled, num_scheduled_tokens=dict.fromkeys(scheduled.num_scheduled_tokens, 0)),
            is_given_up=True,
            num_draft_tokens={state.request_id: len(state.draft) for state in states},
        )

    def _chunk(self, request_id: str, num_tokens: int) -> Chunk:
        """Returns the next tokens of a sequence; those beyond its last one are drafted."""
        state = self._states[request_id]
        num_drafted = max(0, num_tokens - state.num_uncomputed_tokens)
        return Chunk(state, num_tokens - num_drafted, state.draft[:num_drafted])

    def _shrink(self, state: SequenceState) -> None:
        """Frees the blocks that only rejected drafts needed, or the tokens of a step that was given up."""
        surplus = state.blocks[-(-state.kv_len // self._info.block_size) :]
        self._block_manager.free(surplus)
        del state.blocks[len(state.blocks) - len(surplus) :]

    def _grow(self, request_id: str, num_tokens: int, runner: ModelRunner) -> None:
        """Makes room for the KV of ``num_tokens`` more tokens."""
        state = self._state(request_id)
        if state.is_finished or state.is_offloaded:
            raise RequestError("it was scheduled although it is finished or offloaded")
        num_left = state.num_uncomputed_tokens + len(state.draft)
        if not 1 <= num_tokens <= num_left:
            raise RequestError(f"{num_tokens} tokens were scheduled, {num_left} are left to compute")
        if state.num_computed_tokens + num_tokens > self._info.max_model_len:
            raise RequestError(f"it became longer than max_model_len {self._info.max_model_len}")
        needed = -(-(state.kv_len + num_tokens) // self._info.block_size) - len(state.blocks)
        if needed > 0:
            blocks = self._allocate(needed)
            runner.cache.clear(blocks)  # any of them may stay unused in part, if drafts are rejected
            state.blocks += blocks


@contextmanager
def _moving_kv(request_id: str) -> Iterator[None]:
    """Turns what torch raises for want of memory, of which there are several kinds, into the loss of one KV."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        why = str(error).partition("\n")[0] or type(error).__name__
        _log.warning("the KV of %s cannot be moved, and is computed again: %s", request_id, why)
        raise _LostKVError(why) from error
