# SPDX-License-Identifier: Apache-2.0
"""``llm-planner train-planner``: makes a planner model from nothing, or goes on with one."""

from pathlib import Path
from typing import Annotated

import typer

from llm_planner.cli.options import SeedOption

Float32Option = Annotated[
    bool, typer.Option("--float32/--bfloat16", help="What to compute in: see which makes more steps a minute.")
]
_LONGEST_SCENE, _LONGEST_INVENTORY = 200, 560  # things
_WARM_PROGRESS = 0.35  # a model that goes on has left the easy tasks behind


def train_planner(
    output: Annotated[Path, typer.Argument(help="Directory of the run; the finished model is written there.")],
    seconds: Annotated[float, typer.Option(min=1.0, help="Training time. An interrupted run goes on.")] = 3000.0,
    steps: Annotated[int, typer.Option(min=0, help="Stop after this many steps instead: repeatable to the bit.")] = 0,
    start_from: Annotated[Path | None, typer.Option(help="A model of this recipe to continue with.")] = None,
    learning_rate: Annotated[float, typer.Option(min=1e-6, max=0.1, help="Peak learning rate.")] = 1e-3,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes, of one thread each.")] = 2,
    float32: Float32Option = False,
    dropout: Annotated[
        float, typer.Option(min=0.0, max=0.9, help="Share that each step leaves out, against learning by heart.")
    ] = 0.0,
    is_inventory: Annotated[
        bool, typer.Option("--inventories", help="Train on long lists alone, for llm-planner bench inventories.")
    ] = False,
    seed: SeedOption = 0,
    export_to: Annotated[
        Path | None, typer.Option("--export", help="Copy the finished model there, without the run's checkpoint.")
    ] = None,
) -> None:
    """Train the planner model on generated tasks."""
    import torch

    from llm_planner.checkpoints import resolve_model
    from llm_planner_lab.training.run import export
    from llm_planner_lab.training.run import train_planner as train
    from llm_planner_lab.training.trainer import TrainOptions

    train(
        TrainOptions(
            output=output,
            seconds=seconds,
            max_steps=steps,
            start_from=resolve_model(str(start_from)) if start_from else None,
            first_progress=_WARM_PROGRESS if start_from and not is_inventory else 0.0,
            learning_rate=learning_rate,
            workers=workers,
            dtype=torch.float32 if float32 else torch.bfloat16,
            dropout=dropout,
            seed=seed,
            is_inventory=is_inventory,
            max_objects=_LONGEST_INVENTORY if is_inventory else _LONGEST_SCENE,
        )
    )
    if export_to is not None:
        export(output, export_to)
    model = export_to or output
    typer.echo(f"written: {model}  (use it with --model {model})")
