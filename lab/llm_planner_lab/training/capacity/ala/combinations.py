# SPDX-License-Identifier: Apache-2.0
"""One exponential database and one regressor per combination, and predictions from them (Algorithms 4 and 5 of ALA)."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from llm_planner.prediction.throughput.table import Combination, Measurement, Workload
from llm_planner_lab.training.capacity.ala.database import Pair, build_exponential_database, to_rows
from llm_planner_lab.training.capacity.ala.exponential import ExponentialLaw
from llm_planner_lab.training.capacity.ala.parameters import ParameterRegressor, train_parameters


@dataclass(frozen=True)
class CombinationModel:
    """What is known of one combination.

    Attributes:
        laws: The parameter database P.
        seed: Of the regressor.
    """

    laws: Mapping[Pair, ExponentialLaw]
    seed: int = 0

    @cached_property
    def regressor(self) -> ParameterRegressor | None:
        """The model M for pairs that are not in P, trained when it is first asked; None if P is empty."""
        return train_parameters(to_rows(self.laws), self.seed)

    def throughput(self, workload: Workload) -> float | None:
        """Returns tokens per second, Algorithm 5 of ALA: by lookup if the pair is known, else by the regressor."""
        pair = (workload.input_tokens, workload.output_tokens)
        law = self.laws.get(pair) or (self.regressor.law(*pair) if self.regressor else None)
        return None if law is None else max(0.0, law.throughput(workload.batch_size))


def train_combination(measurements: Iterable[Measurement], seed: int = 0) -> CombinationModel:
    """Returns the model of one combination: the body of the loop of Algorithm 4."""
    return CombinationModel(build_exponential_database(measurements), seed)


@dataclass(frozen=True, slots=True)
class CombinationModels:
    """A model per combination: Algorithm 4 of ALA.

    Deviation: the paper has no prediction for a combination without measurements. The nearest combination answers then:
    the one that agrees in most of model, hardware, framework and number of devices, in this order of weight.
    """

    models: Mapping[Combination, CombinationModel]

    def throughput(self, combination: Combination, workload: Workload) -> float:
        """Returns tokens per second."""
        known = self.models.get(combination)
        value = known.throughput(workload) if known else None
        if value is not None:
            return value
        nearest = self.nearest(combination)
        values = [v for c in nearest if (v := self.models[c].throughput(workload)) is not None]
        return statistics.median(values)

    def nearest(self, combination: Combination) -> list[Combination]:
        """Returns the combinations with measurements that agree best, all that are equally near."""

        def agreement(other: Combination) -> int:
            same = [a == b for a, b in zip(combination, other, strict=True)]
            return 8 * same[3] + 4 * same[0] + 2 * same[2] + same[1]

        usable = [c for c, model in self.models.items() if model.laws]
        best = max(map(agreement, usable))
        return [c for c in usable if agreement(c) == best]


def train_combinations(measurements: Iterable[Measurement], seed: int = 0) -> CombinationModels:
    """Returns a model for each combination in the measurements: Algorithm 4 of ALA."""
    groups: defaultdict[Combination, list[Measurement]] = defaultdict(list)
    for m in measurements:
        groups[m.combination].append(m)
    return CombinationModels({c: train_combination(group, seed) for c, group in groups.items()})
