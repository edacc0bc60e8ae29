# SPDX-License-Identifier: Apache-2.0
"""``python -m llm_planner_lab.training.packed MODEL OUTPUT``: a model in a quarter of the space of float32.

Matrices become int8, each row with a scale of its own; what unpacks them gives bfloat16. Models of the laboratory are
kept like this, so that a benchmark runs on the very weights that were measured.
"""

import shutil
from pathlib import Path
from typing import Annotated

import torch
import typer
from safetensors.torch import load_file, save_file
from torch import Tensor

from llm_planner.core.resources import cache_dir
from llm_planner.engine.fingerprint import weights_fingerprint

PACKED = "packed.safetensors"
_WEIGHTS = "model.safetensors"
_SCALE = ".scale"
_LEVELS = 127


def pack(model: Path, output: Path) -> None:
    """Writes a model directory with packed weights; all other files are copied."""
    packed: dict[str, Tensor] = {}
    for name, weight in load_file(model / _WEIGHTS).items():
        if weight.dim() < 2:
            packed[name] = weight.to(torch.bfloat16)
            continue
        scale = weight.float().abs().amax(-1, keepdim=True).clamp(min=1e-12) / _LEVELS
        packed[name] = (weight.float() / scale).round().to(torch.int8)
        packed[name + _SCALE] = scale
    _copy_others(model, output, _WEIGHTS)
    save_file(packed, output / PACKED)


def unpacked(model: Path) -> Path:
    """Returns the directory of a model that can be loaded: a packed one is unpacked into the user's cache, once.

    What stands beside it under the name of its length predictor (``NAME-length``) comes along.

    Raises:
        OSError: If there is no place to keep it; set HOME or XDG_CACHE_HOME.
    """
    if not (model / PACKED).is_file():
        return model
    cache = cache_dir()
    if cache is None:
        raise OSError(f"no place to unpack {model}; set HOME or XDG_CACHE_HOME")
    place = cache / "unpacked" / weights_fingerprint(model)[:16]
    for source in (model, model.with_name(f"{model.name}-length")):
        if source.is_dir() and not (place / source.name / _WEIGHTS).is_file():
            _unpack(source, place / source.name)
    return place / model.name


def _unpack(model: Path, output: Path) -> None:
    if not (model / PACKED).is_file():
        shutil.copytree(model, output, dirs_exist_ok=True)
        return
    tensors = load_file(model / PACKED)
    weights = {
        name: (tensor.float() * tensors[name + _SCALE]).to(torch.bfloat16) if name + _SCALE in tensors else tensor
        for name, tensor in tensors.items()
        if not name.endswith(_SCALE)
    }
    _copy_others(model, output, PACKED)
    partial = output / f"{_WEIGHTS}.partial"
    save_file(weights, partial, metadata={"format": "pt"})
    partial.replace(output / _WEIGHTS)


def _copy_others(model: Path, output: Path, weights: str) -> None:
    output.mkdir(parents=True, exist_ok=True)
    for path in model.iterdir():
        if path.is_file() and path.name != weights and path.suffix in (".json", ".safetensors"):
            shutil.copyfile(path, output / path.name)


def main(
    model: Annotated[Path, typer.Argument(help="Model directory.")],
    output: Annotated[Path, typer.Argument(help="Directory of the packed model.")],
) -> None:
    """Packs a model's weights to int8."""
    pack(model, output)
    typer.echo(f"written: {output}")


if __name__ == "__main__":
    typer.run(main)
