# SPDX-License-Identifier: Apache-2.0
"""Fits the default throughput model to a table."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.throughput.catalogue import Catalogue, load_catalogue
from llm_planner.prediction.throughput.error_scale import Familiarity
from llm_planner.prediction.throughput.kernel_model import NUM_NEAR, KernelModel, Posterior, variance_left
from llm_planner.prediction.throughput.points import NAMES, Encoder, Points, encode
from llm_planner.prediction.throughput.table import Measurement
from llm_planner_lab.training.capacity.error_scale_fit import fit_error_scale
from llm_planner_lab.training.capacity.hyperparameters import Hyperparameters, choose_hyperparameters, inverted

Vector = NDArray[np.float64]
OnStep = Callable[[int, int], None]

NUM_FOLDS = 10
ROBUST_ROUNDS = 2
DEGREES = 4.0
"""Of freedom of Student's t: errors of measurements have heavy tails."""
LEAST_WEIGHT = 0.02


def fit_kernel_model(
    table: Sequence[Measurement],
    seed: int = 0,
    catalogue: Catalogue | None = None,
    on_step: OnStep = lambda _done, _of: None,
) -> KernelModel:
    """Returns the model fitted to a table; the same seed gives the same model.

    Raises:
        PlannerError: INVALID_CONFIG if the table has one batch size only.
    """
    check_table(table)
    rng = np.random.default_rng(seed)
    encoder = Encoder(catalogue or load_catalogue())
    points = encode(encoder, [(m.combination, m.workload) for m in table])
    y = np.log([m.throughput_tokens_per_s for m in table])
    chosen = choose_hyperparameters(points, y, rng, on_step)
    kernel = chosen.kernel
    covariance = kernel.between(points, points)
    noise, inverse, mean = _robust(covariance, y, chosen)
    coefficients = inverse @ (y - mean)
    posterior = Posterior(points, coefficients, noise, mean)
    groupings = {
        Familiarity.SEEN: [np.arange(len(table))],
        Familiarity.UNSEEN: [_folds(points, rng)],
        Familiarity.FOREIGN: _names_left_out(points) or [_folds(points, rng)],
    }
    combinations = [m.combination for m in table]
    scales = {}
    for familiarity, groups in groupings.items():
        errors = [np.abs(_held_out_errors(inverse, coefficients, group)) for group in groups]
        variances = [_variance_without(covariance, noise, group, row) for group in groups for row in range(len(table))]
        is_seen = familiarity is Familiarity.SEEN
        scales[familiarity] = fit_error_scale(
            combinations * len(groups), np.sqrt(variances), np.concatenate(errors), is_seen=is_seen
        )
    return KernelModel(encoder, kernel, posterior, scales)


def check_table(table: Sequence[Measurement]) -> None:
    """Checks that there is enough to learn from.

    Raises:
        PlannerError: INVALID_CONFIG if not.
    """
    sizes = {m.batch_size for m in table}
    if len(sizes) < 2:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"the table has the batch size {sizes.pop()} only, which says nothing of others; add rows with at least "
            "one more, for example with llm-planner profile --table",
        )
    if len(table) <= NUM_NEAR:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"the table has {len(table)} rows; give more than {NUM_NEAR}, for example yours and the shipped table's",
        )


def _robust(covariance: Vector, y: Vector, chosen: Hyperparameters) -> tuple[Vector, Vector, float]:
    """Returns the noise variance of each row, the inverse of the noisy covariance, and the mean.

    Rows that are far off what all others say are believed less: iterated reweighting for Student's t (Lange, Little and
    Taylor, JASA 1989) with leave-one-out residuals.
    """
    weights = np.ones(len(y))
    for remaining in range(ROBUST_ROUNDS, -1, -1):
        noise = chosen.noise**2 / weights
        inverse, _ = inverted(covariance + np.diag(noise))
        mean = float(inverse.sum(axis=1) @ y / inverse.sum())
        if remaining:
            diagonal = np.diag(inverse)
            squared = (inverse @ (y - mean)) ** 2 / diagonal
            weights = np.clip((DEGREES + 1.0) / (DEGREES + squared), LEAST_WEIGHT, 1.0)
    return noise, inverse, mean


def _folds(points: Points, rng: np.random.Generator) -> NDArray[np.intp]:
    """Returns a group for each row; a combination is in one group as a whole."""
    names, inverse = np.unique(points.combination, return_inverse=True)
    folds: NDArray[np.intp] = (rng.permutation(len(names)) % min(NUM_FOLDS, len(names)))[inverse]
    return folds


def _names_left_out(points: Points) -> list[NDArray[np.intp]]:
    """Returns the groups by hardware and by model: what is left out as a whole is as foreign as a new one."""
    columns = (points.names[:, NAMES.index(name)] for name in ("hardware", "model"))
    return [column for column in columns if len(np.unique(column)) > 1]


def _held_out_errors(inverse: Vector, coefficients: Vector, groups: NDArray[np.intp]) -> Vector:
    """Returns what is off for each row if its group is not known, without fitting again.

    Rasmussen and Williams, Eq. (5.12), for blocks.
    """
    errors = np.empty(len(groups))
    if len(np.unique(groups)) == len(groups):
        return coefficients / np.diag(inverse)
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        errors[rows] = np.linalg.solve(inverse[np.ix_(rows, rows)], coefficients[rows])
    return errors


def _variance_without(covariance: Vector, noise: Vector, groups: NDArray[np.intp], row: int) -> float:
    """Returns the variance left of a row by the nearest rows of other groups, as a new point would have it."""
    others = np.where(groups == groups[row], -np.inf, covariance[row])
    near = np.argpartition(-others, NUM_NEAR)[:NUM_NEAR]
    near = near[np.isfinite(others[near])]
    return variance_left(
        float(covariance[row, row]), covariance[row, near], covariance[np.ix_(near, near)], noise[near]
    )
