# SPDX-License-Identifier: Apache-2.0
"""``python -m llm_planner_lab.training.average A B --output DIR``: a model whose weights are the mean of two others'.

Of the weights that a run began with and ended at, the mean may understand unseen authors better than either
(docs/training.md has what it brought). Wortsman et al., "Robust fine-tuning of zero-shot models" (CVPR 2022), Eq. (1).
"""

import shutil
from pathlib import Path
from typing import Annotated

import torch
import typer

from llm_planner_lab.training.network import load_network, save_network

_BESIDE_WEIGHTS = ("tokenizer.json", "tokenizer_config.json", "planner.json")


def average(first: Path, second: Path, output: Path, share: float = 0.5) -> None:
    """Writes the model with ``share`` of the second's weights and the rest of the first's; all else is the first's.

    Raises:
        ValueError: If the two are not of one shape, or read different tokens.
    """
    one, other = load_network(first), load_network(second)
    weights = one.state_dict()
    others = other.state_dict()
    if any(name not in others or others[name].shape != weight.shape for name, weight in weights.items()):
        raise ValueError(f"{first} and {second} are not of one shape")
    if (first / "tokenizer.json").read_bytes() != (second / "tokenizer.json").read_bytes():
        raise ValueError(f"{first} and {second} have different tokenizers: their weights mean different words")
    one.load_state_dict({name: torch.lerp(weight, others[name], share) for name, weight in weights.items()})
    output.mkdir(parents=True, exist_ok=True)
    save_network(one, output)
    for name in _BESIDE_WEIGHTS:
        shutil.copyfile(first / name, output / name)


def main(
    first: Annotated[Path, typer.Argument(help="Model directory, e.g. what a run began with.")],
    second: Annotated[Path, typer.Argument(help="Model directory of the same shape, e.g. what it ended at.")],
    output: Annotated[Path, typer.Option(help="Directory of the mean.")],
    share: Annotated[float, typer.Option(min=0.0, max=1.0, help="Of the second.")] = 0.5,
) -> None:
    """Averages two planner models of one run."""
    try:
        average(first, second, output, share)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error
    typer.echo(f"written: {output}  (judge it with `llm-planner evaluate --model {output}`)")


if __name__ == "__main__":
    typer.run(main)
