# SPDX-License-Identifier: Apache-2.0
"""What a training run measured: kept with the predictor as ``figures.json``, shown as a table and in its card."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

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


def table(figures: Figures) -> str:
    """Returns the errors as a Markdown table."""
    lines = ["| predictor | MAE | RMSE | R2 |", "|---|---:|---:|---:|"]
    lines += [f"| {TITLES[name]} | {_cells(errors)} |" for name, errors in figures.rows.items()]
    return "\n".join(lines)


def _cells(errors: Errors) -> str:
    r2 = "-" if errors.r2 is None else f"{errors.r2:.3f}"
    return f"{errors.mae:.2f} | {errors.rmse:.2f} | {r2}"


def _ended(errors: Errors | None) -> str:
    if errors is None:
        return ""
    r2 = "-" if errors.r2 is None else f"{errors.r2:.3f}"
    return f"\nOver the responses that ended before the limit: MAE {errors.mae:.2f}, RMSE {errors.rmse:.2f}, R2 {r2}.\n"


def card(figures: Figures, *, target: str, num_parameters: int, num_layers: int, bucket_tokens: int) -> str:
    """Returns the model card of a predictor as Markdown."""
    served = figures.served
    coverage = ", ".join(f"{100 * share:.1f} % of {100 * nominal:g} %" for nominal, share in served.coverage.items())
    return _CARD.format(
        target=target,
        parameters=f"{num_parameters / 1e6:.1f}",
        layers=num_layers,
        buckets=-(-figures.max_tokens // bucket_tokens),
        bucket_tokens=bucket_tokens,
        max_tokens=figures.max_tokens,
        table=table(figures),
        ended=_ended(served.ended) if figures.num_truncated else "",
        coverage=coverage,
        width=f"{served.width_90:g}",
        test=figures.num_test,
        truncated=figures.num_truncated,
        train=figures.num_train,
        calibration=figures.num_calibration,
        steps=figures.steps,
        seed=figures.seed,
        predict=f"{served.predict_ms[0]:.1f}",
    )


_CARD = """---
license: apache-2.0
library_name: llm_planner
---
# Response lengths of {target}

Predicts from a prompt how many tokens `{target}` will generate for it, as a distribution (RLP of TimeBill, section
4.1). It was distilled from the lengths that `{target}` really produced in service and knows no other model:
`llm_planner` refuses it for another tokenizer or other weights.

{parameters} M parameters in bfloat16: {layers} decoder layers and a head with {buckets} classes of {bucket_tokens}
token(s), up to {max_tokens} tokens. Prompts come in the tokens of `{target}`.

## Figures

{test} held-out prompts, all rows measured in the same run; errors in tokens. {truncated} of the responses ran into the
limit of {max_tokens} tokens and count as that long.

{table}
{ended}
Intervals held {coverage}; the median 90 % interval spans {width} tokens. One prediction took {predict} ms (median, on
the machine that trained it).

## Recipe

{train} prompts with measured lengths, {steps} steps, seed {seed}; {calibration} other prompts set the levels of the
intervals (distributional conformal prediction). `llm-planner train-length-predictor` does all of it;
docs/length_prediction.md explains.

## Limits

The figures hold for prompts like those of the run. The predictor knows neither what a robot does nor whether a plan is
right: where its target rambles, it can only say how likely that is.

## Licence

Apache-2.0.
"""
