# SPDX-License-Identifier: Apache-2.0
"""What a training run measured: kept with the predictor as ``figures.json``, shown as a table and in its card."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from llm_planner_lab.templates import render
from llm_planner_lab.training.length.measure import Errors, ServedFigures

FIGURES_NAME = "figures.json"
TITLES = {
    "rlp": "RLP, mean of its distribution",
    "rlp_bucket_end": "RLP, end of the most probable bucket (Eq. 2)",
    "regression": "same decoder, regression",
    "classes_5": "same decoder, 5 classes",
    "classes_10": "same decoder, 10 classes",
    "boosted_trees": "boosted trees on token counts",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Everything that one run measured, on the same held-out prompts.

    Attributes:
        served: The predictor, loaded and asked as in service.
        baselines: Errors by name.
        num_train: Prompts that were learned from.
        num_calibration: Prompts that chose the levels of intervals.
        num_test: Prompts that the figures are of.
        num_truncated: Of these, responses that ran into the limit.
        max_tokens: The limit.
        seed: Of everything.
        steps: Of training, the same for every network.
    """

    served: ServedFigures
    baselines: dict[str, Errors]
    num_train: int
    num_calibration: int
    num_test: int
    num_truncated: int
    max_tokens: int
    seed: int
    steps: int

    @property
    def rows(self) -> dict[str, Errors]:
        """Errors by name, the predictor first."""
        return {"rlp": self.served.mean, "rlp_bucket_end": self.served.bucket_end, **self.baselines}

    def to_json(self) -> dict[str, Any]:
        """Returns what ``llm-planner bench timebill`` reports of lengths, and how it was measured."""
        return {
            "rlp": {name: asdict(errors) for name, errors in self.rows.items()},
            "rlp_ended": asdict(self.served.ended) if self.served.ended else None,
            "interval_coverage_90": self.served.coverage[0.9],
            "interval_coverage": {f"{nominal:g}": share for nominal, share in self.served.coverage.items()},
            "interval_width_90_tokens": self.served.width_90,
            "interval_90_by_prompt": [asdict(group) for group in self.served.groups],
            "bound_99_9": self.served.bound_999,
            "predict_ms": dict(zip(("p50", "p99"), self.served.predict_ms, strict=True)),
            "num_prompts": {"train": self.num_train, "calibration": self.num_calibration, "test": self.num_test},
            "num_truncated": self.num_truncated,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "steps": self.steps,
        }

    def save(self, directory: Path) -> None:
        """Writes ``figures.json``."""
        (directory / FIGURES_NAME).write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")


def card(figures: Mapping[str, Any], *, target: str, num_parameters: int, num_layers: int, bucket_tokens: int) -> str:
    """Returns the model card of a predictor as Markdown.

    Args:
        figures: Content of ``figures.json``.
        target: Name of the model whose lengths are predicted.
        num_parameters: Of the predictor.
        num_layers: Of its decoder.
        bucket_tokens: Tokens of a class.
    """
    return render(
        "length_card",
        figures=figures,
        titles=TITLES,
        target=target,
        num_parameters=num_parameters,
        num_layers=num_layers,
        num_buckets=-(-figures["max_tokens"] // bucket_tokens),
        bucket_tokens=bucket_tokens,
    )
