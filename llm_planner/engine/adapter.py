# SPDX-License-Identifier: Apache-2.0
"""LoRA adapters (Hu et al. 2021): low-rank products that are added to those of the base model, row by row of a step.

Read from the directories that PEFT writes. What would change the computation and is not implemented here is refused.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.engine.checkpoint import check_weights, expected_shapes, open_weights, products
from llm_planner.engine.hardware import upload
from llm_planner.engine.model_config import ModelConfig, read_json

CONFIG_NAME, WEIGHTS_NAME = "adapter_config.json", "adapter_model.safetensors"
_MOST_RANK, _MOST_ALPHA = 4096, 1e6
# Values of other fields that leave the computation as implemented here; PEFT's initial weights of other kinds change
# the base model, too.
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "task_type": (None, "CAUSAL_LM"),
    "bias": ("none",),
    "init_lora_weights": (True, False, "gaussian"),
}
_WITHOUT_EFFECT = frozenset(
    (
        "auto_mapping",
        "base_model_name_or_path",
        "inference_mode",
        "lora_dropout",  # of training
        "megatron_core",
        "peft_version",
        "qalora_group_size",  # of use_qalora
        "revision",
    )
)
_READ = frozenset(("r", "lora_alpha", "use_rslora", "target_modules"))


@dataclass(frozen=True, slots=True)
class AdapterConfig:
    """What ``adapter_config.json`` says.

    Attributes:
        rank: ``r``.
        scale: Factor of the low-rank products: alpha / r, or alpha / sqrt(r) of rank-stabilized LoRA.
        targets: Names of linear layers, or their last parts: ``q_proj``, ``self_attn.q_proj``.
    """

    rank: int
    scale: float
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LowRank:
    """``x A B``, for one product of the base model or several that are fused.

    Attributes:
        down: A, (in_size, rank); of fused products, theirs next to each other.
        up: B times the scale, (rank, out_size); of fused products, block-diagonal.
    """

    down: torch.Tensor
    up: torch.Tensor


@dataclass(frozen=True, slots=True)
class Adapter:
    """One adapter on one device.

    Attributes:
        layers: Per decoder layer, what is added to each of the products of ``checkpoint.products``; None for nothing.
    """

    layers: tuple[Mapping[str, LowRank | None], ...]


@dataclass(frozen=True, slots=True)
class AdaptedRows:
    """Rows of a step that belong to one adapter.

    Attributes:
        rows: Where they are: a slice if they are neighbours, else indices.
    """

    rows: slice | torch.Tensor
    adapter: Adapter


def add(adapted: Sequence[AdaptedRows], layer: int, name: str, x: torch.Tensor, product: torch.Tensor) -> torch.Tensor:
    """Returns a product of the base model, to some rows of which the adapters have added theirs in place.

    Args:
        adapted: These rows.
        layer: Index of the decoder layer.
        name: Of the product.
        x: (num_rows, in_size)
        product: (num_rows, out_size)
    """
    for group in adapted:
        if (low_rank := group.adapter.layers[layer][name]) is None:
            continue
        reduced = x[group.rows].mm(low_rank.down)
        if isinstance(group.rows, slice):
            product[group.rows].addmm_(reduced, low_rank.up)
        else:
            product.index_add_(0, group.rows, reduced.mm(low_rank.up))
    return product


def group_rows(adapters: Sequence[Adapter | None], device: torch.device) -> list[AdaptedRows]:
    """Returns the rows of each adapter; ``adapters`` has one entry per row, None for the base model alone."""
    places: dict[int, list[int]] = {}
    for row, adapter in enumerate(adapters):
        if adapter is not None:
            places.setdefault(id(adapter), []).append(row)
    groups = []
    for rows in places.values():
        first, last = rows[0], rows[-1]
        adapter = adapters[first]
        assert adapter is not None
        are_neighbours = last - first + 1 == len(rows)
        groups.append(AdaptedRows(slice(first, last + 1) if are_neighbours else upload(device, rows)[0], adapter))
    return groups


def read_adapter_config(directory: Path) -> AdapterConfig:
    """Returns the configuration of an adapter.

    Raises:
        PlannerError: MODEL_NOT_FOUND without ``adapter_config.json``, CHECKPOINT_INVALID if it is broken,
            UNSUPPORTED_ARCHITECTURE if the adapter needs anything that is not implemented.
    """
    path = directory / CONFIG_NAME
    if not path.is_file():
        message = f"adapter {directory} has no {CONFIG_NAME}; name the directory of a LoRA adapter as PEFT writes it"
        raise PlannerError(ErrorCode.MODEL_NOT_FOUND, message)
    values = {"peft_type": None, **read_json(path)}
    refused = [f"{name} = {value!r}"[:100] for name, value in values.items() if not _is_neutral(name, value)]
    if refused:
        raise PlannerError(ErrorCode.UNSUPPORTED_ARCHITECTURE, f"{path}: {'; '.join(refused)} is not supported")
    rank, alpha, is_stabilized = values.get("r"), values.get("lora_alpha"), values.get("use_rslora", False)
    targets = values.get("target_modules")
    if isinstance(rank, bool) or not isinstance(rank, int) or not 1 <= rank <= _MOST_RANK:
        raise _invalid(path, f"r must be an integer from 1 to {_MOST_RANK}")
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not -_MOST_ALPHA <= alpha <= _MOST_ALPHA:
        raise _invalid(path, f"lora_alpha must be a number from {-_MOST_ALPHA:g} to {_MOST_ALPHA:g}")
    if not isinstance(is_stabilized, bool):
        raise _invalid(path, "use_rslora must be true or false")
    if not isinstance(targets, list) or not targets or not all(isinstance(t, str) and t for t in targets):
        raise _invalid(path, "target_modules must be a list of names")
    return AdapterConfig(rank, alpha / (math.sqrt(rank) if is_stabilized else rank), tuple(targets))


def load_adapter(directory: Path, config: ModelConfig, dtype: torch.dtype, device: torch.device) -> Adapter:
    """Returns an adapter of a model of this configuration; everything is checked before a weight is read.

    Raises:
        PlannerError: As ``read_adapter_config``; MODEL_NOT_FOUND without ``adapter_model.safetensors``,
            CHECKPOINT_INVALID if it is corrupt or belongs to another model.
    """
    settings, path = read_adapter_config(directory), directory / WEIGHTS_NAME
    if not path.is_file():
        message = f"adapter {directory} has no {WEIGHTS_NAME}; save it with safe_serialization"
        raise PlannerError(ErrorCode.MODEL_NOT_FOUND, message)
    shapes = expected_shapes(config)
    fused = products(config)
    modules = [f"model.layers.{i}.{m}" for i in range(config.num_layers) for ms in fused.values() for m in ms]
    expected: dict[str, tuple[int, ...]] = {}
    for module in _adapted(settings, modules, directory):
        out_size, in_size = shapes[f"{module}.weight"]
        expected |= zip(weight_names(module), ((settings.rank, in_size), (out_size, settings.rank)), strict=True)
    opened = open_weights(path)
    check_weights(path, {name: opened.get_slice(name) for name in opened.keys()}, expected)  # noqa: SIM118

    def low_rank(layer: int, modules: Sequence[str]) -> LowRank | None:
        """Returns the adapter's part in fused products; None if it has none."""
        downs, ups = [], []
        for module in (f"model.layers.{layer}.{module}" for module in modules):
            down_name, up_name = weight_names(module)
            if down_name in expected:
                downs.append(opened.get_tensor(down_name).float().t())
                ups.append(opened.get_tensor(up_name).float().t() * settings.scale)
            else:
                ups.append(torch.zeros(0, shapes[f"{module}.weight"][0]))
        if not downs:
            return None
        parts = torch.cat(downs, dim=1), torch.block_diag(*ups)
        return LowRank(*(part.to(device=device, dtype=dtype).contiguous() for part in parts))

    layers = ({name: low_rank(index, names) for name, names in fused.items()} for index in range(config.num_layers))
    return Adapter(tuple(layers))


def _adapted(settings: AdapterConfig, products: Sequence[str], directory: Path) -> list[str]:
    """Returns which products an adapter adds to."""
    for target in settings.targets:
        if not any(_is_target(product, target) for product in products):
            message = (
                f"{directory / CONFIG_NAME}: target_modules names {target[:100]!r}, which is no linear layer inside "
                "the decoder layers of the model (or one of an expert)"
            )
            raise PlannerError(ErrorCode.UNSUPPORTED_ARCHITECTURE, message)
    return [product for product in products if any(_is_target(product, target) for target in settings.targets)]


def _is_target(product: str, target: str) -> bool:
    return f".{product}".endswith(f".{target}")


def _is_neutral(name: str, value: Any) -> bool:
    if name in _NEUTRAL:
        return value in _NEUTRAL[name]
    return name in _READ | _WITHOUT_EFFECT or value is None or value is False or value in ("", [], {})


def weight_names(module: str) -> tuple[str, str]:
    """Returns what PEFT calls the two matrices, A and B, of a linear layer of the model."""
    return f"base_model.model.{module}.lora_A.weight", f"base_model.model.{module}.lora_B.weight"


def _invalid(path: Path, what: str) -> PlannerError:
    return PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{path}: {what}")
