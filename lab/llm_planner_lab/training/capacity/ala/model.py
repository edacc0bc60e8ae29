# SPDX-License-Identifier: Apache-2.0
"""ALA as a throughput model: all its algorithms together, and as a file."""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xgboost

from llm_planner.prediction.throughput.estimate import Estimate
from llm_planner.prediction.throughput.model_file import FORMAT
from llm_planner.prediction.throughput.table import Combination, Measurement, Workload, require_names
from llm_planner_lab.training.capacity.ala.annealing import Annealing, SubsetEvaluator, anneal
from llm_planner_lab.training.capacity.ala.combinations import CombinationModel, CombinationModels, train_combinations
from llm_planner_lab.training.capacity.ala.error import Encoding, ErrorPredictor, train_error_predictor
from llm_planner_lab.training.capacity.ala.exponential import ExponentialLaw

REACH = 2.44
"""A 90 % interval over a median absolute error, if errors are normal. Deviation: the paper has no intervals."""
LEAST_TOKENS_PER_S = 1e-6


@dataclass(frozen=True, slots=True)
class AlaModel:
    """The method as printed.

    Attributes:
        models: Of Algorithms 1 to 5.
        errors: Of Algorithms 6 to 8.
    """

    models: CombinationModels
    errors: ErrorPredictor
    method: str = "ala"

    def require_known(self, combination: Combination) -> None:
        """Makes sure that the databases name the parts of a combination; INVALID_CONFIG names the nearest ones."""
        hardware, _, frameworks, models = (set(names) for names in zip(*self.models.models, strict=True))
        require_names(combination, hardware, frameworks, models)

    def estimates(self, queries: Sequence[tuple[Combination, Workload]]) -> list[Estimate]:
        """Returns what to expect; the queries of one combination are one new data set for Algorithm 8."""
        groups: defaultdict[Combination, list[Workload]] = defaultdict(list)
        for combination, workload in queries:
            groups[combination].append(workload)
        reliability = {combination: self.errors.predict(points) for combination, points in groups.items()}
        return [self._estimate(c, workload, *reliability[c]) for c, workload in queries]

    def _estimate(self, combination: Combination, workload: Workload, error: float, confidence: float) -> Estimate:
        value = max(LEAST_TOKENS_PER_S, self.models.throughput(combination, workload))
        return Estimate(
            tokens_per_s=value,
            low_tokens_per_s=value * max(0.0, 1.0 - REACH * error),
            high_tokens_per_s=value * (1.0 + REACH * error),
            predicted_error=error,
            confidence=confidence,
            is_seen=combination in self.models.models,
        )


def fit_ala(
    table: Sequence[Measurement],
    seed: int = 0,
    annealing: Annealing | None = None,
    on_step: Callable[[int, int], None] = lambda _done, _of: None,
) -> AlaModel:
    """Returns ALA fitted to a table; the same seed gives the same model."""
    annealing, rng = annealing or Annealing(), random.Random(f"annealing/{seed}")
    combinations = sorted({m.combination for m in table})
    drawn = set(rng.sample(combinations, min(annealing.most_combinations, len(combinations))))
    points = sorted({m.workload for m in table})
    evaluate = SubsetEvaluator([m for m in table if m.combination in drawn], seed)
    log = anneal(points, evaluate, rng, annealing, on_step)
    return AlaModel(train_combinations(table, seed), train_error_predictor(log, seed))


def write_ala(model: AlaModel, path: Path) -> None:
    """Writes a model; regressors of single combinations are trained again from the database when they are needed."""
    errors = model.errors
    document = {
        "format": FORMAT,
        "method": model.method,
        "combinations": [
            {"combination": combination, "laws": [[*pair, *law] for pair, law in sorted(single.laws.items())]}
            for combination, single in sorted(model.models.models.items())
        ],
        "encoding": errors.encoding,
        "error_predictor": json.loads(errors.booster.save_raw("json")),
        "history": [[histogram.tolist() for histogram in step] for step in errors.history],
    }
    path.write_text(json.dumps(document) + "\n", encoding="utf-8")


def read_ala(document: dict[str, Any]) -> AlaModel:
    """Returns the model of a document that ``write_ala`` wrote; raises KeyError, TypeError or ValueError otherwise."""
    models: dict[Combination, CombinationModel] = {}
    for entry in document["combinations"]:
        rows = np.array(entry["laws"], dtype=np.float64).reshape(-1, 5)
        laws = {(int(row[0]), int(row[1])): ExponentialLaw(*map(float, row[2:])) for row in rows}
        models[Combination(*entry["combination"])] = CombinationModel(laws)
    booster = xgboost.Booster()
    booster.load_model(bytearray(json.dumps(document["error_predictor"]).encode()))
    encoding = Encoding(*(tuple(values) for values in document["encoding"]))
    history = [[np.array(histogram) for histogram in step] for step in document["history"]]
    return AlaModel(CombinationModels(models), ErrorPredictor(encoding, booster, history))
