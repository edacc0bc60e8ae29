# SPDX-License-Identifier: Apache-2.0
"""Runs a training from start to end: worker processes, a progress bar, the finished model directory."""

import json
import tempfile
from pathlib import Path
from typing import Any

import torch.distributed as dist
from rich.console import Console
from torch.multiprocessing.spawn import spawn

from llm_planner_lab.progress import progress_bar
from llm_planner_lab.tasks.frames import ROBOTS
from llm_planner_lab.training.trainer import Report, Trainer, TrainOptions
from llm_planner_lab.training.verbs import taught_verbs


def train_planner(options: TrainOptions) -> None:
    """Trains a planner model and writes it to ``options.output``, ready for ``model:=PATH``.

    An interrupted run goes on from its checkpoint when it is started again with the same options.
    """
    options.output.mkdir(parents=True, exist_ok=True)
    if options.workers == 1:
        _train(options, rank=0)
    else:
        with tempfile.TemporaryDirectory() as meeting_place:
            spawn(_work, args=(options, f"file://{meeting_place}/workers"), nprocs=options.workers)


def export(run: Path, directory: Path) -> None:
    """Copies what a model directory needs out of the directory of a run, without its checkpoint."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "planner.json"):
        (directory / name).write_bytes((run / name).read_bytes())


def _work(rank: int, options: TrainOptions, meeting_place: str) -> None:
    dist.init_process_group("gloo", init_method=meeting_place, rank=rank, world_size=options.workers)
    try:
        _train(options, rank)
    finally:
        dist.destroy_process_group()


def _train(options: TrainOptions, rank: int) -> None:
    console = Console()
    if rank == 0:
        console.print("reading the corpus, and measuring what is known of it if the run goes on: up to some minutes")
    trainer = Trainer(options, rank)
    if rank > 0:
        trainer.run(lambda _: None)
        return
    with progress_bar("training", console) as on_progress:

        def observe(report: Report) -> None:
            on_progress(f"task loss {report.task_loss:.3f}", report.progress)
            if report.exact_match is not None or not console.is_terminal:  # a log has no bar
                console.print(_line(report), soft_wrap=True)

        trainer.run(observe)
    own: dict[str, Any] = {"prompt_style": "compact", "robot_models": list(ROBOTS)}
    if trainer.trained_frames:
        own["verbs"] = taught_verbs(trainer.trained_frames)
    (options.output / "planner.json").write_text(json.dumps(own, indent=1) + "\n")


def _line(report: Report) -> str:
    line = (
        f"step {report.step}  {report.progress:.0%}  {report.num_tokens / 1e6:.1f} M tokens  "
        f"task loss {report.task_loss:.3f}  induction loss {report.induction_loss:.3f}"
    )
    if report.exact_match is None:
        return line
    return f"{line}  held-out exact match {report.exact_match:.3f}  other authors {report.spoken_match:.3f}"
