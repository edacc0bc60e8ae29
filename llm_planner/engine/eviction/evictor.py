"""Carries an eviction out: chooses tokens, moves what stays together, and gives the blocks behind it back."""

import torch

from llm_planner.core.eviction import observation_start, removable_spans
from llm_planner.core.step import Sequence
from llm_planner.engine.attention import slot_of
from llm_planner.engine.eviction.interface import EvictionMethod, PromptKV
from llm_planner.engine.eviction.observation import Evictable, Observation
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
            RequestError: If so many cannot be removed: too many, too early, or for the second time.
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
        table = torch.tensor(state.blocks[: -(-kv_len // cache.block_size)], dtype=torch.long, device=device)
        candidates = torch.cat([torch.arange(start, end, device=device) for start, end in evictable.spans])
        slots = [slot_of(state.blocks, index, cache.block_size) for index in range(first, kv_len - num_removed)]
        targets = torch.tensor(slots, dtype=torch.long, device=device)
        for layer in range(cache.pool.shape[0]):
            keys, values = (kv[0, :, :kv_len] for kv in cache.gather(layer, table, 1))
            scores = self._scores(layer, keys, values, evictable)
            kept = _kept(scores, candidates, kv_len, num_removed)[:, first:, None].expand(-1, -1, keys.shape[-1])
            cache.write(layer, targets, *(kv.gather(1, kept).transpose(0, 1) for kv in (keys, values)))

    def _scores(self, layer: int, keys: torch.Tensor, values: torch.Tensor, evictable: Evictable) -> torch.Tensor:
        prompt, observation = slice(evictable.num_prompt_tokens), evictable.observation
        queries = None if observation is None else observation.queries(layer)
        return self._method.scores(PromptKV(keys=keys[:, prompt], values=values[:, prompt], queries=queries))


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
    return stays.nonzero()[:, 1].view(len(scores), -1)
