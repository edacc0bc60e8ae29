# SPDX-License-Identifier: Apache-2.0
"""``python -m llm_planner_lab.training.average A B ... --output DIR``: the mean of the weights of several models.

Of the weights that a run began with and those that runs from there ended at, the mean may understand unseen authors
better than any of them (docs/training.md has what it brought). Wortsman et al., "Model soups: averaging weights of
multiple fine-tuned models improves accuracy without increasing inference time" (ICML 2022), the uniform soup.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from llm_planner_lab.training.network import load_network, save_network

BESIDE_WEIGHTS = ("tokenizer.json", "tokenizer_config.json", "planner.json")


def average(models: Sequence[Path], output: Path) -> None:
    """Writes the model with the mean of all weights; all else is the first one's.

    Raises:
        ValueError: If they are not of one shape, or read different tokens.
    """
    first, *others = models
    mean = load_network(first)
    sums = {name: weight.clone() for name, weight in mean.state_dict().items()}
    for other in others:
        weights = load_network(other).state_dict()
        if any(name not in weights or weights[name].shape != weight.shape for name, weight in sums.items()):
            raise ValueError(f"{first} and {other} are not of one shape")
        if (first / "tokenizer.json").read_bytes() != (other / "tokenizer.json").read_bytes():
            raise ValueError(f"{first} and {other} have different tokenizers: their weights mean different words")
        for name in sums:
            sums[name] += weights[name]
    mean.load_state_dict({name: weight / len(models) for name, weight in sums.items()})
    output.mkdir(parents=True, exist_ok=True)
    save_network(mean, output)
    for name in BESIDE_WEIGHTS:
        shutil.copyfile(first / name, output / name)


def main(
    models: Annotated[
        list[Path], typer.Argument(help="Model directories of one shape, e.g. what runs began with and ended at.")
    ],
    output: Annotated[Path, typer.Option(help="Directory of the mean.")],
) -> None:
    """Averages planner models that began with the same weights."""
    try:
        average(models, output)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error
    typer.echo(f"written: {output}  (judge it with `llm-planner evaluate --model {output}`)")


if __name__ == "__main__":
    typer.run(main)
