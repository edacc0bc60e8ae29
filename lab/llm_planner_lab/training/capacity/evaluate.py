# SPDX-License-Identifier: Apache-2.0
"""How good a throughput model is on a table that it was not fitted to."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from scipy.stats import spearmanr

from llm_planner.prediction.throughput.estimate import Estimate, ThroughputModel
from llm_planner.prediction.throughput.table import Measurement


def evaluate(model: ThroughputModel, table: Sequence[Measurement]) -> dict[str, Any]:
    """Returns the JSON document of an evaluation.

    Errors are absolute errors over the measured throughput, as fractions. A group is all rows of one hardware, model
    and framework; ``spearman_error`` correlates the ranks of predicted and actual errors of groups.
    """
    return evaluate_estimates(model.estimates([(m.combination, m.workload) for m in table]), table)


def evaluate_estimates(estimates: Sequence[Estimate], table: Sequence[Measurement]) -> dict[str, Any]:
    """Returns the document of ``evaluate`` for estimates that were made already."""
    errors = [absolute_error(e.tokens_per_s, m) for e, m in zip(estimates, table, strict=True)]
    held = [
        e.low_tokens_per_s <= m.throughput_tokens_per_s <= e.high_tokens_per_s
        for e, m in zip(estimates, table, strict=True)
    ]
    groups: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
    for row, m in enumerate(table):
        groups[m.combination.hardware, m.combination.model, m.combination.framework].append(row)
    rows: list[dict[str, Any]] = [
        {
            "hardware": hardware,
            "model": model,
            "framework": framework,
            "n": len(members),
            "median_ape": statistics.median(errors[i] for i in members),
            "predicted_error": statistics.median(estimates[i].predicted_error for i in members),
            "confidence": statistics.fmean(estimates[i].confidence for i in members),
        }
        for (hardware, model, framework), members in sorted(groups.items())
    ]
    return {
        "n": len(table),
        "median_ape": statistics.median(errors),
        "mean_ape": statistics.fmean(errors),
        "spearman_error": rank_correlation(
            [row["predicted_error"] for row in rows], [row["median_ape"] for row in rows]
        ),
        "coverage_90": statistics.fmean(held),
        "groups": rows,
    }


def absolute_error(tokens_per_s: float, m: Measurement) -> float:
    """Returns the absolute error as a fraction of what was measured."""
    return abs(tokens_per_s / m.throughput_tokens_per_s - 1.0)


def rank_correlation(predicted: Sequence[float], actual: Sequence[float]) -> float | None:
    """Returns Spearman's coefficient; None for fewer than three pairs, or if all of one side are equal."""
    if len(predicted) < 3 or len(set(predicted)) < 2 or len(set(actual)) < 2:
        return None
    return float(spearmanr(predicted, actual).statistic)
