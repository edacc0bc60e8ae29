# SPDX-License-Identifier: Apache-2.0
"""How alike two measurements are: a sum of kernels over lengths, batches, devices, frameworks and models.

``k(x, x') = sum_t a_t^2 exp(-sum_j w_tj d_j(x, x'))`` with weights ``w >= 0`` and distances ``d`` that are absolute
or squared differences, or whether two names differ. Each of these is conditionally negative definite, so each term is
a kernel (Schoenberg). A term with no weight on a name shares what it learns among all of that name's values; one with
much weight learns each by itself. Together they are an analysis of variance whose parts the likelihood chooses.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llm_planner.prediction.throughput.points import (
    COLUMNS,
    FIXED,
    NAMES,
    VARYING,
    Floats,
    Points,
    fixed_distances,
    in_blocks,
    varying_distances,
)

_NUM_VARYING = 2 * len(VARYING)
_NUM_FIXED = 1 + len(FIXED)


@dataclass(frozen=True, slots=True)
class Kernel:
    """The covariance of log throughput.

    Attributes:
        variances: ``a_t^2`` of each term, (num_terms,).
        weights: ``w_tj``, (num_terms, len(COLUMNS)).
    """

    variances: Floats
    weights: Floats

    @property
    def variance(self) -> float:
        """Of a point with itself."""
        return float(self.variances.sum())

    def between(self, a: Points, b: Points) -> NDArray[np.float64]:
        """Returns the covariances, (len(a), len(b))."""
        result = np.empty((len(a), len(b)))

        def fill(rows: slice) -> None:
            exponents = distances(a[rows], b) @ self.weights.T
            result[rows] = np.exp(-exponents) @ self.variances

        in_blocks(len(a), len(b), fill)
        return result

    def place_exponents(self, fixed: Floats, names: NDArray[np.intp], b: Points) -> Floats:
        """Returns what the combination of one point contributes to the exponents, (len(b), num_terms)."""
        apart = np.concatenate([fixed_distances(fixed, b.fixed), (names != b.names).astype(np.float32)], axis=1)
        exponents: Floats = apart @ self.weights[:, _NUM_VARYING:].T
        return exponents

    def from_place(self, varying: Floats, place_exponents: Floats, b_varying: Floats) -> Floats:
        """Returns the covariances of one point with others, (len(b),), its combination's part already computed."""
        exponents = place_exponents + varying_distances(varying, b_varying) @ self.weights[:, :_NUM_VARYING].T
        covariances: Floats = np.exp(-exponents) @ self.variances
        return covariances


def distances(a: Points, b: Points) -> Floats:
    """Returns all distances, (len(a), len(b), len(COLUMNS))."""
    result = np.empty((len(a), len(b), len(COLUMNS)), dtype=np.float32)
    result[..., :_NUM_VARYING] = varying_distances(a.varying[:, None], b.varying[None])
    end = _NUM_VARYING + _NUM_FIXED
    result[..., _NUM_VARYING:end] = fixed_distances(a.fixed[:, None], b.fixed[None])
    for column in range(len(NAMES)):
        result[..., end + column] = a.names[:, column][:, None] != b.names[:, column][None]
    return result
