# SPDX-License-Identifier: Apache-2.0
"""Times engines on one checkpoint: ``python -m llm_planner_lab.bench.engines --model DIR``.

Ours, the same without its kernels, transformers and, in the environment of ``make setup-vllm``, vLLM take turns in one
process.
"""

import json
import platform
import random
import statistics
import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import torch
import typer
from rich.console import Console
from rich.table import Table

from llm_planner.core.interfaces import Backend
from llm_planner.core.step import SchedulerOutput, Sequence
from llm_planner.engine import kernels
from llm_planner.engine.backend import TorchBackend
from llm_planner.engine.model_config import read_model_config


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Milliseconds over all repetitions: the median, and the 10th percentile (the machine left alone)."""

    p50_ms: float
    p10_ms: float

    @classmethod
    def of(cls, seconds: list[float]) -> "Times":
        """Returns the percentiles of measured times."""
        deciles = statistics.quantiles(seconds, n=10, method="inclusive")
        return cls(p50_ms=1e3 * deciles[4], p10_ms=1e3 * deciles[0])

    def __str__(self) -> str:
        return f"{self.p50_ms:.2f} ({self.p10_ms:.2f})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement; all sides took turns in the same run."""

    what: str
    num_seqs: int
    ours: Times
    without_kernels: Times | None = None
    transformers: Times | None = None
    vllm: Times | None = None

    def ratio(self, peer: Times | None) -> float | None:
        """Returns how many times slower another side is, by the median."""
        return None if peer is None else peer.p50_ms / self.ours.p50_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is measured; ``prompt_tokens`` follow the ``shared_tokens`` with which all prompts begin."""

    prompt_tokens: int
    shared_tokens: int
    new_tokens: int
    rounds: int
    threads: int
    seed: int
    cpu_time: bool
    dtype: str = "float32"
    with_vllm: bool = False

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds of the processor, which other programs disturb less, or of the wall."""
        return time.process_time if self.cpu_time else time.perf_counter


class Stepped:
    """A backend with random prompts, driven step by step.

    Args:
        backend: Without requests; it stays open.
        prompts: Of one length.
        shared_tokens: With which all prompts begin.
        adapters: One for each prompt; None for all prompts by default.
    """

    def __init__(
        self,
        backend: Backend,
        prompts: list[list[int]],
        shared_tokens: int,
        *,
        adapters: Seq[str | None] | None = None,
    ) -> None:
        self._backend = backend
        self._num_shared = shared_tokens
        self._num_cached = backend.load_prefix("shared", prompts[0][:shared_tokens])
        self._ids = tuple(f"request_{index}" for index in range(len(prompts)))
        self._prompts = dict(zip(self._ids, map(tuple, prompts), strict=True))
        self._adapters = dict(zip(self._ids, adapters or [None] * len(prompts), strict=True))
        self._lengths = dict.fromkeys(self._ids, 0)
        self._num_starts = 0
        self._stopped: list[str] = []

    def prefill(self) -> None:
        """Starts all sequences again, each with another token in front, so that none is found in a prefix cache."""
        self._num_starts += 1
        salt, at = (self._num_starts,), self._num_shared
        self._start({name: (*p[:at], *salt, *p[at + 1 :]) for name, p in self._prompts.items()})

    def decode(self) -> None:
        """Computes one token of each sequence."""
        self._run(SchedulerOutput(num_scheduled_tokens=dict.fromkeys(self._ids, 1)))

    def replace_stopped(self) -> None:
        """Puts a sequence of the same length in the place of each that the model ended (not timed)."""
        if self._stopped:
            self._start({name: (self._prompts[name] * 9)[: self._lengths[name]] for name in self._stopped})

    def _start(self, prompts: dict[str, tuple[int, ...]]) -> None:
        cached = {"prefix_id": "shared", "num_cached_tokens": self._num_cached}
        new = tuple(
            Sequence(request_id=n, prompt_token_ids=p, adapter=self._adapters[n], **cached)  # type: ignore[arg-type]
            for n, p in prompts.items()
        )
        scheduled = {name: len(prompt) - self._num_cached for name, prompt in prompts.items()}
        self._lengths |= dict.fromkeys(prompts, self._num_cached)
        self._run(SchedulerOutput(release=tuple(prompts), new=new, num_scheduled_tokens=scheduled))

    def offload_and_restore(self) -> None:
        """Moves the KV of all sequences to host memory and back."""
        self._run(SchedulerOutput(offload=self._ids, restore=self._ids))

    def _run(self, scheduled: SchedulerOutput) -> None:
        output = self._backend.execute(scheduled)
        if output.failed:
            raise RuntimeError(f"the benchmark does not fit: {dict(output.failed)}")
        for name, count in scheduled.num_scheduled_tokens.items():
            self._lengths[name] += count
        self._stopped = list(output.finished)


