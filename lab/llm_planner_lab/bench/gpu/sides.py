# SPDX-License-Identifier: Apache-2.0
"""Both sides that are timed, step by step: our engine, and transformers' forward loop with the same weights."""

import gc
import random
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any

import torch

from llm_planner.core.eviction import num_removed_tokens
from llm_planner.core.step import SchedulerOutput, Sequence
from llm_planner.engine.backend import TorchBackend
from llm_planner_lab.bench.gpu.shapes import RandomWeights

Clock = Callable[[], float]
_NONE: Mapping[str, int] = {}


class DoesNotFit(Exception):  # noqa: N818 (an answer, not a mistake)
    """A case for which there is no memory, no package or no time; the text says which."""


def timer(device: torch.device) -> Clock:
    """Returns a clock that waits for the device before it tells the time."""

    def now_s() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    return now_s


def release_memory(device: torch.device) -> None:
    """Gives memory of models that are gone back to the device."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


class Engine:
    """Our engine with random prompts, driven step by step; every method that runs a step returns its seconds.

    A sequence that the model ends goes on behind another token.

    Args:
        model: Directory that ``write_model`` has written.
        weights: Of the model.
        device: Computes.
        dtype: Of weights and cache.
        num_blocks: Of the cache.
        seed: Of the prompts.
    """

    def __init__(
        self, model: Path, weights: RandomWeights, device: torch.device, dtype: str, num_blocks: int, seed: int
    ) -> None:
        self.backend = TorchBackend(
            model,
            device=str(device),
            dtype=dtype,
            num_kv_blocks=num_blocks,
            open_weights=lambda _path, _config: weights,
        )
        self.now_s = timer(device)
        self.chosen: Mapping[str, tuple[int, ...]] = {}
        self._rng = random.Random(seed)
        self._vocabulary = 257  # of the tokenizer
        self._lengths: dict[str, int] = {}
        self._prompts: dict[str, Sequence] = {}
        self._ended: set[str] = set()
        self._num_started = 0

    def room_for(self, num_tokens: int) -> int:
        """Returns how many sequences of this length fit into what is free of the cache."""
        info = self.backend.info
        size = info.block_size
        free = info.num_kv_blocks - sum(-(-length // size) for length in self._lengths.values())
        return free // -(-num_tokens // size)

    def kv_tokens(self, names: Collection[str]) -> int:
        """Returns the tokens in the caches of sequences."""
        return sum(self._lengths[name] for name in names)

    def start(
        self, num_tokens: int, *, first: int = 0, alongside: Seq[str] = (), is_evictable: bool = False
    ) -> tuple[str, float]:
        """Starts a sequence and computes ``first`` tokens of its prompt, by default all; returns its name and the time.

        Args:
            num_tokens: Of the prompt.
            first: How many are computed.
            alongside: Sequences that decode in the same step.
            is_evictable: Whether KV of it may be removed.
        """
        name = f"sequence-{self._num_started}"
        self._num_started += 1
        self._prompts[name] = Sequence(
            request_id=name,
            prompt_token_ids=tuple(self._token() for _ in range(num_tokens)),
            evictable=((0, num_tokens),) if is_evictable else (),
        )
        self._lengths[name] = 0
        counts = dict.fromkeys(alongside, 1) | {name: first or num_tokens}
        return name, self._run(counts, new=(self._prompts[name],))

    def prompt(self, name: str) -> tuple[int, ...]:
        """Returns the tokens of a prompt."""
        return self._prompts[name].prompt_token_ids

    def compute(self, name: str, num_tokens: int) -> float:
        """Computes the next tokens of a prompt."""
        return self._run({name: num_tokens})

    def decode(self, names: Collection[str]) -> float:
        """Computes one token of each sequence."""
        return self._run(dict.fromkeys(names, 1))

    def offload(self, name: str) -> float:
        """Moves the KV of a sequence to host memory."""
        return self._run(offload=(name,))

    def restore(self, name: str) -> float:
        """Moves it back."""
        return self._run(restore=(name,))

    def evict(self, name: str, ratio: float) -> float:
        """Removes this share of the prompt's KV, as far as it may be removed."""
        num_removed = num_removed_tokens(self._prompts[name], ratio)
        took_s = self._run(evict={name: num_removed})
        self._lengths[name] -= num_removed
        return took_s

    def release(self, names: Collection[str] | None = None) -> None:
        """Frees all that sequences hold, by default of every one."""
        gone = tuple(self._lengths if names is None else names)
        self._run(release=gone)
        for name in gone:
            del self._lengths[name], self._prompts[name]
        self._ended.difference_update(gone)

    def _run(self, counts: Mapping[str, int] = _NONE, **fields: Any) -> float:
        insert = {name: (self._token(),) for name in sorted(self._ended.intersection(counts))}
        step = SchedulerOutput(num_scheduled_tokens=counts, insert=insert, **fields)
        start_s = self.now_s()
        output = self.backend.execute(step)
        took_s = self.now_s() - start_s
        if output.failed:
            raise DoesNotFit(next(iter(output.failed.values())))
        self.chosen = output.token_ids
        self._ended = (self._ended - counts.keys()) | output.finished.keys()
        for name, count in counts.items():
            self._lengths[name] += count
        return took_s

    def _token(self) -> int:
        return self._rng.randrange(1, self._vocabulary)


class Transformers:
    """The same model in transformers with its DynamicCache: a bare forward loop, without the cost of ``generate``.

    Raises:
        DoesNotFit: If transformers is not installed.
    """

    def __init__(
        self, values: Mapping[str, Any], weights: RandomWeights, device: torch.device, dtype: torch.dtype
    ) -> None:
        try:
            from transformers import AutoModelForCausalLM, LlamaConfig
        except ImportError as error:
            raise DoesNotFit("transformers is not installed") from error
        with torch.device(device):
            make: Any = AutoModelForCausalLM.from_config
            self._model = make(LlamaConfig(**values), dtype=dtype).eval()
        with torch.no_grad():
            for name, parameter in self._model.named_parameters():
                parameter.copy_(weights.load(name, dtype, device))
        self._device = device
        self.now_s = timer(device)
        self._cache: Any = None
        self.last = 0

    def prefill(self, prompt: Seq[int]) -> float:
        """Starts again with a prompt; returns the seconds."""
        self._cache = None
        return self._forward(torch.tensor([prompt], device=self._device))

    def decode(self) -> float:
        """Computes one token; returns the seconds."""
        return self._forward(torch.tensor([[self.last]], device=self._device))

    @torch.inference_mode()
    def _forward(self, token_ids: torch.Tensor) -> float:
        start_s = self.now_s()
        output = self._model(token_ids, past_key_values=self._cache, use_cache=True, logits_to_keep=1)
        self._cache = output.past_key_values
        self.last = int(output.logits[0, -1].argmax())
        return self.now_s() - start_s


def read_bandwidth(device: torch.device, free_bytes: int, num_reads: int = 12) -> list[float]:
    """Returns the seconds per byte of reading memory once, in the sum of a tensor that no cache holds.

    Args:
        device: Whose memory.
        free_bytes: Of it; a quarter is taken, at most 1 GiB (128 MiB on a CPU).
        num_reads: How often, behind three that are not counted.
    """
    num_bytes = min(1 << (30 if device.type == "cuda" else 27), free_bytes // 4)
    buffer, now_s = torch.ones(num_bytes // 4, device=device), timer(device)
    seconds: deque[float] = deque(maxlen=num_reads)
    for _ in range(num_reads + 3):
        start_s = now_s()
        buffer.sum()
        seconds.append((now_s() - start_s) / num_bytes)
    return list(seconds)
