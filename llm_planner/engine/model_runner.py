"""One model with its KV cache: computes chunks of sequences, and moves KV between accelerator and host."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path

import torch

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.engine.attention import PrefillAttention
from llm_planner.engine.checkpoint import Checkpoint
from llm_planner.engine.decode_attention import DecodeAttention, DecodeRow
from llm_planner.engine.hardware import default_num_blocks, select_device, select_dtype
from llm_planner.engine.kv_cache import KVCache
from llm_planner.engine.model import Model
from llm_planner.engine.model_config import ModelConfig
from llm_planner.engine.sequence_state import SequenceState


@dataclass(frozen=True, slots=True)
class Chunk:
    """The next ``num_tokens`` uncomputed tokens of a sequence whose blocks have room for them."""

    state: SequenceState
    num_tokens: int


class ModelRunner:
    """Loads a checked checkpoint and runs chunks.

    Raises:
        PlannerError: CHECKPOINT_INVALID and the like before a weight is read, INVALID_CONFIG for a device or data
            type that is not there, OUT_OF_MEMORY if weights or cache do not fit.
    """

    def __init__(
        self, model_dir: Path, config: ModelConfig, *, device: str, dtype: str, num_kv_blocks: int, block_size: int
    ) -> None:
        checkpoint = Checkpoint(model_dir, config)
        self._device = select_device(device)
        data_type = select_dtype(dtype, config.dtype, self._device)
        try:
            self._model = Model(config, checkpoint, data_type, self._device)
            block_bytes = KVCache.block_bytes(config, block_size, data_type)
            self.cache = KVCache(
                config,
                num_blocks=num_kv_blocks
                or default_num_blocks(block_bytes, block_size, config.max_model_len, self._device),
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

    def run(self, chunks: Seq[Chunk]) -> tuple[list[SequenceState], torch.Tensor | None]:
        """Computes every chunk and moves the counters on.

        Returns:
            The sequences with nothing left to compute, and the logits (num_seqs, vocab_size) of their last tokens.
        """
        ready: list[SequenceState] = []
        rows: list[torch.Tensor] = []
        for chunk in chunks:
            if chunk.num_tokens > 1:
                hidden = self._prefill(chunk)
                if not chunk.state.num_uncomputed_tokens:
                    ready.append(chunk.state)
                    rows.append(hidden)
        singles = sorted(
            (chunk.state for chunk in chunks if chunk.num_tokens == 1), key=lambda state: _row(state).order
        )
        if singles:
            hidden = self._decode(singles)
            done = [row for row, state in enumerate(singles) if not state.num_uncomputed_tokens]
            ready += [singles[row] for row in done]
            rows.append(hidden if len(done) == len(singles) else hidden[done])
        if not ready:
            return [], None
        return ready, self._model.logits(torch.cat(rows) if len(rows) > 1 else rows[0])

    def prefill_blocks(self, token_ids: Seq[int], blocks: Seq[int]) -> None:
        """Computes the KV of a prefix that stands at the start of prompts."""
        self._forward_prefill(token_ids, 0, blocks, 0)

    def _prefill(self, chunk: Chunk) -> torch.Tensor:
        """Returns the hidden state of the chunk's last token (1, hidden_size)."""
        state, start = chunk.state, chunk.state.num_computed_tokens
        token_ids = state.token_ids[start : start + chunk.num_tokens]
        hidden = self._forward_prefill(token_ids, start, state.blocks, state.kv_len)
        state.advance(chunk.num_tokens)
        return hidden[-1:]

    def _forward_prefill(self, token_ids: Seq[int], position: int, blocks: Seq[int], kv_len: int) -> torch.Tensor:
        attend = PrefillAttention(self.cache, blocks, kv_len, len(token_ids))
        positions = torch.arange(position, position + len(token_ids), device=self._device)
        return self._model.forward(torch.tensor(token_ids, device=self._device), positions, attend)

    def _decode(self, states: Seq[SequenceState]) -> torch.Tensor:
        """Returns the hidden states (num_seqs, hidden_size) of the next token of each sequence, in decode order."""
        attend = DecodeAttention(self.cache, [_row(state) for state in states])
        token_ids = torch.tensor([s.token_ids[s.num_computed_tokens] for s in states], device=self._device)
        positions = torch.tensor([s.num_computed_tokens for s in states], device=self._device)
        hidden = self._model.forward(token_ids, positions, attend)
        for state in states:
            state.advance(1)
        return hidden


def _row(state: SequenceState) -> DecodeRow:
    return DecodeRow(state.blocks, state.num_shared_blocks, state.kv_len)
