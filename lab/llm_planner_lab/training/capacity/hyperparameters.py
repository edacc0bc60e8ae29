# SPDX-License-Identifier: Apache-2.0
"""Chooses the weights of the throughput kernel by the likelihood of measured tables."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.optimize import minimize

from llm_planner.prediction.throughput.kernel import Kernel, distances
from llm_planner.prediction.throughput.points import COLUMNS, Points

NUM_ROWS = 1000
NUM_STEPS = 40
PRIOR_WEIGHT, PRIOR_AMPLITUDE = 0.3, 2.0
"""How firmly the logarithms of weights and amplitudes stay near where they start: without, terms merge or die."""
LEAST, MOST = -9.0, 6.0

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Start:
    """Where the search begins: what a term is meant to share, as weights on groups of columns."""

    amplitude: float
    varying: float
    fixed: float
    hardware: float
    framework: float
    model: float
    combination: float

    def weights(self) -> Vector:
        """Returns a weight for each column."""
        names = [self.hardware, self.framework, self.model, self.combination]
        num_varying = sum("length" in c or "batch" in c or "pressure" in c or "roofline" in c for c in COLUMNS)
        num_fixed = len(COLUMNS) - num_varying - len(names)
        return np.array([self.varying] * num_varying + [self.fixed] * num_fixed + names)


STARTS = (
    Start(1.5, 0.08, 0.10, 0.05, 0.1, 0.03, 0.01),  # what all have in common
    Start(0.7, 0.12, 0.15, 1.0, 1.0, 0.05, 0.01),  # a framework on a device
    Start(0.3, 0.25, 0.20, 0.1, 1.0, 0.3, 0.02),  # a model in a framework
    Start(0.4, 0.06, 0.10, 1.5, 1.5, 1.5, 0.02),  # all but the number of devices
    Start(0.2, 0.06, 0.10, 1.5, 1.5, 1.5, 3.0),  # a combination by itself
    Start(0.08, 0.70, 0.10, 1.5, 1.5, 1.5, 1.0),  # its irregularities
)


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """What the likelihood chose: a kernel and the standard deviation of repeated measurements."""

    kernel: Kernel
    noise: float


JITTERS = (0.0, 1e-6, 1e-5, 1e-4, 1e-3)
"""Shares of the mean variance."""


def choose_hyperparameters(
    points: Points,
    log_throughput: Vector,
    rng: np.random.Generator,
    on_step: Callable[[int, int], None] = lambda _done, _of: None,
) -> Hyperparameters:
    """Returns the kernel that explains the measurements of randomly chosen, whole combinations best.

    Marginal likelihood (Rasmussen and Williams, Gaussian Processes for Machine Learning, Eq. 5.8) with a weak prior, by
    L-BFGS; a part of the table is enough to learn what is alike.
    """
    rows = _whole_combinations(points, rng)
    start = _pack(np.array([s.amplitude for s in STARTS]), np.array([s.weights() for s in STARTS]), np.array([0.02]))
    objective = _Objective(points[rows], log_throughput[rows], start)
    step = 0

    def count(_: Vector) -> None:
        nonlocal step
        step = min(NUM_STEPS, step + 1)
        on_step(step, NUM_STEPS)

    found = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(LEAST, MOST)] * len(start),
        options={"maxiter": NUM_STEPS},
        callback=count,
    )
    amplitudes, weights, noise = _unpack(found.x)
    kernel = Kernel((amplitudes**2).astype(np.float32), weights.astype(np.float32))
    return Hyperparameters(kernel, noise)


def _whole_combinations(points: Points, rng: np.random.Generator) -> NDArray[np.intp]:
    names = points.combination
    shuffled = rng.permutation(np.unique(names))
    rows = np.concatenate([np.flatnonzero(names == name) for name in shuffled])
    return np.sort(rows[:NUM_ROWS])


def _pack(amplitudes: Vector, weights: Vector, noise: Vector) -> Vector:
    return np.log(np.concatenate([amplitudes, weights.ravel(), noise]))


def _unpack(values: Vector) -> tuple[Vector, Vector, float]:
    num_terms = len(STARTS)
    exponentials = np.exp(values)
    return exponentials[:num_terms], exponentials[num_terms:-1].reshape(num_terms, -1), float(exponentials[-1])


class _Objective:
    """Minus log likelihood and log prior per row, and its gradient, of the logarithms of all hyperparameters."""

    def __init__(self, points: Points, y: Vector, start: Vector) -> None:
        self._y = y
        self._pairs = np.tril_indices(len(y), -1)
        rows, _ = self._pairs
        self._distances = np.empty((len(COLUMNS), len(rows)), dtype=np.float32)
        first = 0
        for row in range(1, len(y)):  # the lower triangle, row by row
            self._distances[:, first : first + row] = distances(points[row : row + 1], points[:row])[0].T
            first += row
        self._start = start
        num_terms = len(STARTS)
        self._prior = np.array([PRIOR_AMPLITUDE] * num_terms + [PRIOR_WEIGHT] * (len(start) - num_terms - 1) + [0.0])

    def __call__(self, values: Vector) -> tuple[float, Vector]:
        amplitudes, weights, noise = _unpack(values)
        num, num_terms = len(self._y), len(amplitudes)
        terms = np.exp(-(weights.astype(np.float32) @ self._distances))
        terms *= (amplitudes**2).astype(np.float32)[:, None]
        covariance = np.zeros((num, num))
        covariance[self._pairs] = terms.sum(axis=0)
        covariance[np.diag_indices(num)] = (amplitudes**2).sum() + noise**2
        inverse, log_determinant = inverted(covariance)
        residual = self._y - inverse.sum(axis=1) @ self._y / inverse.sum()
        solved = inverse @ residual
        diagonal = 0.5 * (np.diag(inverse) - solved**2)
        rows, columns = self._pairs
        slope = (inverse[self._pairs] - solved[rows] * solved[columns]).astype(np.float32)
        terms *= slope
        gradient = np.empty_like(values)
        gradient[:num_terms] = 2.0 * (terms.sum(axis=1) + amplitudes**2 * diagonal.sum())
        gradient[num_terms:-1] = -((terms @ self._distances.T) * weights).ravel()
        gradient[-1] = 2.0 * noise**2 * diagonal.sum()
        away = values - self._start
        value = 0.5 * residual @ solved + 0.5 * log_determinant + 0.5 * (self._prior * away) @ away
        return float(value) / num, (gradient + self._prior * away) / num


def inverted(covariance: Vector) -> tuple[Vector, float]:
    """Returns the inverse of a positive definite matrix and the logarithm of its determinant.

    Distances are of single precision, so that a matrix may miss being positive definite by rounding: then as much as
    it takes is added to its diagonal.

    Raises:
        numpy.linalg.LinAlgError: If it misses it by more than rounding.
    """
    for share in JITTERS:
        jittered = covariance + share * np.mean(np.diag(covariance)) * np.eye(len(covariance))
        factor, problem = lapack.dpotrf(jittered, lower=1, overwrite_a=1)
        if not problem:
            log_determinant = 2.0 * float(np.log(np.diag(factor)).sum())
            inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
            lower = np.tril(inverse, -1)
            return lower + lower.T + np.diag(np.diag(inverse)), log_determinant
    raise np.linalg.LinAlgError("the covariance is not positive definite")
