# SPDX-License-Identifier: Apache-2.0
"""A slow forward pass that keeps everything and masks what an eviction removed, and a driver of the backend."""

import math
import struct
from dataclasses import replace
from itertools import count

import torch
from transformers import AutoModelForCausalLM
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from llm_planner.core.eviction import OBSERVATION_TOKENS, num_removed_tokens, removable_spans
from llm_planner.core.step import SchedulerOutput, Sequence

PROMPT = tuple(7 + (31 * i + i * i // 5) % 290 for i in range(132))
EVICTABLE = ((8, 60), (64, 98))
SEQUENCE = Sequence(request_id="a", prompt_token_ids=PROMPT, evictable=EVICTABLE)


def snapkv(queries, keys):
    """Scores of one KV head: (num_heads_of_it, num_tokens, head_dim) and (num_tokens, head_dim); see the paper."""
    num_tokens, head_dim = keys.shape
    start = num_tokens - OBSERVATION_TOKENS
    votes = [0.0] * num_tokens
    for head in queries:
        for i in range(start, num_tokens):
            weights = (keys[: i + 1] @ head[i] / math.sqrt(head_dim)).softmax(-1).tolist()
            votes = [vote + weight for vote, weight in zip(votes, weights + [0.0] * num_tokens, strict=False)]
    return [max(votes[max(0, j - 3) : min(start, j + 4)]) for j in range(start)]


def half(number):
    return struct.unpack("e", struct.pack("e", number))[0]


METHODS = {
    "snapkv": snapkv,
    "streaming": lambda _queries, keys: range(len(keys)),
    "key_norm": lambda _queries, keys: [-half(math.sqrt(sum(x * x for x in key))) for key in keys.tolist()],
}


class Reference:
    """Llama in transformers' modules; no cache. Removed keys are masked, per layer and KV head."""

    def __init__(self, path, method):
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        self.score = METHODS[method]
        self.removed = {}

    @torch.no_grad()
    def generate(self, sequence, num_removed, after_tokens, num_tokens):
        """Returns greedy tokens; computed with all KV up to ``after_tokens``, without the removed from there on."""
        token_ids = [*sequence.prompt_token_ids]
        self.removed = {}
        for _ in range(num_tokens):
            token_ids.append(int(self._forward(token_ids, sequence, num_removed, after_tokens).argmax()))
        return token_ids[len(sequence.prompt_token_ids) :]

    def _forward(self, token_ids, sequence, num_removed, after_tokens):
        body, num_tokens = self.model.model, len(token_ids)
        x = body.embed_tokens(torch.tensor([token_ids]))
        rotary = body.rotary_emb(x, torch.arange(num_tokens)[None])
        for index, layer in enumerate(body.layers):
            normed = layer.input_layernorm(x)
            parts = (layer.self_attn.q_proj(normed), layer.self_attn.k_proj(normed), layer.self_attn.v_proj(normed))
            q, k, v = (part.view(1, num_tokens, -1, self.model.config.head_dim).transpose(1, 2) for part in parts)
            q, k = apply_rotary_pos_emb(q, k, *rotary)
            group = q.shape[1] // k.shape[1]
            attended = []
            for head in range(q.shape[1]):
                kv_head = head // group
                if (index, kv_head) not in self.removed:
                    queries = q[0, kv_head * group : (kv_head + 1) * group]
                    self.removed[index, kv_head] = self._choose(sequence, queries, k[0, kv_head], num_removed)
                scores = q[0, head] @ k[0, kv_head].T / math.sqrt(q.shape[-1])
                for row in range(num_tokens):
                    scores[row, row + 1 :] = -math.inf
                    if row >= after_tokens:
                        scores[row, self.removed[index, kv_head]] = -math.inf
                attended.append(scores.softmax(-1) @ v[0, kv_head])
            x = x + layer.self_attn.o_proj(torch.cat(attended, -1)[None])
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.model.lm_head(body.norm(x[0, -1]))

    def _choose(self, sequence, queries, keys, num_removed):
        size = len(sequence.prompt_token_ids)
        scores = self.score(queries[:, :size], keys[:size])
        candidates = [index for start, end in removable_spans(sequence) for index in range(start, end)]
        return sorted(candidates, key=lambda index: (scores[index], -index))[:num_removed]


def evicted(backend, sequence, ratio, *, late_tokens=0, num_tokens=30, chunks=None):
    """Returns the tokens of one sequence that is evicted ``late_tokens`` after its prompt, and releases it.

    ``chunks`` yields how many prompt tokens to compute at a time.
    """
    removed = num_removed_tokens(sequence, ratio)
    left = len(sequence.prompt_token_ids) - sequence.num_cached_tokens
    chunks, new, tokens = chunks or count(10**6, 0), (replace(sequence),), []
    while left:
        size = min(left, next(chunks))
        output = backend.execute(SchedulerOutput(new=new, num_scheduled_tokens={sequence.request_id: size}))
        assert not output.failed, output.failed
        left, new = left - size, ()
    tokens += output.token_ids[sequence.request_id]
    while len(tokens) < num_tokens and sequence.request_id not in output.finished:
        evict = {sequence.request_id: removed} if removed and len(tokens) == 1 + late_tokens else {}
        output = backend.execute(SchedulerOutput(evict=evict, num_scheduled_tokens={sequence.request_id: 1}))
        assert not output.failed, output.failed
        tokens += output.token_ids[sequence.request_id]
        backend.check_integrity()
    backend.execute(SchedulerOutput(release=(sequence.request_id,)))
    return tokens
