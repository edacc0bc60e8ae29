# SPDX-License-Identifier: Apache-2.0
"""``python -m llm_planner_lab.training.deepen MODEL --layers N --output DIR``: the same model with more layers.

A new layer is a copy of the one below it that adds nothing yet: what leaves its attention and its MLP is multiplied by
zero. So the deeper model writes what the old one writes, and a run that goes on with it (``train-planner
--start-from``) begins where the old one ended. Wu et al., "LLaMA Pro: Progressive LLaMA with Block Expansion" (ACL
2024), section 3.2.

Deviation: All layers are trained afterwards, not the new ones alone, for the tasks are the same as before.
"""

import copy
import shutil
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import nn
from transformers import LlamaForCausalLM

from llm_planner_lab.training.average import BESIDE_WEIGHTS
from llm_planner_lab.training.network import load_network, save_network


@torch.no_grad()
def deepen(network: LlamaForCausalLM, num_layers: int) -> LlamaForCausalLM:
    """Returns a network of ``num_layers`` layers that computes the same; the new ones are spread evenly.

    Raises:
        ValueError: If it has as many layers already, or less than half as many.
    """
    config = copy.deepcopy(network.config)
    old, new = config.num_hidden_layers, num_layers - config.num_hidden_layers
    if not 0 < new <= old:
        raise ValueError(f"a model of {old} layers gets {old + 1} to {2 * old}, not {num_layers}")
    config.num_hidden_layers = num_layers
    layers: list[nn.Module] = []
    for index, layer in enumerate(network.model.layers):
        layers.append(layer)
        if (index + 1) * new // old > index * new // old:
            layers.append(_silent_copy(layer))
    deeper = LlamaForCausalLM(config)
    deeper.model.embed_tokens.load_state_dict(network.model.embed_tokens.state_dict())
    deeper.model.norm.load_state_dict(network.model.norm.state_dict())
    for target, source in zip(deeper.model.layers, layers, strict=True):
        target.load_state_dict(source.state_dict())
    return deeper


def _silent_copy(layer: nn.Module) -> nn.Module:
    silent = copy.deepcopy(layer)
    for name, parameter in silent.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            nn.init.zeros_(parameter)
    return silent


def main(
    model: Annotated[Path, typer.Argument(help="Directory of a trained model.")],
    layers: Annotated[int, typer.Option(help="How many layers the deeper one has.")],
    output: Annotated[Path, typer.Option(help="Directory of the deeper one.")],
) -> None:
    """Adds layers to a planner model without changing what it writes."""
    try:
        deeper = deepen(load_network(model), layers)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error
    output.mkdir(parents=True, exist_ok=True)
    save_network(deeper, output)
    for name in BESIDE_WEIGHTS:
        shutil.copyfile(model / name, output / name)
    typer.echo(f"written: {output}  (train it with `llm-planner train-planner DIR --start-from {output}`)")


if __name__ == "__main__":
    typer.run(main)
