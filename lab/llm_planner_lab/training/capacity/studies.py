# SPDX-License-Identifier: Apache-2.0
"""The paper's other experiments on the public table: what to train on, search over subsets, confidence abroad."""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from llm_planner.prediction.throughput.table import Measurement
from llm_planner_lab.training.capacity.ala.annealing import Annealing, SubsetEvaluator, anneal
from llm_planner_lab.training.capacity.ala.combinations import train_combinations
from llm_planner_lab.training.capacity.ala.model import fit_ala
from llm_planner_lab.training.capacity.baselines import BASELINES
from llm_planner_lab.training.capacity.evaluate import absolute_error, evaluate
from llm_planner_lab.training.capacity.kernel_fit import fit_kernel_model
from llm_planner_lab.training.capacity.splits import random_rows

Document = dict[str, Any]
Table = Sequence[Measurement]
Note = Callable[[str], None]

SUBSET_MODEL = "meta-llama/Llama-2-7b-hf"
"""Whose rows the search over subsets is shown on: it has most of them."""
TRAINED_ON = ("meta-llama/Llama-2-7b-hf", "meta-llama/Meta-Llama-3-8B")
NEARBY, ABROAD = ("Nvidia H100 GPU", "Nvidia A100 GPU", "Nvidia GH200 GPU"), "AMD MI250 GPU"


def training_sets(table: Table, seed: int, note: Note) -> list[Document]:
    """Returns errors on the same held-out rows after training on four different parts of the others (Figs. 5 and 6).

    The paper draws its four training sets but does not list them; these have the properties that its text names.
    """
    split = random_rows(table, seed)
    rng = random.Random(f"training sets/{seed}")
    sets: dict[str, list[Measurement]] = {
        "1: broad": list(split.train),
        "2: dense, batches of 16 and more": [m for m in split.train if m.batch_size >= 16],
        "3: no batches above 16": [m for m in split.train if m.batch_size <= 16],
        "4: sparse, every third row": rng.sample(split.train, len(split.train) // 3),
    }
    documents = []
    for name, train in sets.items():
        ala = train_combinations(train, seed)
        errors = [absolute_error(ala.throughput(m.combination, m.workload), m) for m in split.test]
        ours = fit_kernel_model(train, seed)
        ours_errors = [
            absolute_error(e.tokens_per_s, m)
            for e, m in zip(ours.estimates([(m.combination, m.workload) for m in split.test]), split.test, strict=True)
        ]
        documents.append({"name": name, "train": len(train), "ala": _short(errors), "kernel": _short(ours_errors)})
        note(f"training set {name}: ala {statistics.median(errors):.2%}, kernel {statistics.median(ours_errors):.2%}")
    return documents


def subset_search(table: Table, seed: int, num_iterations: int, note: Note) -> Document:
    """Returns, along a search over training subsets, the error of each method and what training takes (Fig. 7).

    Every method is trained on the rows of the same subset and asked about all others of the model.
    """
    rows = [m for m in table if m.combination.model == SUBSET_MODEL]
    evaluator = SubsetEvaluator(rows, seed)
    settings = Annealing(num_iterations=num_iterations, first_share=0.5)
    log = anneal(sorted({m.workload for m in rows}), evaluator, random.Random(f"search/{seed}"), settings)
    methods: dict[str, list[float]] = {name: [] for name in ("ala", *BASELINES)}
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    sizes: list[int] = []
    for step in log:
        train = [m for m in rows if m.workload in step.subset]
        test = [m for m in rows if m.workload not in step.subset]
        sizes.append(len(train))
        for name, errors in methods.items():
            started_s = time.process_time()
            if name == "ala":
                ala = train_combinations(train, seed)
                values = [ala.throughput(m.combination, m.workload) for m in test]
            else:
                values = [float(v) for v in BASELINES[name](train, test, seed)]
            seconds[name].append(time.process_time() - started_s)
            errors.append(statistics.median(absolute_error(v, m) for v, m in zip(values, test, strict=True)))
    note(f"search over subsets: ala {statistics.median(methods['ala']):.2%} in the median")
    return {"model": SUBSET_MODEL, "train_rows": sizes, "median_ape": methods, "cpu_s": seconds}


def confidence_abroad(table: Table, seed: int, annealing: Annealing, note: Note) -> list[Document]:
    """Returns predicted and actual errors at home, of another model, and on another maker's device (Table I)."""
    home = [m for m in table if m.combination.model in TRAINED_ON and m.combination.hardware in NEARBY]
    split = random_rows(home, seed)
    sets = {
        "Llama subset, Nvidia": split.test,
        "Mistral 7B, Nvidia": [m for m in table if _is(m, "mistralai/Mistral-7B-v0.1", *NEARBY)],
        "Qwen2-7B, AMD MI250": [m for m in table if _is(m, "Qwen/Qwen2-7B", ABROAD)],
    }
    ala, ours = fit_ala(split.train, seed, annealing), fit_kernel_model(split.train, seed)
    documents = []
    for name, rows in sets.items():
        predicted, confidence = ala.errors.predict([m.workload for m in rows])
        kernel = evaluate(ours, rows)
        documents.append(
            {
                "name": name,
                "n": len(rows),
                "ala": {
                    "predicted_error": predicted,
                    "confidence": confidence,
                    "median_ape": evaluate(ala, rows)["median_ape"],
                },
                "kernel": {
                    "predicted_error": statistics.median(g["predicted_error"] for g in kernel["groups"]),
                    "confidence": statistics.fmean(g["confidence"] for g in kernel["groups"]),
                    "median_ape": kernel["median_ape"],
                    "coverage_90": kernel["coverage_90"],
                },
            }
        )
        note(f"abroad: {name}")
    return documents


def _is(m: Measurement, model: str, *hardware: str) -> bool:
    return m.combination.model == model and m.combination.hardware in hardware


def _short(errors: Sequence[float]) -> Document:
    ordered = sorted(errors)
    return {
        "median_ape": statistics.median(ordered),
        "percentiles": [float(f"{ordered[round(q / 100 * (len(ordered) - 1))]:.4g}") for q in range(101)],
    }
