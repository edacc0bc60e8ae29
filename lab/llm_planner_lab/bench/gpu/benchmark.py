# SPDX-License-Identifier: Apache-2.0
"""What the torch engine takes for its steps on one device, next to what reading the memory would take."""

import re
import statistics
import tempfile
import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.engine.hardware import device_name, free_bytes, select_device, select_dtype
from llm_planner.engine.model_config import ModelConfig
from llm_planner.prediction.measurement import QUICK_WARM_STEPS, is_enough, make_profile, measure_within
from llm_planner.prediction.prober import ROUNDS, Prober
from llm_planner.prediction.profile import write_profile
from llm_planner_lab.bench.engines import Times
from llm_planner_lab.bench.gpu.shapes import (
    SHAPES,
    RandomWeights,
    Shape,
    kv_token_bytes,
    step_bytes,
    weight_bytes,
    write_model,
)
from llm_planner_lab.bench.gpu.sides import DoesNotFit, Engine, Transformers, read_bandwidth, release_memory
from llm_planner_lab.checkout import commit

RATIOS = (0.0, 0.25, 0.5, 0.9)
"""Shares of a prompt that are evicted; without any, for comparison."""
PARTS = ("transformers", "prefill", "decode", "suspension", "mixed", "moves", "eviction")
_ALONGSIDE = 8  # sequences that decode while a prompt is computed, or one of them is suspended
_GROWTH = 256  # tokens that a sequence may write while it is measured
_ROUNDS, _STEPS = 3, 8  # of decode steps, all batches in turns; behind one that is not counted
_REPEATS = 5
_PROFILE_S = 20.0
_KV_SHARE = 0.8  # of what the weights leave free
_BLOCK_SIZE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuBench:
    """What is measured.

    Attributes:
        shapes: Names of ``shapes.SHAPES``.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        batches: Sequences that decode together, ascending.
        limit_s: What has not begun by then is skipped.
        threads: CPU threads; 0 leaves the library's default.
        profiles: Where a profile of each shape is written; None for none.
        seed: Of weights and prompts.
    """

    shapes: tuple[str, ...] = ("1b", "8b")
    device: str = "auto"
    batches: tuple[int, ...] = (1, 8, 32)
    limit_s: float = 480.0
    threads: int = 0
    profiles: Path | None = None
    seed: int = 0


Note = Callable[[str, int, int], None]
"""Is told what begins, how many cases have begun, and how many there are."""


def run_gpu(bench: GpuBench, note: Note = lambda *_: None) -> dict[str, Any]:
    """Returns the figures of all shapes, as docs/engine.md describes them.

    Raises:
        PlannerError: INVALID_CONFIG for an unknown shape or device.
    """
    if unknown := sorted(set(bench.shapes) - SHAPES.keys()):
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"no shapes {unknown}; known are {', '.join(SHAPES)}")
    if bench.threads:
        torch.set_num_threads(bench.threads)
    device, start_s = select_device(bench.device), time.monotonic()
    read_s = read_bandwidth(device, free_bytes(device))
    document: dict[str, Any] = {
        "device": device_name(device, torch.float32).removesuffix(", float32"),
        "torch": torch.__version__,
        "commit": commit(),
        "seed": bench.seed,
        "read_gb_s": {"p50": 1e-9 / statistics.median(read_s), "best": 1e-9 / min(read_s)},
        "shapes": [],
    }
    all_cases = sum(len(_labels(SHAPES[name], bench)) for name in bench.shapes)
    begun = 0

    def begin(label: str) -> None:
        nonlocal begun
        note(label, begun, all_cases)
        begun += 1

    for name in bench.shapes:
        with tempfile.TemporaryDirectory() as directory:
            run = _ShapeRun(bench, SHAPES[name], device, statistics.median(read_s), start_s + bench.limit_s, begin)
            document["shapes"].append(run.measure(Path(directory) / f"llama-{name}-random"))
    return document | {"took_s": time.monotonic() - start_s}


