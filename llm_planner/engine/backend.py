"""The torch backend: applies scheduler outputs to sequences, blocks and the model."""

import logging
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Seq
from pathlib import Path

import torch

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import BackendInfo, Clock
from llm_planner.core.step import FinishReason, SchedulerOutput, Sequence, StepOutput
from llm_planner.engine.block_manager import BlockManager
from llm_planner.engine.grammar import GrammarCompiler, GrammarError, Matcher
from llm_planner.engine.model_config import read_model_config
from llm_planner.engine.model_runner import Chunk, ModelRunner
from llm_planner.engine.prefix_store import PrefixStore
from llm_planner.engine.sampler import SamplingError, sample
from llm_planner.engine.sequence_state import SequenceState
from llm_planner.engine.tokenizer import HFTokenizer, load_tokenizer

_log = logging.getLogger(__name__)


class RequestError(Exception):
    """One request cannot go on; the others can."""


class TorchBackend:
    """Implements ``core.interfaces.Backend`` for a local checkpoint directory.

    Args:
        model_dir: Hugging Face checkpoint directory.
        device: ``auto`` (CUDA if there is one), ``cpu``, ``cuda`` or ``cuda:N``.
        dtype: ``auto`` (float32 on the CPU, the checkpoint's own elsewhere), float32, bfloat16 or float16.
        num_kv_blocks: 0 sizes the KV cache from the free memory.
        block_size: Tokens per KV block.
        num_threads: CPU threads; 0 leaves the library's default.
        clock: Times the steps.

    Raises:
        PlannerError: Before any weight is read if the checkpoint cannot be used; OUT_OF_MEMORY if it does not fit.
    """

    def __init__(
        self,
        model_dir: Path | str,
        *,
        device: str = "auto",
        dtype: str = "auto",
        num_kv_blocks: int = 0,
        block_size: int = 16,
        num_threads: int = 0,
        clock: Clock | None = None,
    ) -> None:
        if num_threads:
            torch.set_num_threads(num_threads)
        path = Path(model_dir)
        config = read_model_config(path)
        self.tokenizer: HFTokenizer = load_tokenizer(path)
        self._clock = clock or MonotonicClock()
        self._vocab_size = config.vocab_size
        try:
            self._grammars = GrammarCompiler(self.tokenizer.json_text, config.vocab_size, self.tokenizer.eos_token_ids)
        except GrammarError as error:
            raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{path}: {error}") from error
        with torch.inference_mode():
            self._runner: ModelRunner | None = ModelRunner(
                path, config, device=device, dtype=dtype, num_kv_blocks=num_kv_blocks, block_size=block_size
            )
        num_blocks = self._runner.cache.num_blocks
        self._block_manager = BlockManager(num_blocks)
        self._prefixes = PrefixStore(self._block_manager, block_size)
        self._states: dict[str, SequenceState] = {}
        self._info = BackendInfo(
            model=path.resolve().name,
            num_kv_blocks=num_blocks,
            block_size=block_size,
            max_model_len=min(config.max_model_len, num_blocks * block_size),
            can_offload=True,
        )

    @property
    def info(self) -> BackendInfo:
        """Limits of this backend."""
        return self._info

    def load_prefix(self, prefix_id: str, token_ids: Seq[int]) -> int:
        """Prefills a static prompt prefix once and pins its KV; returns how many tokens are shared from now on.

        The count is a multiple of ``block_size``; 0 if the prefix is shorter than a block or no blocks are free.

        Raises:
            PlannerError: ENGINE_FAILED if another prefix has this name, or a token is out of range.
        """
        known = self._prefixes.get(prefix_id)
        if known is not None:
            if known.token_ids != tuple(token_ids[: len(known.token_ids)]):
                raise PlannerError(ErrorCode.ENGINE_FAILED, f"prefix {prefix_id!r} is loaded with other tokens")
            return len(known.token_ids)
        if len(token_ids) < self._info.block_size:
            return 0
        try:
            self._check_token_ids(token_ids)
        except RequestError as error:
            raise PlannerError(ErrorCode.ENGINE_FAILED, f"prefix {prefix_id!r}: {error}") from error
        prefix = self._prefixes.reserve(token_ids)
        if prefix is None:
            _log.warning("prefix %r of %d tokens is not shared: too few KV blocks are free", prefix_id, len(token_ids))
            return 0
        with torch.inference_mode():
            self._open_runner().prefill_blocks(prefix.token_ids, prefix.blocks)
        self._prefixes.add(prefix_id, prefix)
        return len(prefix.token_ids)

    def execute(self, scheduled: SchedulerOutput) -> StepOutput:
        """Runs one step and returns its tokens."""
        start_s = self._clock.now_s()
        runner = self._open_runner()
        failed: dict[str, str] = {}
        with torch.inference_mode():
            for request_id in scheduled.release:
                self._release(request_id)
            self._each(scheduled.offload, lambda request_id: self._offload(request_id, runner), failed)
            self._each(scheduled.restore, lambda request_id: self._restore(request_id, runner), failed)
            new = {sequence.request_id: sequence for sequence in scheduled.new}
            self._each(new, lambda request_id: self._admit(new[request_id]), failed)
            token_ids, finished = self._run(scheduled.num_scheduled_tokens, runner, failed)
        return StepOutput(
            token_ids=token_ids,
            finished=finished,
            failed=failed,
            free_kv_blocks=self._block_manager.num_free,
            duration_s=self._clock.now_s() - start_s,
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

    def _each(self, request_ids: Iterable[str], action: Callable[[str], None], failed: dict[str, str]) -> None:
        """Applies an action to each request; one that fails is released and named in ``failed``."""
        for request_id in request_ids:
            if request_id in failed:
                continue
            try:
                action(request_id)
            except RequestError as error:
                self._fail(request_id, str(error), failed)

    def _fail(self, request_id: str, reason: str, failed: dict[str, str]) -> None:
        self._release(request_id)
        failed[request_id] = reason

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
            state.host_kv = runner.cache.to_host(own)
            self._block_manager.free(own)
            del state.blocks[state.num_shared_blocks :]

    def _restore(self, request_id: str, runner: ModelRunner) -> None:
        state = self._state(request_id)
        if state.host_kv is not None:
            blocks = self._allocate(state.host_kv.shape[2])
            runner.cache.from_host(state.host_kv, blocks)
            state.blocks += blocks
            state.host_kv = None

    def _allocate(self, count: int) -> list[int]:
        blocks = self._block_manager.allocate(count)
        if blocks is None:
            raise RequestError(f"{count} KV blocks are needed, {self._block_manager.num_free} are free")
        return blocks

    def _admit(self, sequence: Sequence) -> None:
        if sequence.request_id in self._states:
            raise RequestError("another request of this name is not released yet")
        if not sequence.prompt_token_ids:
            raise RequestError("the prompt is empty")
        token_ids = [*sequence.prompt_token_ids, *sequence.output_token_ids]
        self._check_token_ids(token_ids)
        state = SequenceState(
            request_id=sequence.request_id,
            token_ids=token_ids,
            sampling=sequence.sampling,
            matcher=self._matcher(sequence.grammar),
        )
        if not state.catch_up(sequence.output_token_ids):
            raise RequestError("the tokens that it brings back do not match its grammar")
        if sequence.num_cached_tokens:
            self._share_prefix(state, sequence)
        self._states[sequence.request_id] = state

    def _check_token_ids(self, token_ids: Seq[int]) -> None:
        if len(token_ids) > self._info.max_model_len:
            raise RequestError(f"{len(token_ids)} tokens exceed max_model_len {self._info.max_model_len}")
        if min(token_ids) < 0 or max(token_ids) >= self._vocab_size:
            raise RequestError(f"a token is outside the vocabulary of {self._vocab_size}")

    def _share_prefix(self, state: SequenceState, sequence: Sequence) -> None:
        num_cached, prompt = sequence.num_cached_tokens, sequence.prompt_token_ids
        prefix = self._prefixes.get(sequence.prefix_id or "")
        if prefix is None or not 0 < num_cached <= len(prefix.token_ids) or num_cached % self._info.block_size:
            raise RequestError(f"prefix {sequence.prefix_id!r} does not hold {num_cached} tokens in whole blocks")
        if num_cached >= len(prompt) or prefix.token_ids[:num_cached] != prompt[:num_cached]:
            raise RequestError(f"the prompt does not start with prefix {sequence.prefix_id!r} and go on")
        state.blocks = self._prefixes.share(prefix, num_cached)
        state.num_shared_blocks = len(state.blocks)
        state.advance(num_cached)

    def _matcher(self, grammar: str | None) -> Matcher | None:
        if grammar is None:
            return None
        try:
            return self._grammars.matcher(grammar)
        except GrammarError as error:
            raise RequestError(str(error)) from error

    def _run(
        self, num_scheduled: Mapping[str, int], runner: ModelRunner, failed: dict[str, str]
    ) -> tuple[dict[str, tuple[int, ...]], dict[str, FinishReason]]:
        self._each(num_scheduled, lambda request_id: self._grow(request_id, num_scheduled[request_id], runner), failed)
        chunks = [Chunk(self._states[name], count) for name, count in num_scheduled.items() if name not in failed]
        states, logits = runner.run(chunks)
        token_ids: dict[str, tuple[int, ...]] = {}
        finished: dict[str, FinishReason] = {}
        choices = [] if logits is None else sample(logits, states)
        for state, choice in zip(states, choices, strict=True):
            if isinstance(choice, SamplingError):
                self._fail(state.request_id, str(choice), failed)
                continue
            is_end = choice in self.tokenizer.eos_token_ids
            token_ids[state.request_id] = () if is_end else (choice,)
            state.token_ids.append(choice)
            if is_end or (state.matcher is not None and state.matcher.is_complete):
                state.is_finished = True
                finished[state.request_id] = FinishReason.STOP
        return token_ids, finished

    def _grow(self, request_id: str, num_tokens: int, runner: ModelRunner) -> None:
        """Makes room for the KV of ``num_tokens`` more tokens."""
        state = self._state(request_id)
        if state.is_finished or state.is_offloaded:
            raise RequestError("it was scheduled although it is finished or offloaded")
        if not 1 <= num_tokens <= state.num_uncomputed_tokens:
            raise RequestError(f"{num_tokens} tokens were scheduled, {state.num_uncomputed_tokens} are left to compute")
        if state.num_computed_tokens + num_tokens > self._info.max_model_len:
            raise RequestError(f"it became longer than max_model_len {self._info.max_model_len}")
        needed = -(-(state.kv_len + num_tokens) // self._info.block_size) - len(state.blocks)
        if needed > 0:
            blocks = self._allocate(needed)
            runner.cache.clear(blocks[-1:])
            state.blocks += blocks