class Transformers:
    """The same work by transformers with its DynamicCache; a bare forward loop, without the cost of ``generate``."""

    def __init__(self, model: Path, prompts: list[list[int]], dtype: str) -> None:
        from transformers import AutoModelForCausalLM

        self._model: Any = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype))
        self._prompts = torch.tensor(prompts)
        self._cache: Any = None
        self._last = self._prompts[:, -1:]

    @torch.inference_mode()
    def prefill(self) -> None:
        """Starts all sequences again, in one batch."""
        self._forward(self._prompts, None)

    @torch.inference_mode()
    def decode(self) -> None:
        """Computes one token of each sequence."""
        self._forward(self._last, self._cache)

    def generate(self, num_tokens: int, clock: Callable[[], float]) -> float:
        """Returns the seconds per token of the library's own loop, prefill taken off."""
        seconds: list[float] = []
        for length in (1, num_tokens + 1):
            _time(partial(self._generate, length), seconds, clock)
        return (seconds[1] - seconds[0]) / num_tokens

    def _generate(self, length: int) -> None:
        self._model.generate(
            self._prompts, max_new_tokens=length, min_new_tokens=length, do_sample=False, pad_token_id=0
        )

    def _forward(self, token_ids: torch.Tensor, cache: Any) -> None:
        output = self._model(token_ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        self._cache = output.past_key_values
        self._last = output.logits[:, -1].argmax(dim=-1, keepdim=True)


def measure(model: Path, num_seqs: int, setting: Setting) -> list[Row]:
    """Returns prefill, decode and offload times for one batch size; the sides take turns, round by round."""
    rng, clock = random.Random(setting.seed), setting.clock
    vocab_size = read_model_config(model).vocab_size
    shared = [rng.randrange(vocab_size) for _ in range(setting.shared_tokens)]
    prompts = [shared + [rng.randrange(vocab_size) for _ in range(setting.prompt_tokens)] for _ in range(num_seqs)]
    num_blocks = (num_seqs + 1) * ((len(prompts[0]) + setting.new_tokens) // 16 + 2)
    ours = Stepped(TorchBackend(model, num_kv_blocks=num_blocks, dtype=setting.dtype), prompts, len(shared))
    with patch.object(kernels, "_load", lambda _: None):
        plain = Stepped(TorchBackend(model, num_kv_blocks=num_blocks, dtype=setting.dtype), prompts, len(shared))
    theirs = Transformers(model, prompts, setting.dtype)
    sides: dict[str, Stepped | Transformers] = {"ours": ours, "without_kernels": plain, "transformers": theirs}
    backend = open_vllm(model, num_seqs, num_blocks, setting) if setting.with_vllm else None
    if backend is not None:
        sides["vllm"] = Stepped(backend, prompts, len(shared))
    times: dict[str, list[float]] = {}
    for index in range(setting.rounds + 1):  # the first round warms up
        kept = times if index else {}
        for name, side in rng.sample(sorted(sides.items()), len(sides)):
            _time(side.prefill, kept.setdefault(f"prefill {name}", []), clock)
            for _ in range(setting.new_tokens):
                if isinstance(side, Stepped):
                    side.replace_stopped()
                _time(side.decode, kept.setdefault(f"decode {name}", []), clock)
        kept.setdefault("generate", []).append(theirs.generate(setting.new_tokens, clock))
        _time(ours.offload_and_restore, kept.setdefault("offload", []), clock)
    if backend is not None:
        backend.close()
    took = {name: Times.of(values) for name, values in times.items()}
    prefill, decode = ({side: took[f"{what} {side}"] for side in sides} for what in ("prefill", "decode"))
    return [
        Row(what="prefill", num_seqs=num_seqs, **prefill),
        Row(what="decode / forward", num_seqs=num_seqs, **decode),
        Row(what="decode / generate", num_seqs=num_seqs, ours=took["decode ours"], transformers=took["generate"]),
        Row(what="offload and restore", num_seqs=num_seqs, ours=took["offload"]),
    ]


def open_vllm(model: Path, num_seqs: int, num_blocks: int, setting: Setting) -> Backend:
    """Returns vLLM with the same model, which takes the whole batch in one step as our engine does."""
    from llm_planner.backends.vllm.backend import open_backend
    from llm_planner.backends.vllm.engine import EngineSettings

    return open_backend(
        EngineSettings(
            model_dir=model,
            dtype=setting.dtype,
            num_kv_blocks=2 * num_blocks,
            num_threads=setting.threads,
            max_num_batched_tokens=num_seqs * (setting.shared_tokens + setting.prompt_tokens) + 64,
            max_live=num_seqs + 2,
        )
    )


def _time(action: Callable[[], None], into: list[float], clock: Callable[[], float]) -> None:
    start_s = clock()
    action()
    into.append(clock() - start_s)


def main(  # noqa: PLR0913, PLR0917 (one argument per option)
    model: Annotated[Path, typer.Option(help="Hugging Face checkpoint directory.")],
    batch: Annotated[list[int], typer.Option(help="Batch sizes.")] = [1, 4, 16],  # noqa: B006 (typer copies it)
    prompt_tokens: Annotated[int, typer.Option(min=2, help="Tokens of each prompt behind the shared ones.")] = 256,
    shared_tokens: Annotated[int, typer.Option(min=0, help="Tokens with which all prompts begin.")] = 0,
    new_tokens: Annotated[int, typer.Option(min=1)] = 64,
    rounds: Annotated[int, typer.Option(min=2)] = 7,
    threads: Annotated[int, typer.Option(min=1)] = 1,
    seed: int = 0,
    cpu_time: Annotated[bool, typer.Option(help="Count processor time: less disturbed by other programs.")] = False,
    dtype: Annotated[str, typer.Option(help="What all sides compute in: float32 or bfloat16.")] = "float32",
    with_vllm: Annotated[bool, typer.Option("--vllm", help="Time vLLM, too (in .venv-vllm).")] = False,
    json_file: Annotated[Path | None, typer.Option(help="Also write the figures here.")] = None,
) -> None:
    """Times our engine, transformers and vLLM on the CPU, all in one data type."""
    torch.set_num_threads(threads)
    setting = Setting(
        prompt_tokens=prompt_tokens,
        shared_tokens=shared_tokens,
        new_tokens=new_tokens,
        rounds=rounds,
        threads=threads,
        seed=seed,
        cpu_time=cpu_time,
        dtype=dtype,
        with_vllm=with_vllm,
    )
    rows = [row for size in batch for row in measure(model, size, setting)]
    table = Table(
        f"{'CPU ' * cpu_time}ms: median (p10)",
        "sequences",
        "ours",
        *("without kernels", "ratio"),
        *("transformers", "ratio"),
        *(("vLLM", "ratio") if with_vllm else ()),
        title=f"{model.name}, {threads} threads",
    )
    for row in rows:
        peers = (row.without_kernels, row.transformers, row.vllm)[: 2 + with_vllm]
        ratios = [(times, row.ratio(times)) for times in peers]
        shown = (
            text for times, ratio in ratios for text in (str(times or ""), "" if ratio is None else f"{ratio:.2f}")
        )
        table.add_row(row.what, str(row.num_seqs), str(row.ours), *shown)
    console = Console()
    if not console.is_terminal:
        console.width = 140  # a file holds the whole table
    console.print(table)
    if json_file:
        machine = {"model": model.name, "torch": torch.__version__, "processor": platform.processor()}
        figures = machine | asdict(setting) | {"rows": [asdict(row) for row in rows]}
        json_file.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


command = typer.Typer(add_completion=False)
command.command()(main)

if __name__ == "__main__":
    command()
