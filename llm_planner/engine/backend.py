"""The torch backend: applies scheduler outputs to the model and the paged KV cache."""

import logging
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Seq
from pathlib import Path

import torch

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import BackendInfo, Clock
from llm_planner.core.step import FinishReason, SchedulerOutput, Sequence, StepOutput
from llm_planner.engine.attention import DecodeAttention, PrefillAttention
from llm_planner.engine.block_manager import BlockManager
from llm_planner.engine.checkpoint import Checkpoint
from llm_planner.engine.grammar import GrammarCompiler, GrammarError
from llm_planner.engine.kv_cache import KVCache
from llm_planner.engine.memory import default_num_blocks
from llm_planner.engine.model import Model
from llm_planner.engine.model_config import ModelConfig, read_model_config
from llm_planner.engine.prefix_store import PrefixStore
from llm_planner.engine.sampler import SamplingError, sample
from llm_planner.engine.sequence_state import SequenceState
from llm_planner.engine.tokenizer import HFTokenizer, load_tokenizer

_log = logging.getLogger(__name__)
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class RequestError(Exception):
    """One request cannot go on; the others can."""


class TorchBackend:
    """Implements ``core.interfaces.Backend`` for a local checkpoint directory.

    Args:
        model_dir: Hugging Face checkpoint directory.
        device: ``auto`` (CUDA if there is one), ``cpu``, ``cuda`` or ``cuda:N``.
        dtype: ``auto`` (float32 on the CPU, the checkpoint's elsewhere), or a name.
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
        self._clock = clock or MonotonicClock()
        path = Path(model_dir)
        if num_threads:
            torch.set_num_threads(num_threads)
        config = read_model_config(path)
        self._tokenizer = load_tokenizer(path)
        checkpoint = Checkpoint(path, config)
        where = _device(device)
        try:
            with torch.inference_mode():
                self._model = Model(config, checkpoint, _dtype(dtype, config, where), where)
                self._cache = self._make_cache(num_kv_blocks, block_size)
        except torch.OutOfMemoryError as error:
            raise PlannerError(ErrorCode.OUT_OF_MEMORY, f"{path} does not fit on {where}: {error}") from error
        self._block_manager = BlockManager(self._cache.num_blocks)
        self._prefixes = PrefixStore(self._block_manager, block_size)
        self._states: dict[str, SequenceState] = {}
        self._grammars: GrammarCompiler | None = None
        self._info = BackendInfo(
            model=path.resolve().name,
            num_kv_blocks=self._cache.num_blocks,
            block_size=block_size,
            max_model_len=min(config.max_model_len, self._cache.num_blocks * block_size),
            can_offload=True,
        )

    @property
    def info(self) -> BackendInfo:
        """Limits of this backend."""
        return self._info

    @property
    def tokenizer(self) -> HFTokenizer:
        """The checkpoint's tokenizer."""
        return self._tokenizer

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
        try:
            self._check_token_ids(token_ids)
        except RequestError as error:
            raise PlannerError(ErrorCode.ENGINE_FAILED, f"prefix {prefix_id!r}: {error}") from error
        prefix = self._prefixes.reserve(token_ids)
        if prefix is None:
            _log.warning("prefix %r of %d tokens is not shared: no KV blocks are free", prefix_id, len(token_ids))
            return 0
        with torch.inference_mode():
            if prefix.token_ids:
                self._prefill(prefix.token_ids, 0, prefix.blocks, 0)
        self._prefixes.add(prefix_id, prefix)
        return len(prefix.token_ids)

    def execute(self, scheduled: SchedulerOutput) -> StepOutput:
        """Runs one step and returns its tokens."""
        start_s = self._clock.now_s()
        failed: dict[str, str] = {}
        with torch.inference_mode():
            for request_id in scheduled.release:
                self._release(request_id)
            self._each(scheduled.offload, self._offload, failed)
            self._each(scheduled.restore, self._restore, failed)
            new = {sequence.request_id: sequence for sequence in scheduled.new}
            self._each(new, lambda request_id: self._admit(new[request_id]), failed)
            token_ids, finished = self._run(scheduled.num_scheduled_tokens, failed)
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

    def check_integrity(self) -> None:
        """Checks that every KV block is free or held by exactly as many holders as counted."""
        holders = [state.blocks for state in self._states.values()]
        self._block_manager.check_integrity([*holders, *self._prefixes.holders()])

    def _make_cache(self, num_kv_blocks: int, block_size: int) -> KVCache:
        model = self._model
        block_bytes = KVCache.block_bytes(model.config, block_size, model.dtype)
        return KVCache(
            model.config,
            num_blocks=num_kv_blocks
            or default_num_blocks(block_bytes, block_size, model.config.max_model_len, model.device),
            block_size=block_size,
            dtype=model.dtype,
            device=model.device,
        )

    def _each(self, request_ids: Iterable[str], action: Callable[[str], None], failed: dict[str, str]) -> None:
        """Applies an action to each request; one that fails is released and named in ``failed``."""
        for request_id in request_ids:
            if request_id in failed:
                continue
            try:
                action(request_id)
            except RequestError as error:
                self._release(request_id)
                failed[request_id] = str(error)

    def _state(self, request_id: str) -> SequenceState:
        if request_id not in self._states:
            raise RequestError("unknown request")
        return self._states[request_id]

    def _release(self, request_id: str) -> None:
        state = self._states.pop(request_id, None)
        if state is not None:
            self._block_manager.free(state.blocks)

    def _offload(self, request_id: str) -> None:
        state = self._state(request_id)
        if state.is_offloaded:
            return
        own = state.own_blocks
        state.host_kv = self._cache.to_host(own)
        self._block_manager.free(own)
        del state.blocks[state.num_shared_blocks :]

    def _restore(self, request_id: str) -> None:
        state = self._state(request_id)
        if state.host_kv is None:
            return
        blocks = self._block_manager.allocate(state.host_kv.shape[2])
        if blocks is None:
            raise RequestError("no KV blocks are free to restore it")
        self._cache.from_host(state.host_kv, blocks)
        state.blocks += blocks
        state.host_kv = None

    def _admit(self, sequence: Sequence) -> None:
        if sequence.request_id in self._states:
            raise RequestError("a request of this name runs already")
        self._check_token_ids(sequence.prompt_token_ids)
        state = SequenceState(
            request_id=sequence.request_id,
            token_ids=list(sequence.prompt_token_ids),
            sampling=sequence.sampling,
            matcher=self._matcher(sequence.grammar),
        )
        if sequence.num_cached_tokens:
            self._share_prefix(state, sequence)
        self._states[sequence.request_id] = state

    def _check_token_ids(self, token_ids: Seq[int]) -> None:
        if not token_ids:
            raise RequestError("the prompt is empty")
        if len(token_ids) > self._info.max_model_len:
            raise RequestError(f"{len(token_ids)} prompt tokens exceed max_model_len {self._info.max_model_len}")
        if min(token_ids) < 0 or max(token_ids) >= self._model.config.vocab_size:
            raise RequestError(f"a prompt token is outside the vocabulary of {self._model.config.vocab_size}")

    def _share_prefix(self, state: SequenceState, sequence: Sequence) -> None:
        num_cached = sequence.num_cached_tokens
        prefix = self._prefixes.get(sequence.prefix_id or "")
        if prefix is None or num_cached > len(prefix.token_ids) or num_cached % self._info.block_size:
            raise RequestError(f"prefix {sequence.prefix_id!r} does not hold {num_cached} tokens in whole blocks")
        if (
            num_cached >= len(state.token_ids)
            or prefix.token_ids[:num_cached] != sequence.prompt_token_ids[:num_cached]
        ):
            raise RequestError(f"the prompt does not start with prefix {sequence.prefix_id!r} and go on")
        state.blocks = self._prefixes.share(sequence.prefix_id or "", num_cached)
        state.num_shared_blocks = len(state.blocks)
        state.num_computed_tokens = state.kv_len = num_cached

    def _matcher(self, grammar: str | None):  # type: ignore[no-untyped-def] # noqa: ANN202
        if grammar is None:
            return None
        if self._grammars is None:
            self._grammars = GrammarCompiler(
                self._tokenizer.json_text, self._model.config.vocab_size, self._tokenizer.eos_token_ids
            )
        try:
            return self._grammars.matcher(grammar)
        except GrammarError as error:
            raise RequestError(str(error)) from error

    def _run(
        self, num_scheduled: Mapping[str, int], failed: dict[str, str]
    ) -> tuple[dict[str, tuple[int, ...]], dict[str, FinishReason]]:
        self._each(num_scheduled, lambda request_id: self._grow(request_id, num_scheduled[request_id]), failed)
        runnable = {r: n for r, n in num_scheduled.items() if r not in failed}
        states, rows = self._forward(runnable)
        if not states:
            return {}, {}
        choices = sample(self._model.logits(torch.cat(rows)), states)
        token_ids: dict[str, tuple[int, ...]] = {}
        finished: dict[str, FinishReason] = {}
        for state, choice in zip(states, choices, strict=True):
            if isinstance(choice, SamplingError):
                self._release(state.request_id)
                failed[state.request_id] = str(choice)
                continue
            is_eos = choice in self._tokenizer.eos_token_ids
            token_ids[state.request_id] = () if is_eos else (choice,)
            state.token_ids.append(choice)
            if is_eos or (state.matcher is not None and state.matcher.is_complete):
                state.is_finished = True
                finished[state.request_id] = FinishReason.STOP
        return token_ids, finished

    def _grow(self, request_id: str, num_tokens: int) -> None:
        """Makes room for the KV of ``num_tokens`` more tokens."""
        state = self._state(request_id)
        if state.is_finished or state.is_offloaded:
            raise RequestError("it was scheduled although it is finished or offloaded")
        if not 1 <= num_tokens <= state.num_uncomputed_tokens:
            raise RequestError(f"{num_tokens} tokens were scheduled, {state.num_uncomputed_tokens} are left to compute")
        if state.num_computed_tokens + num_tokens > self._info.max_model_len:
            raise RequestError(f"longer than max_model_len {self._info.max_model_len}")
        needed = -(-(state.kv_len + num_tokens) // self._info.block_size) - len(state.blocks)
        if needed > 0:
            blocks = self._block_manager.allocate(needed)
            if blocks is None:
                raise RequestError(f"{needed} KV blocks are needed, {self._block_manager.num_free} are free")
            self._cache.clear(blocks[-1:])
            state.blocks += blocks

    def _forward(self, num_scheduled: Mapping[str, int]) -> tuple[list[SequenceState], list[torch.Tensor]]:
        """Runs all chunks; returns the sequences that get a token and their hidden states, each (1, hidden_size)."""
        states = [self._states[request_id] for request_id in num_scheduled]
        singles = [state for state in states if num_scheduled[state.request_id] == 1]
        rows: list[torch.Tensor] = []
        complete: list[SequenceState] = []
        for state in states:
            count = num_scheduled[state.request_id]
            if count > 1:
                chunk = state.token_ids[state.num_computed_tokens :][:count]
                last = self._prefill(chunk, state.num_computed_tokens, state.blocks, state.kv_len)
                self._advance(state, count)
                if not state.num_uncomputed_tokens:
                    complete.append(state)
                    rows.append(last)
        if singles:
            hidden = self._decode(singles)
            for row, state in enumerate(singles):
                self._advance(state, 1)
                if not state.num_uncomputed_tokens:
                    complete.append(state)
                    rows.append(hidden[row : row + 1])
        return complete, rows

    @staticmethod
    def _advance(state: SequenceState, count: int) -> None:
        state.num_computed_tokens += count
        state.kv_len += count

    def _prefill(self, token_ids: Seq[int], position: int, blocks: Seq[int], kv_len: int) -> torch.Tensor:
        """Computes a chunk of one sequence; returns the hidden state of its last token (1, hidden_size)."""
        device = self._model.device
        attend = PrefillAttention(self._cache, blocks, kv_len, len(token_ids))
        positions = torch.arange(position, position + len(token_ids), device=device)
        return self._model.forward(torch.tensor(token_ids, device=device), positions, attend)[-1:]

    def _decode(self, states: Seq[SequenceState]) -> torch.Tensor:
        """Computes the next token of each sequence; returns hidden states (num_seqs, hidden_size)."""
        device = self._model.device
        attend = DecodeAttention(self._cache, [s.blocks for s in states], [s.kv_len for s in states])
        token_ids = torch.tensor([s.token_ids[s.num_computed_tokens] for s in states], device=device)
        positions = torch.tensor([s.num_computed_tokens for s in states], device=device)
        return self._model.forward(token_ids, positions, attend)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"engine.device {name!r} is not a device: {error}") from error
    if device.type not in {"cpu", "cuda"} or (device.type == "cuda" and not torch.cuda.is_available()):
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"engine.device {name!r} is not available here; use auto or cpu")
    return device


def _dtype(name: str, config: ModelConfig, device: torch.device) -> torch.dtype:
    if name == "auto":
        name = config.dtype if device.type == "cuda" else "float32"
    if name not in _DTYPES:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"engine.dtype {name!r} is none of auto, {', '.join(_DTYPES)}")
    return _DTYPES[name]
