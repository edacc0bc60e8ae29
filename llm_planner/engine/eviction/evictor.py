# SPDX-License-Identifier: Apache-2.0
"""Carries an eviction out: chooses tokens, moves what stays together, and gives the blocks behind it back."""

import torch

from llm_planner.core.eviction import observation_start, removable_spans
from llm_planner.core.step import Sequence
from llm_planner.engine.eviction.interface import EvictionMethod, PromptKV
from llm_planner.engine.eviction.observation import Evictable, Observation
from llm_planner.engine.hardware import upload
from llm_planner.engine.kv_cache import KVCache
from llm_planner.engine.sequence_opener import RequestError
from llm_planner.engine.sequence_state import SequenceState


class Evictor:
    """Evicts with one method. The same number of tokens leaves every layer and KV head, so blocks stay whole.

    Only blocks that the sequence does not share are written: removable tokens lie behind its shared prefix, and
    everything before the first of them stays where it is.
    """

    def __init__(self, method: EvictionMethod) -> None:
        self._method = method

    def prospect(self, sequence: Sequence) -> Evictable | None:
        """Returns what to remember of a sequence that may be evicted; None for one that may not."""
        spans, end = removable_spans(sequence), len(sequence.prompt_token_ids)
        if not spans:
            return None
        observation = Observation(observation_start(sequence), end) if self._method.needs_queries else None
        return Evictable(num_prompt_tokens=end, spans=spans, observation=observation)

    def evict(self, state: SequenceState, num_removed: int, cache: KVCache) -> list[int]:
        """Removes ``num_removed`` tokens from every layer and KV head; returns the blocks that are free now.

        What stays keeps its order and moves to the front of the sequence's blocks.

        Raises:
            RequestError: If this number cannot be removed: too many, too early, or for the second time.
        """
        evictable = state.evictable
        if evictable is None or state.is_offloaded:
            raise RequestError("no KV of it can be removed: it is offloaded, evicted, or has no evictable tokens")
        if state.kv_len < evictable.num_prompt_tokens:
            raise RequestError(f"{state.kv_len} of {evictable.num_prompt_tokens} tokens of its prompt are computed")
        if not 1 <= num_removed <= evictable.num_tokens:
            raise RequestError(f"{num_removed} tokens are to be removed, {evictable.num_tokens} can be")
        self._compact(state, evictable, num_removed, cache)
        state.kv_len -= num_removed
        state.evictable = None
        num_blocks = -(-state.kv_len // cache.block_size)
        freed = state.blocks[num_blocks:]
        del state.blocks[num_blocks:]
        return freed

    def _compact(self, state: SequenceState, evictable: Evictable, num_removed: int, cache: KVCache) -> None:
        """Moves the KV that stays to the first ``kv_len - num_removed`` slots."""
        device, first, kv_len = cache.pool.device, evictable.spans[0][0], state.kv_len
        (blocks,) = upload(device, state.blocks[: -(-kv_len // cache.block_size)])
        slots = (blocks[:, None] * cache.block_size + torch.arange(cache.block_size, device=device)).flatten()
        candidates = torch.cat([torch.arange(start, end, device=device) for start, end in evictable.spans])
        for layer in range(cache.pool.shape[0]):
            keys = cache.read_keys(layer, blocks)[:, : evictable.num_prompt_tokens]
            queries = None if evictable.observation is None else evictable.observation.queries(layer)
            scores = self._method.scores(PromptKV(keys=keys, queries=queries))
            kept = _kept(scores, candidates, kv_len, num_removed)[:, first:]
            cache.move(layer, slots[kept], slots[first : kv_len - num_removed])


def _kept(scores: torch.Tensor, candidates: torch.Tensor, kv_len: int, num_removed: int) -> torch.Tensor:
    """Returns (num_kv_heads, kv_len - num_removed): the indices that stay, ascending.

    Args:
        scores: (num_kv_heads, num_prompt_tokens)
        candidates: (num_candidates,), ascending: the only indices that may go.
        kv_len: Number of indices.
        num_removed: How many go.
    """
    ranked = scores.index_select(1, candidates).argsort(dim=-1, descending=True, stable=True)
    removed = candidates[ranked[:, -num_removed:]]
    stays = torch.ones(len(scores), kv_len, dtype=torch.bool, device=scores.device).scatter_(1, removed, value=False)
    return _indices(stays, kv_len - num_removed)


def _indices(stays: torch.Tensor, num_kept: int) -> torch.Tensor:
    """Returns where each row is true, ``num_kept`` times: (num_kv_heads, num_kept)."""
    if stays.device.type == "cpu":
        return stays.nonzero()[:, 1].view(-1, num_kept)
    return indices_of_known_number(stays, num_kept)


def indices_of_known_number(stays: torch.Tensor, num_kept: int) -> torch.Tensor:
    """As ``nonzero``, without waiting for the device to count; slower on a CPU."""
    return stays.nonzero_static(size=len(stays) * num_kept)[:, 1].view(-1, num_kept)
