# SPDX-License-Identifier: Apache-2.0
"""What LoRA adapters cost a decode step of our engine: ``python -m llm_planner_lab.bench.adapters --model DIR``."""

import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table
from safetensors.torch import save_file

from llm_planner.engine.adapter import CONFIG_NAME, WEIGHTS_NAME, weight_names
from llm_planner.engine.backend import TorchBackend
from llm_planner.engine.checkpoint import expected_shapes, products
from llm_planner.engine.model_config import read_model_config
from llm_planner_lab.bench.engines import Stepped, Times

_PROMPT_TOKENS = 150


def write_adapter(model: Path, directory: Path, rank: int, seed: int) -> str:
    """Writes an adapter with small random weights for every linear layer of a model; returns its directory."""
    model_config, generator = read_model_config(model), torch.Generator().manual_seed(seed)
    shapes = expected_shapes(model_config)
    adapted = [layer for layers in products(model_config).values() for layer in layers]
    weights = {}
    for name, shape in shapes.items():
        module = name.removesuffix(".weight")
        if module.endswith(tuple(adapted)):
            for part, size in zip(weight_names(module), ((rank, shape[1]), (shape[0], rank)), strict=True):
                weights[part] = torch.randn(size, generator=generator) * 0.01
    directory.mkdir(parents=True)
    save_file(weights, directory / WEIGHTS_NAME)
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "bias": "none", "target_modules": adapted}
    (directory / CONFIG_NAME).write_text(json.dumps(config), encoding="utf-8")
    return str(directory)


def measure(
    model: Path, num_seqs: int, adapters: tuple[str, str], *, num_steps: int, rounds: int, clock: Callable[[], float]
) -> dict[str, Times]:
    """Returns how long a decode step takes, by who has which adapter; the sides take turns, step by step."""
    rng, vocab_size = random.Random(0), read_model_config(model).vocab_size
    prompts = [[rng.randrange(vocab_size) for _ in range(_PROMPT_TOKENS)] for _ in range(num_seqs)]
    num_blocks = num_seqs * ((_PROMPT_TOKENS + num_steps) // 16 + 2)
    x, y = adapters
    mixes: dict[str, list[str | None]] = {"loaded, no request has one": [None], "all requests the same": [x]}
    if num_seqs > 1:
        mixes |= {"every other request one, the rest none": [x, None], "two adapters": [x, y]}
    sides = {"none loaded": Stepped(TorchBackend(model, num_kv_blocks=num_blocks), prompts, 0)} | {
        name: Stepped(
            TorchBackend(model, num_kv_blocks=num_blocks, adapters=adapters),
            prompts,
            0,
            adapters=[mix[i % len(mix)] for i in range(num_seqs)],
        )
        for name, mix in mixes.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for index in range(rounds + 1):  # the first round warms up
        for side in sides.values():
            side.prefill()
        for step in range(num_steps):
            for name, side in rng.sample(sorted(sides.items()), len(sides)):
                side.replace_stopped()
                start_s = clock()
                side.decode()
                if index and step:
                    seconds[name].append(clock() - start_s)
    return {name: Times.of(values) for name, values in seconds.items()}


def main(
    model: Annotated[Path, typer.Option(help="Hugging Face checkpoint directory.")],
    batch: Annotated[list[int], typer.Option(help="Batch sizes.")] = [1, 4],  # noqa: B006 (typer copies it)
    rank: Annotated[int, typer.Option(min=1)] = 16,
    new_tokens: Annotated[int, typer.Option(min=3, help="Decode steps per round.")] = 40,
    rounds: Annotated[int, typer.Option(min=2)] = 5,
    cpu_time: Annotated[bool, typer.Option(help="Count processor time: less disturbed by other programs.")] = False,
) -> None:
    """Times decode steps with adapters for every linear layer, on one thread."""
    torch.set_num_threads(1)
    clock = time.process_time if cpu_time else time.perf_counter
    table = Table("requests", "adapters", f"{'CPU ' * cpu_time}ms: median (p10)", "ratio", title=f"rank {rank}")
    with tempfile.TemporaryDirectory() as directory:
        adapters = (
            write_adapter(model, Path(directory) / "x", rank, 1),
            write_adapter(model, Path(directory) / "y", rank, 2),
        )
        for size in batch:
            times = measure(model, size, adapters, num_steps=new_tokens, rounds=rounds, clock=clock)
            base = next(iter(times.values())).p50_ms
            for name, took in times.items():
                table.add_row(str(size), name, str(took), f"{took.p50_ms / base:.2f}")
    Console().print(table)


command = typer.Typer(add_completion=False)
command.command()(main)

if __name__ == "__main__":
    command()
