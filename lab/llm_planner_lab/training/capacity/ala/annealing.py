# SPDX-License-Identifier: Apache-2.0
"""Simulated annealing over training subsets: how the error depends on what was measured (Algorithm 6 of ALA)."""

import math
import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from llm_planner.prediction.throughput.table import Combination, Measurement, Workload
from llm_planner_lab.training.capacity.ala.combinations import CombinationModel
from llm_planner_lab.training.capacity.ala.database import Pair, fit_law
from llm_planner_lab.training.capacity.ala.exponential import ExponentialLaw

Subset = frozenset[Workload]
"""Training points (ii, oo, bb): those measurements are trained on, of every combination."""
OnIteration = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Annealing:
    """How the search goes.

    The paper prints neither of these numbers.

    Attributes:
        num_iterations: N.
        temperature: tau at the start, as a fraction of error.
        cooling: alpha.
        first_share: Share of the points in S_0.
        most_changes: Points that one modification adds or deletes, at most.
        most_combinations: That subsets are evaluated on, drawn at random: an evaluation fits each of them.
    """

    num_iterations: int = 50
    temperature: float = 0.05
    cooling: float = 0.95
    first_share: float = 0.7
    most_changes: int = 3
    most_combinations: int = 25


@dataclass(frozen=True, slots=True)
class Step:
    """An entry of the log L: a subset, and the median error of what was trained on it."""

    subset: Subset
    error: float


@dataclass(slots=True)
class SubsetEvaluator:
    """``EvaluateSubset``: trains on a subset of points, returns the median absolute percentage error on all others.

    What was fitted to the same points of a combination before is not fitted again.
    """

    measurements: Sequence[Measurement]
    seed: int = 0
    _groups: dict[Combination, list[Measurement]] = field(default_factory=dict)
    _laws: dict[tuple[Combination, Pair, Subset], ExponentialLaw | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        groups: defaultdict[Combination, list[Measurement]] = defaultdict(list)
        for m in self.measurements:
            groups[m.combination].append(m)
        self._groups = dict(groups)

    def __call__(self, subset: Subset) -> float:
        """Returns the error, as a fraction; 1 if nothing can be trained or nothing is left out."""
        errors = [error for c in self._groups for error in self._errors(c, subset)]
        return statistics.median(errors) if errors else 1.0

    def _errors(self, combination: Combination, subset: Subset) -> list[float]:
        group = self._groups[combination]
        left_out = [m for m in group if m.workload not in subset]
        model = self._train(combination, [m for m in group if m.workload in subset])
        predicted = [(m, model.throughput(m.workload)) for m in left_out]
        return [abs(p / m.throughput_tokens_per_s - 1.0) for m, p in predicted if p is not None]

    def _train(self, combination: Combination, train: Sequence[Measurement]) -> CombinationModel:
        points: defaultdict[Pair, list[Measurement]] = defaultdict(list)
        for m in train:
            points[m.length_tokens, m.length_tokens].append(m)
        laws: dict[Pair, ExponentialLaw] = {}
        for pair, group in points.items():
            key = (combination, pair, frozenset(m.workload for m in group))
            if key not in self._laws:
                self._laws[key] = fit_law([(m.batch_size, m.throughput_tokens_per_s) for m in group])
            if (law := self._laws[key]) is not None:
                laws[pair] = law
        return CombinationModel(laws, self.seed)


def anneal(
    points: Sequence[Workload],
    evaluate: Callable[[Subset], float],
    rng: random.Random,
    annealing: Annealing | None = None,
    on_iteration: OnIteration = lambda _done, _of: None,
) -> list[Step]:
    """Returns the log of a search for a training subset with a low error: Algorithm 6 of ALA.

    Args:
        points: All that a subset may hold, in a fixed order; at least two.
        evaluate: Error of a subset.
        rng: Decides on modifications and on the acceptance of worse subsets.
        annealing: Its temperature and length.
        on_iteration: Receives how far it is.
    """
    settings = annealing or Annealing()
    best = frozenset(rng.sample(list(points), max(1, round(settings.first_share * len(points)))))
    best_error, temperature = evaluate(best), settings.temperature
    log: list[Step] = []
    for iteration in range(settings.num_iterations):
        temperature *= settings.cooling
        candidate = _modified(best, points, rng, settings.most_changes)
        error = evaluate(candidate)
        if error < best_error or math.exp((best_error - error) / temperature) > rng.random():
            best, best_error = candidate, error
        log.append(Step(candidate, error))
        on_iteration(iteration + 1, settings.num_iterations)
    return log


def _modified(subset: Subset, points: Sequence[Workload], rng: random.Random, most_changes: int) -> Subset:
    """``ModifySubset``: adds or deletes a few points; never leaves none or all of them."""
    changed = set(subset)
    for point in rng.sample(list(points), rng.randint(1, min(most_changes, len(points)))):
        changed ^= {point}
    return frozenset(changed) if 0 < len(changed) < len(points) else subset
