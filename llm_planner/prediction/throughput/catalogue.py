# SPDX-License-Identifier: Apache-2.0
"""What is published about devices and models, from which a throughput is roughly expected before any is measured."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.resources import share_dir
from llm_planner.documents import DocumentError, read_yaml, validated
from llm_planner.prediction.throughput.table import Combination
from llm_planner.robots.record import Record, require

BYTES_PER_PARAMETER = 2
USABLE_MEMORY = 0.9
SINGLE_SEQUENCE = ("llama.cpp",)
"""Frameworks whose batch size counts the prompt tokens of one sequence."""
PREFILL_EFFICIENCY = 0.4
"""Share of the peak rate that computing prompts reaches: tables of whole runs do not tell it apart."""
STEP_S = 0.002
"""What a step takes besides reading and computing, roughly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device(Record):
    """Peak rates of one device; half precision."""

    bandwidth_gb_s: float
    tflops: float
    memory_gb: float

    def __post_init__(self) -> None:
        require(min(asdict(self).values()) > 0, "all numbers must be > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize(Record):
    """What a model makes a device read and keep; half precision.

    Attributes:
        parameters_b: All parameters, in billions.
        active_b: Those that one token uses: fewer with experts.
        kv_bytes_per_token: Of all layers.
    """

    parameters_b: float
    active_b: float
    kv_bytes_per_token: float

    def __post_init__(self) -> None:
        require(min(asdict(self).values()) > 0, "all numbers must be > 0")
        require(self.active_b <= self.parameters_b, "active_b must be <= parameters_b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue(Record):
    """Devices and models by the names that tables use."""

    devices: Mapping[str, Device]
    models: Mapping[str, ModelSize]

    def device(self, name: str) -> Device:
        """Returns what is published; for a device that is not listed, the geometric mean of those that are."""
        return self.devices.get(name) or Device(**_means(self.devices.values()))

    def model(self, name: str) -> ModelSize:
        """Returns what is published; for a model that is not listed, the geometric mean of those that are."""
        return self.models.get(name) or ModelSize(**_means(self.models.values()))

    def lists(self, combination: Combination) -> bool:
        """Returns whether both device and model are listed."""
        return combination.hardware in self.devices and combination.model in self.models

    def roofline(self, combination: Combination) -> "Roofline":
        """Returns what a combination's memory and peak rates allow."""
        device, size = self.device(combination.hardware), self.model(combination.model)
        return Roofline(device, size, combination.num_devices)

    def to_document(self) -> dict[str, Any]:
        """Returns what ``catalogue_of`` reads."""
        return {
            "devices": {name: asdict(device) for name, device in self.devices.items()},
            "models": {name: asdict(size) for name, size in self.models.items()},
        }


@dataclass(frozen=True, slots=True)
class Roofline:
    """What reading memory and computing would take at the peak rates of a number of devices.

    The usual bound (Williams, Waterman and Patterson, CACM 2009) for a whole run: prompts are computed, then each token
    reads the weights and the caches of those sequences that fit into memory together.
    """

    device: Device
    model: ModelSize
    num_devices: int

    def memory_pressure(self, length_tokens: float, batch_size: float) -> float:
        """Returns the base 2 log of how many times the caches of the batch fill the memory left by the weights."""
        cache = self.model.kv_bytes_per_token * 2 * length_tokens * batch_size
        return math.log2(cache / self._cache_bytes)

    @property
    def free_bytes(self) -> float:
        """Memory left by the weights; below 0 if they do not fit."""
        memory = 1e9 * self.device.memory_gb * self.num_devices
        return USABLE_MEMORY * memory - 1e9 * BYTES_PER_PARAMETER * self.model.parameters_b

    @property
    def token_s(self) -> float:
        """What computing one token takes at the peak rate."""
        return 2e9 * self.model.active_b / (1e12 * self.device.tflops * self.num_devices)

    @property
    def _cache_bytes(self) -> float:
        return max(self.free_bytes, 0.05e9 * self.device.memory_gb * self.num_devices)

    def throughput(self, length_tokens: float, num_seqs: float) -> float:
        """Returns prompt and response tokens per second of ``num_seqs`` sequences with both of one length."""
        kv_bytes, size = self.model.kv_bytes_per_token, self.model
        bandwidth = 1e9 * self.device.bandwidth_gb_s * self.num_devices
        at_once = min(num_seqs, max(1.0, self._cache_bytes / (kv_bytes * 2 * length_tokens)))
        touched_b = min(size.parameters_b, size.active_b * min(at_once, 4.0))  # a batch meets more experts
        step_bytes = 1e9 * BYTES_PER_PARAMETER * touched_b + at_once * kv_bytes * 1.5 * length_tokens
        decode_s = length_tokens * (step_bytes / bandwidth) * (num_seqs / at_once)
        prefill_s = num_seqs * length_tokens * self.token_s
        return 2 * num_seqs * length_tokens / (decode_s + prefill_s + STEP_S * length_tokens)


def _means(rows: Any) -> dict[str, float]:
    values = [asdict(row) for row in rows]
    return {key: math.exp(sum(math.log(v[key]) for v in values) / len(values)) for key in values[0]}


_ADAPTER = TypeAdapter(Catalogue)


def load_catalogue(path: Path | None = None) -> Catalogue:
    """Returns a catalogue file, by default the shipped one.

    Raises:
        PlannerError: INVALID_FILE with the path of every number that is missing or out of range.
    """
    path = path or share_dir() / "profiles" / "throughput" / "catalogue.yaml"
    try:
        document = read_yaml(path)
    except DocumentError as error:
        raise PlannerError(ErrorCode.INVALID_FILE, f"catalogue {path} {error}") from error
    return catalogue_of(document)


def catalogue_of(document: Any) -> Catalogue:
    """Returns the catalogue of a document; raises as ``load_catalogue``."""
    try:
        return validated(_ADAPTER, document)
    except DocumentError as error:
        raise PlannerError(ErrorCode.INVALID_FILE, f"the catalogue {error}") from error
