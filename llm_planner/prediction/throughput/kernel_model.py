# SPDX-License-Identifier: Apache-2.0
"""The default throughput model: log throughput as a Gaussian process over hardware, framework, model and workload."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from llm_planner.prediction.throughput.catalogue import PREFILL_EFFICIENCY
from llm_planner.prediction.throughput.error_scale import ErrorScale, Familiarity
from llm_planner.prediction.throughput.estimate import Estimate
from llm_planner.prediction.throughput.kernel import Kernel
from llm_planner.prediction.throughput.points import Encoder, Floats, Points
from llm_planner.prediction.throughput.table import Combination, Workload, require_names

NUM_NEAR = 32
"""Measurements that tell how much is known around a point: the nearest ones tell nearly all."""
CLOSE = 0.1
"""Confidence is the chance to be within this fraction."""


@dataclass(frozen=True, slots=True)
class Posterior:
    """What was learned from a table.

    Attributes:
        points: The measurements.
        coefficients: Of the kernel between a new point and each of them: the mean's deviation.
        noise: Variance of each measurement; outliers have more.
        mean: Of log throughput.
    """

    points: Points
    coefficients: NDArray[np.float64]
    noise: NDArray[np.float64]
    mean: float


class KernelModel:
    """Predicts throughput from all combinations at once.

    A Gaussian process (Rasmussen and Williams, 2006) on log throughput with the kernel of ``prediction.throughput
    .kernel``; its intervals are calibrated on measurements held out (``error_scale``).

    Deviation from ALA: combinations share what they have in common, so that one which was never measured is predicted
    from its hardware, framework and model in other combinations.

    Args:
        encoder: Turns combinations and workloads into numbers.
        kernel: Similarity.
        posterior: What was learned.
        scales: Errors to expect.
    """

    method = "kernel"

    def __init__(
        self, encoder: Encoder, kernel: Kernel, posterior: Posterior, scales: Mapping[Familiarity, ErrorScale]
    ) -> None:
        self.encoder = encoder
        self.kernel = kernel
        self.posterior = posterior
        self.scales = scales
        self._known = [set(column.tolist()) for column in posterior.points.names.T]
        self._place = lru_cache(maxsize=128)(self._exponents)

    def estimate(self, combination: Combination, workload: Workload) -> Estimate:
        """Returns what to expect of a workload.

        The tables know prompts and responses of one length only. Others are answered by the length with the same mean
        context while decoding, and trusted less, the further apart the two are. Prompt tokens beyond the number of
        output tokens take what computing takes: at the peak rate at the fast end, else at ``PREFILL_EFFICIENCY`` of
        it. Deviation: the share of the prompts is not known from such tables.
        """
        length = (2 * workload.input_tokens + workload.output_tokens) / 3
        covariances = self._covariances(combination, length, workload.batch_size)
        posterior = self.posterior
        log_throughput = posterior.mean + float(covariances @ posterior.coefficients)
        familiarity = self.familiarity(combination)
        scale = self.scales[familiarity]
        deviation = math.sqrt(self._variance_left(covariances))
        typical = scale.typical(combination, deviation)
        unequal = abs(math.log(workload.input_tokens / workload.output_tokens))
        typical = math.hypot(typical, 0.1 * unequal)
        reach = typical * scale.reach
        token_s = self.encoder.catalogue.roofline(combination).token_s
        tokens_per_s = _whole(math.exp(log_throughput), workload, token_s / PREFILL_EFFICIENCY)
        return Estimate(
            tokens_per_s=tokens_per_s,
            low_tokens_per_s=tokens_per_s * math.exp(-reach),
            high_tokens_per_s=_whole(math.exp(log_throughput + reach), workload, token_s),
            predicted_error=math.expm1(min(typical, 10.0)),
            confidence=scale.chance_within(math.log1p(CLOSE), typical),
            is_seen=familiarity is Familiarity.SEEN,
        )

    def familiarity(self, combination: Combination) -> Familiarity:
        """Returns how much of a combination was measured."""
        *parts, whole = (
            n in known for n, known in zip(self.encoder.place(combination).names, self._known, strict=True)
        )
        if whole:
            return Familiarity.SEEN
        return Familiarity.UNSEEN if all(parts) else Familiarity.FOREIGN

    def require_known(self, combination: Combination) -> None:
        """Makes sure that the table or the catalogue names the parts of a combination.

        Raises:
            PlannerError: INVALID_CONFIG with the nearest names.
        """
        seen = [self.encoder.names(numbers) for numbers in self._known]
        catalogue = self.encoder.catalogue
        require_names(combination, {*seen[0], *catalogue.devices}, seen[1], {*seen[2], *catalogue.models})

    def estimates(self, queries: Sequence[tuple[Combination, Workload]]) -> list[Estimate]:
        """Returns what to expect of each query."""
        return [self.estimate(combination, workload) for combination, workload in queries]

    def _exponents(self, combination: Combination) -> Floats:
        place = self.encoder.place(combination)
        return self.kernel.place_exponents(place.fixed, np.array(place.names), self.posterior.points)

    def _covariances(self, combination: Combination, length_tokens: float, batch_size: float) -> Floats:
        varying = self.encoder.varying(combination, length_tokens, batch_size)
        return self.kernel.from_place(varying, self._place(combination), self.posterior.points.varying)

    def _variance_left(self, covariances: Floats) -> float:
        num_near = min(NUM_NEAR, len(covariances) - 1)
        near = np.argpartition(-covariances, num_near)[:num_near]
        points = self.posterior.points[near]
        among = self.kernel.between(points, points)
        return variance_left(self.kernel.variance, covariances[near], among, self.posterior.noise[near])


def _whole(tokens_per_s: float, workload: Workload, prompt_token_s: float) -> float:
    """Returns the throughput of a workload, prompts included, given that of equal lengths with its mean context."""
    num_input, num_output, _ = workload
    more_s = max(0, num_input - num_output) * prompt_token_s  # the other prompt tokens count in ``tokens_per_s``
    return (num_input + num_output) / (2 * num_output / tokens_per_s + more_s)


def variance_left(
    variance: float,
    covariances: NDArray[np.floating],
    among: NDArray[np.float64],
    noise: NDArray[np.float64],
) -> float:
    """Returns the variance of a point given measurements, with ``covariances`` to it and ``among`` them."""
    solved = np.linalg.solve(among + np.diag(noise), covariances)
    return max(1e-12, variance - float(covariances @ solved))
