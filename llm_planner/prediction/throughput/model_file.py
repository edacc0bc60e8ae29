# SPDX-License-Identifier: Apache-2.0
"""Throughput models as files: one JSON document with all that a prediction needs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.resources import share_dir
from llm_planner.documents import DocumentError, read_text
from llm_planner.prediction.throughput.catalogue import catalogue_of
from llm_planner.prediction.throughput.error_scale import ErrorScale, Familiarity
from llm_planner.prediction.throughput.kernel import Kernel
from llm_planner.prediction.throughput.kernel_model import KernelModel, Posterior
from llm_planner.prediction.throughput.points import COLUMNS, Encoder, encode
from llm_planner.prediction.throughput.table import Combination, Measurement, Workload

FORMAT = "llm-planner throughput model"
DEFAULT = "default"
MAX_FILE_BYTES = 64_000_000


class _Scale(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)
    intercept: float
    slope: float
    offsets: dict[str, float]
    quantiles: tuple[float, ...]
    reach: float


class _Document(BaseModel):
    """What the file holds; ``points`` are combination, length, batch size, coefficient and noise of each row."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)
    format: str
    method: str
    catalogue: dict[str, Any]
    columns: tuple[str, ...]
    variances: tuple[float, ...]
    weights: tuple[tuple[float, ...], ...]
    mean: float
    combinations: tuple[tuple[str, int, str, str], ...]
    points: tuple[tuple[int, int, int, float, float], ...]
    scales: dict[Familiarity, _Scale]


def write_kernel_model(model: KernelModel, table: Sequence[Measurement], path: Path) -> None:
    """Writes a model and the workloads of the table that it was fitted to."""
    combinations = sorted({m.combination for m in table})
    numbers = {combination: number for number, combination in enumerate(combinations)}
    posterior = model.posterior
    rows = zip(table, posterior.coefficients, posterior.noise, strict=True)
    catalogue = model.encoder.catalogue
    document = {
        "format": FORMAT,
        "method": model.method,
        "catalogue": catalogue.to_document(),
        "columns": COLUMNS,
        "variances": [float(v) for v in model.kernel.variances],
        "weights": [[float(w) for w in row] for row in model.kernel.weights],
        "mean": posterior.mean,
        "combinations": combinations,
        "points": [
            [numbers[m.combination], m.length_tokens, m.batch_size, float(coefficient), float(noise)]
            for m, coefficient, noise in rows
        ],
        "scales": {familiarity.value: _scale_document(scale) for familiarity, scale in model.scales.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document) + "\n", encoding="utf-8")


def _scale_document(scale: ErrorScale) -> dict[str, Any]:
    return {
        "intercept": scale.intercept,
        "slope": scale.slope,
        "offsets": {key: float(f"{value:.5g}") for key, value in scale.offsets.items()},
        "quantiles": [float(f"{q:.5g}") for q in scale.quantiles],
        "reach": scale.reach,
    }


def load_kernel_model(path: Path | None = None) -> KernelModel:
    """Returns the model of a file, by default the shipped one.

    Raises:
        PlannerError: INVALID_FILE if there is none or it is not one that this version writes.
    """
    path = path or share_dir() / "profiles" / "throughput" / f"{DEFAULT}.json"
    try:
        document = _Document.model_validate_json(read_text(path, MAX_FILE_BYTES))
    except DocumentError as error:
        raise _invalid(path, str(error)) from error
    except ValidationError as error:
        first = error.errors()[0]
        raise _invalid(path, f"{'.'.join(map(str, first['loc'])) or 'document'}: {first['msg']}") from error
    if document.format != FORMAT or document.method != KernelModel.method or document.columns != COLUMNS:
        raise _invalid(path, f"holds the method {document.method!r} in another version than this program's")
    try:
        return _model(document)
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        raise _invalid(path, f"its numbers do not fit together: {error}") from error


def _model(document: _Document) -> KernelModel:
    """Returns the model of a document.

    Raises:
        PlannerError: INVALID_FILE for its catalogue.
        ValueError, TypeError, LookupError, ArithmeticError: If its parts do not fit together.
    """
    encoder = Encoder(catalogue_of(document.catalogue))
    combinations = [Combination(*fields) for fields in document.combinations]
    pairs = [(combinations[c], Workload(length, length, batch)) for c, length, batch, _, _ in document.points]
    kernel = Kernel(np.array(document.variances, dtype=np.float32), np.array(document.weights, dtype=np.float32))
    coefficients, noise = np.array([row[3:] for row in document.points]).T
    posterior = Posterior(encode(encoder, pairs), coefficients, noise, document.mean)
    if set(document.scales) != set(Familiarity):
        raise ValueError("it lacks scales of errors")
    return KernelModel(encoder, kernel, posterior, {f: _scale(scale) for f, scale in document.scales.items()})


def _scale(scale: _Scale) -> ErrorScale:
    return ErrorScale(scale.intercept, scale.slope, scale.offsets, scale.quantiles, scale.reach)


def _invalid(path: Path, problem: str) -> PlannerError:
    return PlannerError(
        ErrorCode.INVALID_FILE, f"throughput model {path}: {problem}; make one with llm-planner capacity fit"
    )
