# SPDX-License-Identifier: Apache-2.0
"""Measurements as numbers: what the kernel compares."""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from llm_planner.prediction.throughput.catalogue import SINGLE_SEQUENCE, Catalogue
from llm_planner.prediction.throughput.table import Combination, Workload

Floats = NDArray[np.float32]

MOST_PAIRS = 200_000
"""Of points, whose distances are computed at once."""

VARYING = ("length", "batch", "pressure", "roofline")
FIXED = ("num_devices", "weights", "active", "cache", "bandwidth", "speed", "memory")
NAMES = ("hardware", "framework", "model", "combination")
LINEAR = (*VARYING, "num_devices")
COLUMNS = (
    *(f"|{name}|" for name in VARYING),
    *(f"{name}^2" for name in VARYING),
    "|num_devices|",
    *(f"{name}^2" for name in FIXED),
    *NAMES,
)
"""Distances between two points: differences, their squares, and 0 or 1 for names that are equal or not."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a combination is, as numbers: columns FIXED, and a number for each of its names."""

    fixed: Floats
    names: tuple[int, ...]


class Encoder:
    """Turns combinations and workloads into numbers of similar size.

    Args:
        catalogue: What is published about devices and models.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._numbers: dict[str, int] = {}

    def place(self, combination: Combination) -> Place:
        """Returns what is the same for all workloads of a combination."""
        hardware, num_devices, framework, model = combination
        device, size = self.catalogue.device(hardware), self.catalogue.model(model)
        fixed = np.log(
            [
                num_devices**1.4427,  # base 2
                size.parameters_b,
                size.active_b,
                size.kv_bytes_per_token,
                device.bandwidth_gb_s,
                device.tflops,
                device.memory_gb,
            ]
        )
        names = (hardware, framework, model, str(combination))
        return Place(fixed.astype(np.float32), tuple(self._numbers.setdefault(n, len(self._numbers)) for n in names))

    def names(self, numbers: Container[int]) -> set[str]:
        """Returns the names that some numbers stand for."""
        return {name for name, number in self._numbers.items() if number in numbers}

    def varying(self, combination: Combination, length_tokens: float, batch_size: float) -> Floats:
        """Returns the columns VARYING of a workload with prompts and responses of one length."""
        roofline = self.catalogue.roofline(combination)
        num_seqs = 1.0 if combination.framework in SINGLE_SEQUENCE else batch_size
        pressure = roofline.memory_pressure(length_tokens, batch_size)
        return np.array(
            [
                (np.log2(length_tokens) - 9.0) / 2.0,
                np.log2(batch_size) / 3.0,
                0.5 * np.logaddexp(0.0, 2.0 * np.clip(pressure, -10.0, 10.0)),  # counts once memory is full
                np.log(roofline.throughput(length_tokens, num_seqs)),
            ],
            dtype=np.float32,
        )


@dataclass(frozen=True)
class Points:
    """Encoded points.

    Attributes:
        varying: (num_points, len(VARYING)).
        fixed: (num_points, len(FIXED)).
        names: (num_points, len(NAMES)), as the encoder numbers them.
    """

    varying: Floats
    fixed: Floats
    names: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.varying)

    def __getitem__(self, index: NDArray[np.intp] | slice) -> "Points":
        return Points(self.varying[index], self.fixed[index], self.names[index])

    @cached_property
    def combination(self) -> NDArray[np.intp]:
        """The number of each point's combination."""
        return self.names[:, NAMES.index("combination")]


def encode(encoder: Encoder, pairs: Sequence[tuple[Combination, Workload]]) -> Points:
    """Returns the points of measured workloads, whose prompts and responses have one length."""
    places = {combination: encoder.place(combination) for combination, _ in pairs}
    return Points(
        np.array([encoder.varying(c, w.input_tokens, w.batch_size) for c, w in pairs]).reshape(-1, len(VARYING)),
        np.array([places[c].fixed for c, _ in pairs]).reshape(-1, len(FIXED)),
        np.array([places[c].names for c, _ in pairs]).reshape(-1, len(NAMES)),
    )


def varying_distances(a: Floats, b: Floats) -> Floats:
    """Returns the distances of columns VARYING, (..., 2 * len(VARYING)), by broadcasting."""
    difference = a - b
    return np.concatenate([np.abs(difference), difference * difference], axis=-1)


def fixed_distances(a: Floats, b: Floats) -> Floats:
    """Returns the distances of columns FIXED: that of the number of devices twice, plain and squared."""
    difference = a - b
    return np.concatenate([np.abs(difference[..., :1]), difference * difference], axis=-1)


def in_blocks(num_rows: int, num_columns: int, compute: Callable[[slice], None]) -> None:
    """Calls ``compute`` for slices of the rows: all distances would not fit into memory at once."""
    size = max(1, MOST_PAIRS // max(1, num_columns))
    for start in range(0, num_rows, size):
        compute(slice(start, start + size))