def _labels(shape: Shape, bench: GpuBench) -> list[str]:
    """Returns the cases of a shape, in their order."""
    by_context = [
        f"{what}, context {context}" for context in shape.contexts for what in ("decode", "suspension", "mixed")
    ]
    evictions = [f"eviction, context {context}" for context in shape.contexts]
    profile = [] if bench.profiles is None else ["profile"]
    return ["transformers", "weights", *by_context, "chunk", "moves", *evictions, *profile]


@dataclass(slots=True)
class _ShapeRun:
    """Measures one shape.

    Args:
        bench: What is measured.
        shape: Of the model.
        device: Computes.
        read_s: Seconds per byte that is read.
        until_s: On the monotonic clock: what has not begun by then is skipped.
        begin: Is told of each case.
    """

    bench: GpuBench
    shape: Shape
    device: torch.device
    read_s: float
    until_s: float
    begin: Callable[[str], None]
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {part: [] for part in PARTS})
    skipped: list[dict[str, str]] = field(default_factory=list)
    profile: str | None = None
    engine: Engine | None = None
    names: list[str] = field(default_factory=list)
    directory: Path = field(init=False)
    config: ModelConfig = field(init=False)
    dtype: torch.dtype = field(init=False)
    weights: RandomWeights = field(init=False)

    def measure(self, directory: Path) -> dict[str, Any]:
        """Returns the figures of the shape; writes to an empty directory that is not there yet."""
        directory.mkdir()
        self.config = write_model(directory, self.shape)
        self.dtype = select_dtype("auto", self.config, self.device)
        self.weights = RandomWeights(self.config, self.bench.seed)
        self.directory = directory
        contexts = self.shape.contexts
        actions: list[Callable[[], None]] = [self._transformers, self._load]
        for context in contexts:
            actions += [partial(part, context) for part in (self._decode, self._suspend, self._mix)]
        actions += [self._chunk, self._move, *(partial(self._evict, context) for context in contexts)]
        if self.bench.profiles is not None:
            actions.append(partial(self._profile, self.bench.profiles))
        for label, action in zip(_labels(self.shape, self.bench), actions, strict=True):
            self._case(label, action)
        num_blocks = 0 if self.engine is None else self.engine.backend.info.num_kv_blocks
        self._close()
        return {
            "name": self.shape.name,
            "config": dict(self.shape.config),
            "dtype": str(self.dtype).removeprefix("torch."),
            "weights_gb": 1e-9 * weight_bytes(self.config, self.dtype),
            "kv_token_bytes": kv_token_bytes(self.config, self.dtype),
            "num_kv_blocks": num_blocks,
            "profile": self.profile,
            "skipped": self.skipped,
            **self.rows,
        }

    def _case(self, label: str, action: Callable[[], None]) -> None:
        """Runs a case, or says why it is skipped."""
        self.begin(f"{self.shape.name}: {label}")
        try:
            self._check_time()
            action()
        except DoesNotFit as error:
            self._skip(label, str(error))
        except PlannerError as error:
            if error.code is not ErrorCode.OUT_OF_MEMORY:
                raise
            self._skip(label, error.message)
        except RuntimeError as error:
            if "memory" not in str(error):  # the CPU allocator has no exception type of its own
                raise
            self._skip(label, str(error).splitlines()[0])

    def _skip(self, what: str, why: str) -> None:
        self.skipped.append({"what": what, "why": why})

    def _check_time(self) -> None:
        if time.monotonic() > self.until_s:
            raise DoesNotFit(f"no time is left: {self.bench.limit_s:.0f} s have passed")

    def _open(self, num_tokens: int) -> Engine:
        """Returns an engine with a cache of so many tokens, or as many as fit."""
        release_memory(self.device)  # what the case before had
        needed, free = weight_bytes(self.config, self.dtype), free_bytes(self.device)
        token_bytes = kv_token_bytes(self.config, self.dtype)
        room_tokens = int(_KV_SHARE * (free - needed)) // token_bytes
        if room_tokens < self.shape.contexts[0] + _GROWTH:
            raise DoesNotFit(f"{1e-9 * needed:.1f} GB of weights, {1e-9 * free:.1f} GB of memory are free")
        num_blocks = min(num_tokens, room_tokens) // _BLOCK_SIZE
        dtype = str(self.dtype).removeprefix("torch.")
        return Engine(self.directory, self.weights, self.device, dtype, num_blocks, self.bench.seed)

    def _open_engine(self) -> Engine:
        if self.engine is None:
            raise DoesNotFit("the model is not loaded")
        return self.engine

    def _close(self) -> None:
        if self.engine is not None:
            self.engine.backend.close()
        self.engine = None
        release_memory(self.device)

    def _load(self) -> None:
        longest = self.shape.contexts[-1] + _GROWTH
        self.engine = self._open((self.bench.batches[-1] + 1) * longest)

    def _transformers(self) -> None:
        """Compares one sequence with transformers: both sides take turns, round by round and step by step."""
        try:
            ours = self.engine = self._open(2 * (self.shape.contexts[-1] + _GROWTH))
            free, needed = free_bytes(self.device), weight_bytes(self.config, self.dtype)
            if free < 1.1 * needed:
                raise DoesNotFit(f"{1e-9 * needed:.1f} GB of weights a second time, {1e-9 * free:.1f} GB are free")
            theirs = Transformers(self.shape.values, self.weights, self.device, self.dtype)
            for context in self.shape.contexts:
                if ours.room_for(context + _GROWTH) < 1:
                    self._skip(f"transformers, context {context}", "the cache is too small")
                    continue
                self._compare(ours, theirs, context)
                ours.release()
        finally:
            self._close()

    def _compare(self, ours: Engine, theirs: Transformers, context: int) -> None:
        prefills: tuple[list[float], list[float]] = [], []
        for index in range(_REPEATS + 1):
            ours.release()
            name, took_s = ours.start(context)
            for kept, value in zip(prefills, (took_s, theirs.prefill(ours.prompt(name))), strict=True):
                kept.extend([value] if index else [])  # the first round warms up
        decodes: tuple[list[float], list[float]] = [], []
        same = [ours.chosen[name] == (theirs.last,)]
        for index in range(_ROUNDS * _STEPS + 1):
            for kept, took_s in zip(decodes, (ours.decode([name]), theirs.decode()), strict=True):
                kept.extend([took_s] if index else [])
            same.append(ours.chosen[name] == (theirs.last,))
        for what, (mine, other) in (("prefill", prefills), ("decode", decodes)):
            mine_ms, other_ms = Times.of(mine), Times.of(other)
            row = {"what": what, "context": context, "ours": asdict(mine_ms), "transformers": asdict(other_ms)}
            self.rows["transformers"].append(row | {"ratio": other_ms.p50_ms / mine_ms.p50_ms})
        num_same = same.index(False) if False in same else len(same)
        self.rows["transformers"][-1] |= {"num_same_tokens": num_same, "num_tokens": len(same)}

    def _decode(self, context: int) -> None:
        """Fills the cache with sequences, and decodes some of them in turns; what is left out is suspended."""
        engine, batches = self._open_engine(), self.bench.batches
        engine.release()
        self.names = []
        room = engine.room_for(context + _GROWTH) - 1  # one for the prompts of ``_mix``
        if room < 1:
            raise DoesNotFit("the cache is too small for two sequences")
        seconds: list[float] = []
        for index in range(_ROUNDS):
            name, took_s = engine.start(context)
            engine.release([name])
            seconds += [took_s] if index else []
        for _ in range(min(room, batches[-1])):
            self._check_time()
            name, took_s = engine.start(context)
            self.names.append(name)
            seconds.append(took_s)
        self._prefill_row(context, 0, seconds)
        for batch in batches:
            if batch > room:
                self._skip(f"decode, context {context}, batch {batch}", f"the cache holds {room} sequences")
        fitting = [batch for batch in batches if batch <= room]
        steps_s: dict[int, list[float]] = {batch: [] for batch in fitting}
        kv_tokens: dict[int, list[int]] = {batch: [] for batch in fitting}
        for _ in range(_ROUNDS):
            for batch in fitting:
                chosen = self.names[:batch]
                engine.decode(chosen)
                for _ in range(_STEPS):
                    kv_tokens[batch].append(engine.kv_tokens(chosen))
                    steps_s[batch].append(engine.decode(chosen))
        for batch in fitting:
            self._decode_row(context, batch, steps_s[batch], statistics.fmean(kv_tokens[batch]))

    def _prefill_row(self, num_tokens: int, num_cached: int, seconds: list[float]) -> None:
        times = Times.of(seconds)
        row = {"num_tokens": num_tokens, "num_cached": num_cached, "n": len(seconds), **asdict(times)}
        self.rows["prefill"].append(row | {"tokens_per_s": 1e3 * num_tokens / times.p50_ms})

    def _decode_row(self, context: int, batch: int, seconds: list[float], kv_tokens: float) -> None:
        read_bytes = step_bytes(self.config, self.dtype) + kv_tokens * kv_token_bytes(self.config, self.dtype)
        floor_ms, times = 1e3 * self.read_s * read_bytes, Times.of(seconds)
        row = {"context": context, "batch": batch, "n": len(seconds), **asdict(times), "floor_ms": floor_ms}
        self.rows["decode"].append(row | {"times_floor": times.p50_ms / floor_ms})

    def _decoding(self, least: int) -> list[str]:
        """Returns sequences of this context that decode while something else happens."""
        names = self.names[:_ALONGSIDE]
        if len(names) < least:
            raise DoesNotFit(f"the cache holds {len(names)} sequences")
        return names

    def _suspend(self, context: int) -> None:
        """Leaves one sequence out of two steps, and takes it in again."""
        engine, names = self._open_engine(), self._decoding(least=2)
        steady: list[float] = []
        suspending: list[float] = []
        resuming: list[float] = []
        for _ in range(_REPEATS):
            engine.decode(names)
            steady.append(engine.decode(names))
            suspending.append(engine.decode(names[1:]))
            engine.decode(names[1:])
            resuming.append(engine.decode(names))
        self.rows["suspension"].append(
            {"context": context, "batch": len(names)} | _times(steady=steady, suspending=suspending, resuming=resuming)
        )

    def _mix(self, context: int) -> None:
        """Computes a prompt alone, decodes alone, and does both in one step, in turns."""
        engine, names = self._open_engine(), self._decoding(least=1)
        for num_tokens in self.shape.prompts:
            prompt: list[float] = []
            decode: list[float] = []
            both: list[float] = []
            for index in range(_REPEATS + 1):
                decode_s = engine.decode(names)
                alone, prompt_s = engine.start(num_tokens)
                alongside, both_s = engine.start(num_tokens, alongside=names)
                engine.release([alone, alongside])
                if index:
                    prompt.append(prompt_s)
                    decode.append(decode_s)
                    both.append(both_s)
            prompt_s, decode_s, both_s = (statistics.median(seconds) for seconds in (prompt, decode, both))
            row: dict[str, Any] = {"context": context, "batch": len(names), "num_tokens": num_tokens}
            hidden = (prompt_s + decode_s - both_s) / min(prompt_s, decode_s)
            self.rows["mixed"].append(row | _times(prompt=prompt, decode=decode, both=both) | {"hidden": hidden})

    def _chunk(self) -> None:
        """Computes the end of a long prompt, behind what is in the cache already."""
        engine, context, num_tokens = self._open_engine(), self.shape.contexts[-1], self.shape.prompts[-1]
        engine.release()
        self._check_room(engine, context)
        seconds = []
        for _ in range(_REPEATS):
            name, _ = engine.start(context, first=context - num_tokens)
            seconds.append(engine.compute(name, num_tokens))
            engine.release([name])
        self._prefill_row(num_tokens, context - num_tokens, seconds)

    def _check_room(self, engine: Engine, num_tokens: int) -> None:
        if engine.room_for(num_tokens + _GROWTH) < 1:
            raise DoesNotFit(f"the cache does not hold {num_tokens} tokens")

    def _move(self) -> None:
        """Offloads and restores the KV of one sequence."""
        engine, token_bytes = self._open_engine(), kv_token_bytes(self.config, self.dtype)
        for context in self.shape.contexts:
            engine.release()
            self._check_room(engine, context)
            name, _ = engine.start(context)
            pairs = [(engine.offload(name), engine.restore(name)) for _ in range(_REPEATS + 1)][1:]
            moved_gb = 1e-9 * context * token_bytes
            row: dict[str, Any] = {"context": context, "moved_gb": moved_gb}
            for what, seconds in zip(("offload", "restore"), map(list, zip(*pairs, strict=True)), strict=True):
                row |= _times(**{what: seconds}) | {f"{what}_gb_s": moved_gb / statistics.median(seconds)}
            self.rows["moves"].append(row)

    def _evict(self, context: int) -> None:
        """Evicts shares of a prompt, in turns, and decodes behind that."""
        engine = self._open_engine()
        engine.release()
        self._check_room(engine, context)
        evict_s: dict[float, list[float]] = {ratio: [] for ratio in RATIOS}
        decode_s: dict[float, list[float]] = {ratio: [] for ratio in RATIOS}
        kept: dict[float, int] = {}
        for _ in range(_ROUNDS):
            for ratio in RATIOS:
                self._check_time()
                name, _ = engine.start(context, is_evictable=True)
                if ratio:
                    evict_s[ratio].append(engine.evict(name, ratio))
                kept[ratio] = engine.kv_tokens([name])
                engine.decode([name])
                decode_s[ratio] += [engine.decode([name]) for _ in range(_REPEATS)]
                engine.release([name])
        for ratio in RATIOS:
            row = {"context": context, "ratio": ratio, "kept_tokens": kept[ratio]} | _times(decode=decode_s[ratio])
            self.rows["eviction"].append(row | {"evict": asdict(Times.of(evict_s[ratio])) if ratio else None})

    def _profile(self, directory: Path) -> None:
        """Writes an engine profile, measured as ``engine.profile: auto`` does, but without a grammar."""
        engine = self._open_engine()
        engine.release()
        prober = Prober(engine.backend, num_repeats=ROUNDS, warm_steps=QUICK_WARM_STEPS, seed=self.bench.seed)
        samples, are_hidden = measure_within(prober, _PROFILE_S, MonotonicClock())
        if not is_enough(samples):
            raise DoesNotFit(f"the engine is too slow to be measured in {_PROFILE_S:.0f} s")
        info = engine.backend.info
        name = re.sub(r"[^a-z0-9]+", "-", f"llama {self.shape.name} {info.device}".lower()).strip("-")
        profile = make_profile(
            samples,
            engine.backend,
            name,
            f"random weights of a Llama shape of {self.shape.name} on {info.device}, measured by llm-planner bench gpu",
            hides_prompts=are_hidden,
            measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        directory.mkdir(parents=True, exist_ok=True)
        write_profile(profile, directory / f"{name}.yaml")
        self.profile = f"{name}.yaml"


def _times(**seconds: Seq[float]) -> dict[str, Any]:
    """Returns the percentiles of several measurements, by name."""
    return {name: asdict(Times.of(list(values))) for name, values in seconds.items()}
