# SPDX-License-Identifier: Apache-2.0
"""One model with its KV cache: computes chunks of sequences, and moves KV between accelerator and host."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import torch

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.engine.adapter import AdaptedRows, Adapter, group_rows, load_adapter
from llm_planner.engine.attention import Attention, PackedAttention, PrefillAttention
from llm_planner.engine.checkpoint import Checkpoint, OpenWeights, weight_bytes
from llm_planner.engine.decode_attention import DecodeAttention, DecodeRow
from llm_planner.engine.eviction.observation import Piece, observed
from llm_planner.engine.hardware import (
    check_memory,
    default_num_blocks,
    device_name,
    select_device,
    select_dtype,
    upload,
)
from llm_planner.engine.kernels import load_kernels
from llm_planner.engine.kv_cache import KVCache
from llm_planner.engine.model import Model, Wanted
from llm_planner.engine.model_config import ModelConfig
from llm_planner.engine.sequence_state import SequenceState

_MAX_CHUNK_ROWS = 16  # up to here the tokens of a chunk join the batch of single tokens
_MAX_PAGED_TOKENS = 256  # with kernels, up to here those of a longer chunk do, too: reading blocks in place is faster
_MAX_PACKED_ROWS = 1024  # tokens of several chunks in one pass; with more, what lies between layers leaves the cache


@dataclass(frozen=True, slots=True)
class Chunk:
    """The next ``num_tokens`` uncomputed tokens of a sequence, and a draft of what follows the last of them.

    The blocks of the sequence have room for all of them.
    """

    state: SequenceState
    num_tokens: int
    draft: tuple[int, ...] = ()

    @property
    def num_rows(self) -> int:
        """Tokens to compute."""
        return self.num_tokens + len(self.draft)

    @property
    def is_last(self) -> bool:
        """Whether nothing is left to compute behind it but its draft."""
        return self.num_tokens == self.state.num_uncomputed_tokens

    @property
    def token_ids(self) -> list[int]:
        """Tokens to compute."""
        start = self.state.num_computed_tokens
        return [*self.state.token_ids[start : start + self.num_tokens], *self.draft]


class StepInterrupted(Exception):  # noqa: N818 (no error)
    """A step was given up: nothing was computed."""


class ModelRunner:
    """Loads a checked checkpoint, and adapters by their directories, and runs chunks.

    Raises:
        PlannerError: CHECKPOINT_INVALID and the like before a weight is read, INVALID_CONFIG for a device or data
            type that is not there, OUT_OF_MEMORY if weights (before one is read) or cache do not fit.
    """

    def __init__(  # noqa: PLR0913 (one argument per setting)
        self,
        model_dir: Path,
        config: ModelConfig,
        *,
        device: str,
        dtype: str,
        num_kv_blocks: int,
        block_size: int,
        max_num_seqs: int,
        num_engines: int = 1,
        adapters: Iterable[str] = (),
        open_weights: OpenWeights = Checkpoint,
    ) -> None:
        weights = open_weights(model_dir, config)
        self._device = select_device(device)
        data_type = select_dtype(dtype, config, self._device)
        has_kernels = load_kernels(self._device, data_type) is not None
        self.device_name = device_name(self._device, data_type) + ", own kernels" * has_kernels
        try:
            self._adapters = {name: load_adapter(Path(name), config, data_type, self._device) for name in adapters}
            check_memory(model_dir, weight_bytes(config, data_type), self._device)
            self._model = Model(config, weights, data_type, self._device)
            block_bytes = KVCache.block_bytes(config, block_size, data_type)
            self.cache = KVCache(
                config,
                num_blocks=num_kv_blocks
                or default_num_blocks(
                    block_bytes, block_size, config.max_model_len, max_num_seqs, self._device, num_engines
                ),
                block_size=block_size,
                dtype=data_type,
                device=self._device,
            )
        except RuntimeError as error:
            if "memory" not in str(error):  # the CPU allocator has no exception type of its own
                raise
            raise PlannerError(
                ErrorCode.OUT_OF_MEMORY, f"{model_dir} and its KV cache do not fit on {self._device}: {error}"
            ) from error

    def run(
        self, chunks: Seq[Chunk], is_pressing: Callable[[float], bool] = lambda _: False
    ) -> tuple[list[Chunk], torch.Tensor | None]:
        """Computes every chunk and moves the counters on, but not for drafts.

        Args:
            chunks: What to compute.
            is_pressing: Asked before each layer, with the share that is done: whether to give it up.

        Returns:
            The chunks with nothing left to compute but their drafts, and the logits of each one's last token and draft,
            (num_rows, vocab_size) for all of them together.

        Raises:
            StepInterrupted: If it is given up; sequences and their counters are as they were.
        """
        is_row = [self._joins_rows(chunk, is_alone=len(chunks) == 1) for chunk in chunks]
        short = [chunk for chunk, is_short in zip(chunks, is_row, strict=True) if is_short]
        parts = [self._prompt(chunk) for chunk, is_short in zip(chunks, is_row, strict=True) if not is_short]
        parts += [self._rows(together) for together in _packs(short)]
        ready = [chunk for part in parts for chunk in part.chunks if chunk.is_last]
        passes = list(_packs(parts))

        def check(num_done: int, share: float) -> None:
            if is_pressing((num_done + share) / len(passes)):
                raise StepInterrupted

        hidden = [self._compute(together, partial(check, num_done)) for num_done, together in enumerate(passes)]
        for part in parts:
            for chunk in part.chunks:
                chunk.state.advance(chunk.num_tokens)
        if not ready:
            return [], None
        return ready, self._model.logits(torch.cat(hidden) if len(hidden) > 1 else hidden[0])

    def wait(self) -> None:
        """Waits until the device has done what it was given."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def prefill_blocks(self, token_ids: Seq[int], blocks: Seq[int], adapter: str | None = None) -> None:
        """Computes the KV of a prefix that stands at the start of prompts."""
        attend = PrefillAttention(self.cache, blocks, 0, len(token_ids))
        adapted = [] if adapter is None else [AdaptedRows(slice(None), self._adapters[adapter])]
        self._model.forward(token_ids, range(len(token_ids)), attend, adapted, Wanted(slice(0, 0)))

    def _compute(self, parts: Seq["_Part"], on_layer: Callable[[float], None]) -> torch.Tensor:
        """Returns hidden states (num_rows, hidden_size) of what is looked at; all parts are computed in one pass.

        Its products see the tokens of all parts, one part behind the other; each part attends by itself.
        """
        num_rows = [part.num_rows for part in parts]
        starts = [end - count for end, count in zip(itertools.accumulate(num_rows), num_rows, strict=True)]
        pieces = [p._replace(row=start + p.row) for start, part in zip(starts, parts, strict=True) for p in part.pieces]
        adapters = [None if name is None else self._adapters[name] for part in parts for name in part.adapters]
        looked_at = [start + row for start, part in zip(starts, parts, strict=True) for row in part.wanted]
        return self._model.forward(
            [token_id for part in parts for token_id in part.token_ids],
            [position for part in parts for position in part.positions],
            observed(
                PackedAttention([p.attend for p in parts], num_rows) if len(parts) > 1 else parts[0].attend, pieces
            ),
            group_rows(adapters, self._device),
            self._wanted(looked_at, adapters),
            on_layer,
        )

    def _wanted(self, rows: Seq[int], adapters: Seq[Adapter | None]) -> Wanted | None:
        """Returns the rows of a pass that are looked at; None if these are all of them, in their order."""
        first = rows[0] if rows else 0
        neighbours = slice(first, first + len(rows))
        are_neighbours = list(rows) == list(range(neighbours.start, neighbours.stop))
        if are_neighbours and len(rows) == len(adapters):
            return None
        return Wanted(
            neighbours if are_neighbours else upload(self._device, rows)[0],
            group_rows([adapters[row] for row in rows], self._device),
        )

    def _joins_rows(self, chunk: Chunk, *, is_alone: bool) -> bool:
        """Returns whether the tokens of a chunk join the batch of single tokens."""
        if self.cache.kernels is None:
            return chunk.num_rows <= (1 if is_alone else _MAX_CHUNK_ROWS)
        return chunk.num_rows <= _MAX_CHUNK_ROWS or chunk.state.kv_len + chunk.num_rows <= _MAX_PAGED_TOKENS

    def _prompt(self, chunk: Chunk) -> "_Part":
        """Returns the part of a pass that is a long chunk."""
        state, num_rows, position = chunk.state, chunk.num_rows, chunk.state.num_computed_tokens
        return _Part(
            chunks=[chunk],
            token_ids=chunk.token_ids,
            positions=range(position, position + num_rows),
            attend=PrefillAttention(self.cache, state.blocks, state.kv_len, num_rows),
            pieces=[Piece(0, position, num_rows, state.evictable)],
            adapters=[state.adapter] * num_rows,
        )

    def _rows(self, chunks: Seq[Chunk]) -> "_Part":
        """Returns the part of a pass that is several short chunks.

        Each token is a row of its own that attends to its sequence as far as itself: all keys of a layer are written
        before any is read.
        """
        rows = [row for chunk in chunks for row in _rows(chunk)]
        token_ids = [token_id for chunk in chunks for token_id in chunk.token_ids]
        positions = [c.state.num_computed_tokens + index for c in chunks for index in range(c.num_rows)]
        states = [chunk.state for chunk in chunks for _ in range(chunk.num_rows)]
        order = sorted(range(len(rows)), key=[row.order for row in rows].__getitem__)
        is_in_order = order == sorted(order)
        return _Part(
            chunks=chunks,
            token_ids=[token_ids[place] for place in order],
            positions=[positions[place] for place in order],
            attend=DecodeAttention(self.cache, [rows[place] for place in order]),
            pieces=[
                Piece(row, positions[place], 1, evictable)
                for row, place in enumerate(order)
                if (evictable := states[place].evictable) is not None
            ],
            adapters=[states[place].adapter for place in order],
            places=[] if is_in_order else sorted(range(len(order)), key=order.__getitem__),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Tokens of a pass that attend together.

    Attributes:
        chunks: Whose tokens they are.
        token_ids: In the order in which they are computed.
        positions: Of each.
        attend: Their view of the cache.
        pieces: What may be remembered of them; rows count from the first token of the part.
        adapters: Of each, if it has one.
        places: Where the tokens of the chunks, in order, are among those that are computed; empty if they are in order.
    """

    chunks: Seq[Chunk]
    token_ids: Seq[int]
    positions: Seq[int]
    attend: Attention
    pieces: Seq[Piece]
    adapters: Seq[str | None]
    places: Seq[int] = ()

    @property
    def num_rows(self) -> int:
        """Tokens to compute."""
        return len(self.token_ids)

    @property
    def wanted(self) -> list[int]:
        """Rows of the last token and the draft of each chunk that has nothing left to compute but that draft."""
        rows: list[int] = []
        end = 0
        for chunk in self.chunks:
            end += chunk.num_rows
            if chunk.is_last:
                rows += range(end - 1 - len(chunk.draft), end)
        return [self.places[row] for row in rows] if self.places else rows


class _Sized(Protocol):
    @property
    def num_rows(self) -> int:
        """Tokens to compute."""
        ...


_T = TypeVar("_T", bound=_Sized)


def _packs(items: Iterable[_T]) -> Iterator[list[_T]]:
    """Yields what is computed together, in its order."""
    together: list[_T] = []
    for item in items:
        if together and sum(one.num_rows for one in together) + item.num_rows > _MAX_PACKED_ROWS:
            yield together
            together = []
        together.append(item)
    if together:
        yield together


def _rows(chunk: Chunk) -> list[DecodeRow]:
    blocks, num_shared_blocks, kv_len = chunk.state.blocks, chunk.state.num_shared_blocks, chunk.state.kv_len
    return [DecodeRow(blocks, num_shared_blocks, kv_len + index) for index in range(chunk.num_rows)]
