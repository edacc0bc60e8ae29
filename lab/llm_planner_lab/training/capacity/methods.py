# SPDX-License-Identifier: Apache-2.0
"""Throughput models by name: fitted, written and read."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.throughput.estimate import ThroughputModel
from llm_planner.prediction.throughput.kernel_model import KernelModel
from llm_planner.prediction.throughput.model_file import load_kernel_model, write_kernel_model
from llm_planner.prediction.throughput.table import Measurement
from llm_planner_lab.training.capacity.kernel_fit import check_table, fit_kernel_model

METHODS = ("kernel", "ala")
HOW_TO_INSTALL = "the method ala needs xgboost; `make setup-dev` installs it"
OnStep = Callable[[int, int], None]


def fit_model(
    method: str, table: Sequence[Measurement], seed: int = 0, on_step: OnStep = lambda _done, _of: None
) -> ThroughputModel:
    """Returns a model fitted to a table.

    Raises:
        PlannerError: INVALID_CONFIG if there is no such method, a library is missing or the table says too little.
    """
    if method not in METHODS:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"no method {method!r}; known are {', '.join(METHODS)}")
    check_table(table)
    if method == "kernel":
        return fit_kernel_model(table, seed, on_step=on_step)
    _require_xgboost()
    from llm_planner_lab.training.capacity.ala.model import fit_ala

    return fit_ala(table, seed, on_step=on_step)


def write_model(model: ThroughputModel, table: Sequence[Measurement], path: Path) -> None:
    """Writes a model that was fitted to ``table``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(model, KernelModel):
        write_kernel_model(model, table, path)
        return
    from llm_planner_lab.training.capacity.ala.model import AlaModel, write_ala

    assert isinstance(model, AlaModel)
    write_ala(model, path)


def load_model(path: Path | None = None) -> ThroughputModel:
    """Returns the model of a file, by default the shipped one.

    Raises:
        PlannerError: INVALID_CONFIG if it cannot be used.
    """
    if path is None or not path.is_file() or not _is_ala(path):
        return load_kernel_model(path)
    _require_xgboost()
    from llm_planner_lab.training.capacity.ala.model import read_ala

    try:
        return read_ala(json.loads(path.read_text(encoding="utf-8")))
    except (KeyError, TypeError, ValueError) as error:
        raise PlannerError(
            ErrorCode.INVALID_FILE, f"throughput model {path} is damaged ({error!r}); fit it again"
        ) from error


def _is_ala(path: Path) -> bool:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(document, dict) and document.get("method") == "ala"


def _require_xgboost() -> None:
    try:
        import xgboost  # noqa: F401
    except ImportError as error:
        raise PlannerError(ErrorCode.INVALID_CONFIG, HOW_TO_INSTALL) from error
