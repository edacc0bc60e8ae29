# SPDX-License-Identifier: Apache-2.0
"""One model with its KV cache: computes chunks of sequences, and moves KV between accelerator and host."""

import itertools
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path

import torch

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.engine.adapter import AdaptedRows, group_rows, load_adapter
from llm_planner.engine.attention import PackedAttention, PrefillAttention
from llm_planner.engine.checkpoint import Checkpoint, OpenWeights
from llm_planner.engine.decode_attention import DecodeAttention, DecodeRow
from llm_planner.engine.eviction.observation import Piece, observed
from llm_planner.engine.hardware import default_num_blocks, device_name, select_device, select_dtype, upload
from llm_planner.engine.kv_cache import KVCache
from llm_planner.engine.model import Model
from llm_planner.engine.model_config import ModelConfig
from llm_planner.engine.sequence_state import SequenceState

_MAX_CHUNK_ROWS = 16  # up to here the tokens of a chunk join the batch of single tokens
_MAX_PACKED_ROWS = 1024  # tokens of several prompts in one pass; with more, what lies between layers leaves the cache


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
    def token_ids(self) -> list[int]:
        """Tokens to compute."""
        start = self.state.num_computed_tokens
        return [*self.state.token_ids[start : start + self.num_tokens], *self.draft]


class ModelRunner:
    """Loads a checked checkpoint, and adapters by their directories, and runs chunks.

    Raises:
        PlannerError: CHECKPOINT_INVALID and the like before a weight is read, INVALID_CONFIG for a device or data
            type that is not there, OUT_OF_MEMORY if weights or cache do not fit.
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
        adapters: Iterable[str] = (),
        open_weights: OpenWeights = Checkpoint,
    ) -> None:
        weights = open_weights(model_dir, config)
        self._device = select_device(device)
        data_type = select_dtype(dtype, config, self._device)
        self.device_name = device_name(self._device, data_type)
        try:
            self._adapters = {name: load_adapter(Path(name), config, data_type, self._device) for name in adapters}
            self._model = Model(config, weights, data_type, self._device)
            block_bytes = KVCache.block_bytes(config, block_size, data_type)
            self.cache = KVCache(
                config,
                num_blocks=num_kv_blocks
                or default_num_blocks(block_bytes, block_size, config.max_model_len, max_num_seqs, self._device),
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

    def run(self, chunks: Seq[Chunk]) -> tuple[list[Chunk], torch.Tensor | None]:
        """Computes every chunk and moves the counters on, but not for drafts.

        Returns:
            The chunks with nothing left to compute but their drafts, and the logits of each one's last token and draft,
            (num_rows, vocab_size) for all of them together.
        """
        is_row = [chunk.num_rows <= (1 if len(chunks) == 1 else _MAX_CHUNK_ROWS) for chunk in chunks]
        long = [chunk for chunk, is_short in zip(chunks, is_row, strict=True) if not is_short]
        short = [chunk for chunk, is_short in zip(chunks, is_row, strict=True) if is_short]
        computed = [one for pack in _packs(long) for one in zip(pack, self._prefill(pack), strict=True)]
        if short:
            computed += zip(short, self._decode(short), strict=True)
        ready: list[Chunk] = []
        rows: list[torch.Tensor] = []
        for chunk, hidden in computed:
            chunk.state.advance(chunk.num_tokens)
            if not chunk.state.num_uncomputed_tokens:
                ready.append(chunk)
                rows.append(hidden[chunk.num_tokens - 1 :])
        if not ready:
            return [], None
        return ready, self._model.logits(torch.cat(rows) if len(rows) > 1 else rows[0])

    def wait(self) -> None:
        """Waits until the device has done what it was given."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def prefill_blocks(self, token_ids: Seq[int], blocks: Seq[int], adapter: str | None = None) -> None:
        """Computes the KV of a prefix that stands at the start of prompts."""
        attend = PrefillAttention(self.cache, blocks, 0, len(token_ids))
        adapted = [] if adapter is None else [AdaptedRows(slice(None), self._adapters[adapter])]
        self._model.forward(token_ids, range(len(token_ids)), attend, adapted)

    def _prefill(self, chunks: Seq[Chunk]) -> Seq[torch.Tensor]:
        """Returns the hidden states (num_rows, hidden_size) of each of several long chunks, computed in one pass.

        Its products see the tokens of all chunks, one chunk behind the other; each chunk attends by itself.
        """
        num_rows = [chunk.num_rows for chunk in chunks]
        starts = [end - count for end, count in zip(itertools.accumulate(num_rows), num_rows, strict=True)]
        parts = [PrefillAttention(self.cache, c.state.blocks, c.state.kv_len, c.num_rows) for c in chunks]
        placed = list(zip(starts, chunks, strict=True))
        attend = observed(
            PackedAttention(parts, num_rows) if len(parts) > 1 else parts[0],
            [Piece(row, c.state.num_computed_tokens, c.num_rows, c.state.evictable) for row, c in placed],
        )
        adapted = [
            AdaptedRows(slice(row, row + chunk.num_rows), self._adapters[chunk.state.adapter])
            for row, chunk in placed
            if chunk.state.adapter is not None
        ]
        hidden = self._model.forward(
            [token_id for chunk in chunks for token_id in chunk.token_ids],
            [c.state.num_computed_tokens + index for c in chunks for index in range(c.num_rows)],
            attend,
            adapted,
        )
        return hidden.split(num_rows)

    def _decode(self, chunks: Seq[Chunk]) -> Seq[torch.Tensor]:
        """Returns the hidden states (num_rows, hidden_size) of each of several short chunks, computed in one batch.

        Each token is a row of its own that attends to its sequence as far as itself: all keys of a layer are written
        before any is read.
        """
        rows = [_row(chunk.state, index) for chunk in chunks for index in range(chunk.num_rows)]
        token_ids = [token_id for chunk in chunks for token_id in chunk.token_ids]
        positions = [c.state.num_computed_tokens + index for c in chunks for index in range(c.num_rows)]
        order = sorted(range(len(rows)), key=lambda place: rows[place].order)
        seen = [chunk.state.evictable for chunk in chunks for _ in range(chunk.num_rows)]
        attend = observed(
            DecodeAttention(self.cache, [rows[place] for place in order]),
            [Piece(row, positions[place], 1, seen[place]) for row, place in enumerate(order)],
        )
        names = [chunk.state.adapter for chunk in chunks for _ in range(chunk.num_rows)]
        adapters = [None if (name := names[place]) is None else self._adapters[name] for place in order]
        hidden = self._model.forward(
            [token_ids[place] for place in order],
            [positions[place] for place in order],
            attend,
            group_rows(adapters, self._device),
        )
        if order != sorted(order):
            (places,) = upload(self._device, sorted(range(len(order)), key=order.__getitem__))
            hidden = hidden.index_select(0, places)
        return hidden.split([chunk.num_rows for chunk in chunks])


def _packs(chunks: Iterable[Chunk]) -> Iterator[list[Chunk]]:
    """Yields chunks that are computed in one pass, in their order."""
    pack: list[Chunk] = []
    for chunk in chunks:
        if pack and sum(c.num_rows for c in pack) + chunk.num_rows > _MAX_PACKED_ROWS:
            yield pack
            pack = []
        pack.append(chunk)
    if pack:
        yield pack


def _row(state: SequenceState, index: int) -> DecodeRow:
    return DecodeRow(state.blocks, state.num_shared_blocks, state.kv_len + index)
