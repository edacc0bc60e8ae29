# SPDX-License-Identifier: Apache-2.0
"""The comparison of throughput models: every method on every split, in one run."""

import random
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from llm_planner.prediction.throughput.estimate import Estimate
from llm_planner.prediction.throughput.model_file import load_kernel_model
from llm_planner.prediction.throughput.table import Measurement
from llm_planner_lab.checkout import commit
from llm_planner_lab.training.capacity.ala.annealing import Annealing
from llm_planner_lab.training.capacity.ala.model import fit_ala
from llm_planner_lab.training.capacity.baselines import BASELINES
from llm_planner_lab.training.capacity.evaluate import absolute_error, evaluate_estimates
from llm_planner_lab.training.capacity.kernel_fit import fit_kernel_model
from llm_planner_lab.training.capacity.splits import (
    Split,
    large_batches,
    left_out_combinations,
    left_out_hardware,
    left_out_model,
    random_rows,
)
from llm_planner_lab.training.capacity.studies import confidence_abroad, subset_search, training_sets

Document = dict[str, Any]
Note = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityBench:
    """What is compared.

    Attributes:
        seeds: Of random splits.
        models: Left out, one at a time.
        hardware: Left out, one at a time.
        annealing: Of ALA's error predictor.
        kinds: Of splits; all if empty.
        num_search_steps: Subsets of the search over training subsets.
    """

    seeds: tuple[int, ...] = (0,)
    num_folds: int = 5
    models: tuple[str, ...] = ("mistralai/Mistral-7B-v0.1", "meta-llama/Meta-Llama-3-70B")
    hardware: tuple[str, ...] = ("Nvidia H100 GPU", "AMD MI250 GPU")
    annealing: Annealing = field(default_factory=Annealing)
    kinds: tuple[str, ...] = ()
    num_search_steps: int = 30

    def splits(self, table: Sequence[Measurement]) -> dict[str, list[Split]]:
        """Returns the splits of each kind; the tests of one kind are evaluated together."""
        return {
            "random rows": [random_rows(table, seed) for seed in self.seeds],
            "unseen combinations": left_out_combinations(table, self.seeds[0], self.num_folds),
            "large batches": [large_batches(table)],
            "one model left out": [left_out_model(table, name) for name in self.models],
            "one hardware left out": [left_out_hardware(table, name) for name in self.hardware],
        }


def run_bench(bench: CapacityBench, table: Sequence[Measurement], note: Note) -> Document:
    """Returns the document of the whole comparison (docs/benchmarks/capacity.md)."""
    seed = bench.seeds[0]
    return {
        "setup": {
            "rows": len(table),
            "combinations": len({m.combination for m in table}),
            "commit": commit(),
            "seed": seed,
            "predict_ms": prediction_ms(table, seed),
        },
        "splits": run_splits(bench, table, note),
        "training_sets": training_sets(table, seed, note),
        "subset_search": subset_search(table, seed, bench.num_search_steps, note),
        "abroad": confidence_abroad(table, seed, bench.annealing, note),
    }


def prediction_ms(table: Sequence[Measurement], seed: int) -> float:
    """Returns the median time of a prediction of the shipped model, in milliseconds; rows in random order."""
    model = load_kernel_model()
    rows = random.Random(f"times/{seed}").sample(list(table), min(len(table), 500))
    times_s = []
    for m in rows:
        started_s = time.perf_counter()
        model.estimate(m.combination, m.workload)
        times_s.append(time.perf_counter() - started_s)
    return 1000.0 * statistics.median(times_s)


def run_splits(bench: CapacityBench, table: Sequence[Measurement], note: Note) -> list[Document]:
    """Returns for each kind of split what every method reaches on all its tests together."""
    documents = []
    for kind, splits in bench.splits(table).items():
        if bench.kinds and kind not in bench.kinds:
            continue
        tests = [m for split in splits for m in split.test]
        methods: Document = {}
        for name in ("kernel", "ala", *BASELINES):
            started_s = time.process_time()
            methods[name] = _evaluated(name, splits, tests, bench)
            methods[name]["cpu_s_per_split"] = (time.process_time() - started_s) / len(splits)
            note(f"{kind}: {name} {methods[name]['median_ape']:.2%}")
        parts = [{"name": split.name, "train": len(split.train), "test": len(split.test)} for split in splits]
        documents.append({"kind": kind, "splits": parts, "n": len(tests), "methods": methods})
    return documents


def _evaluated(name: str, splits: Iterable[Split], tests: Sequence[Measurement], bench: CapacityBench) -> Document:
    seed = bench.seeds[0]
    if name in BASELINES:
        values = np.concatenate([BASELINES[name](split.train, split.test, seed) for split in splits])
        errors = [absolute_error(float(value), m) for value, m in zip(values, tests, strict=True)]
        return _summary(errors, tests)
    estimates = [e for split in splits for e in fitted_estimates(name, split, seed, bench.annealing)]
    errors = [absolute_error(e.tokens_per_s, m) for e, m in zip(estimates, tests, strict=True)]
    return {**_summary(errors, tests), **evaluate_estimates(estimates, tests)}


def fitted_estimates(name: str, split: Split, seed: int, annealing: Annealing) -> list[Estimate]:
    """Returns what a method that estimates its own errors says of the test after fitting to the rest."""
    queries = [(m.combination, m.workload) for m in split.test]
    if name == "ala":
        return fit_ala(split.train, seed, annealing).estimates(queries)
    return fit_kernel_model(split.train, seed).estimates(queries)


def _summary(errors: Sequence[float], tests: Sequence[Measurement]) -> Document:
    """Returns the errors: median, mean, percentiles, and their quartiles by model (Fig. 8)."""
    by_model = {
        model: [e for e, m in zip(errors, tests, strict=True) if m.combination.model == model]
        for model in sorted({m.combination.model for m in tests})
    }
    return {
        "median_ape": statistics.median(errors),
        "mean_ape": statistics.fmean(errors),
        "percentiles": [float(f"{q:.4g}") for q in np.percentile(errors, range(101))],
        "by_model": {
            name: [float(f"{q:.4g}") for q in np.percentile(values, (5, 25, 50, 75, 95))]
            for name, values in by_model.items()
        },
    }
