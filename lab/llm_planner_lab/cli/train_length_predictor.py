# SPDX-License-Identifier: Apache-2.0
"""``llm-planner train-length-predictor``: makes what predicts how long a model's responses will be."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from llm_planner.cli.options import JsonOption, SeedOption
from llm_planner.cli.output import console, error_console, print_json
from llm_planner_lab.cli.train_planner import Float32Option

_BUNDLED = "planner-small"


def train_length_predictor(
    model: Annotated[
        str, typer.Option("--model", "-m", help="Whose responses: a checkpoint or bundled model.")
    ] = _BUNDLED,
    prompts: Annotated[
        Path | None, typer.Option(help="One JSON object a line: robot, instruction, scene. Default: generated ones.")
    ] = None,
    is_inventory: Annotated[
        bool, typer.Option("--inventories", help="Generate long lists, for a model of train-planner --inventories.")
    ] = False,
    robot_models: Annotated[
        list[Path] | None, typer.Option(help="Directory with robot models that the prompts name; may be repeated.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Directory of the predictor. Default: MODEL-length.")] = None,
    work: Annotated[
        Path | None,
        typer.Option(help="Keeps lengths and checkpoints; an interrupted run goes on. Default: OUTPUT.run."),
    ] = None,
    start_from: Annotated[
        Path | None, typer.Option(help="Checkpoint whose first layers to start as, e.g. the model. Default: nothing.")
    ] = None,
    layers: Annotated[int, typer.Option(min=1, max=64, help="Decoder layers.")] = 2,
    buckets: Annotated[int, typer.Option(min=2, max=8192, help="Classes that a length can fall into.")] = 512,
    max_tokens: Annotated[int, typer.Option(min=2, max=32768, help="Longest response.")] = 512,
    max_input: Annotated[
        int, typer.Option(min=32, help="Longest input in tokens; longer prompts are compressed.")
    ] = 256,
    steps: Annotated[int, typer.Option(min=1, help="Of training; repeatable to the bit.")] = 3000,
    seconds: Annotated[float, typer.Option(min=0.0, help="Wall-clock limit of training instead of steps.")] = 0.0,
    learning_rate: Annotated[float, typer.Option(min=1e-6, max=0.1, help="Peak learning rate.")] = 1e-3,
    train_prompts: Annotated[int, typer.Option(min=30, help="Generated prompts to learn from.")] = 21_000,
    held_out_prompts: Annotated[int, typer.Option(min=10, help="As many for calibration, and for the figures.")] = 2500,
    baselines: Annotated[bool, typer.Option(help="Also train what it is compared with.")] = True,
    threads: Annotated[int, typer.Option(min=1, max=1024, help="CPU threads.")] = 1,
    float32: Float32Option = False,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Train a predictor of response lengths on what a model really answers."""
    import torch

    from llm_planner.checkpoints import resolve_model
    from llm_planner_lab.training.length.figures import TITLES
    from llm_planner_lab.training.length.network import Start
    from llm_planner_lab.training.length.run import LengthOptions, LengthRun
    from llm_planner_lab.training.length.trainer import Recipe

    target = resolve_model(model)
    directory = output or target.with_name(f"{target.name}-length")
    source = resolve_model(str(start_from)) if start_from else None
    options = LengthOptions(
        model=target,
        prompts=prompts,
        is_inventory=is_inventory,
        robot_models=tuple(robot_models or ()),
        output=directory,
        work=work or directory.with_name(f"{directory.name}.run"),
        buckets=buckets,
        max_tokens=max_tokens,
        recipe=Recipe(
            start=Start(target, source, layers, max_input),
            steps=steps,
            seconds=seconds,
            learning_rate=learning_rate,
            seed=seed,
            dtype=torch.float32 if float32 else torch.bfloat16,
        ),
        num_train=train_prompts,
        num_held_out=held_out_prompts,
        baselines=baselines,
        threads=threads,
    )
    figures = LengthRun(options, error_console).make()
    if as_json:
        print_json(figures.to_json())
        return
    table = Table("predictor", "MAE", "RMSE", "R2")
    for name, errors in figures.rows.items():
        r2 = "-" if errors.r2 is None else f"{errors.r2:.3f}"
        table.add_row(TITLES[name], f"{errors.mae:.2f}", f"{errors.rmse:.2f}", r2)
    console.print(table)
    served = figures.served
    console.print(f"90 % intervals hold {100 * served.coverage[0.9]:.1f} % of {figures.num_test} held-out lengths")
    console.print(f"written: {directory}")
