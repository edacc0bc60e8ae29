# SPDX-License-Identifier: Apache-2.0
"""Fits the six physical numbers of a pipeline profile to the Baseline columns of the paper's Table 1."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from llm_planner_lab.bench.pipeline.offline import run_workload
from llm_planner_lab.bench.pipeline.published import TABLE_1, Workload
from llm_planner_lab.simulation.pipeline.profile import Coefficient, PipelineProfile, StageCost
from llm_planner_lab.simulation.pipeline.schedulers import BASELINE

PROCESSING_WEIGHT = 0.6
"""Of the errors of Proc: it is not said which kernels the paper counts."""
MOST_OFF = 0.085
"""No Completion may be off by much more, whatever Proc would like: 10 % is what the profile must reach."""
NUM_EVALUATIONS = 150
_FIRST_STEP = (0.3, 0.3, -0.3, -0.05, 0.5, -0.05)  # of the simplex, in logarithms


@dataclass(frozen=True, slots=True, kw_only=True)
class Physical:
    """The six numbers.

    Attributes:
        layer_s: One layer for one micro-batch.
        layer_token_s: And each of its tokens.
        layer_kv_token_s: And each token in the caches.
        bytes_per_s: Through a link; not more than it is said to carry.
        latency_s: Of a message.
        bytes_per_stage: Memory for weights and KV.
    """

    layer_s: float
    layer_token_s: float
    layer_kv_token_s: float
    bytes_per_s: float
    latency_s: float
    bytes_per_stage: float

    @classmethod
    def of(cls, profile: PipelineProfile) -> "Physical":
        """Returns the numbers of a profile."""
        return cls(
            layer_s=profile.stage.layer_s.value,
            layer_token_s=profile.stage.layer_token_s.value,
            layer_kv_token_s=profile.stage.layer_kv_token_s.value,
            bytes_per_s=profile.link.bytes_per_s.value,
            latency_s=profile.link.latency_s.value,
            bytes_per_stage=profile.memory.bytes_per_stage.value,
        )

    def into(self, profile: PipelineProfile) -> PipelineProfile:
        """Returns the profile with these numbers."""
        return replace(
            profile,
            stage=StageCost(
                layer_s=_fitted(self.layer_s),
                layer_token_s=_fitted(self.layer_token_s),
                layer_kv_token_s=_fitted(self.layer_kv_token_s),
            ),
            link=replace(profile.link, bytes_per_s=_fitted(self.bytes_per_s), latency_s=_fitted(self.latency_s)),
            memory=replace(profile.memory, bytes_per_stage=_fitted(self.bytes_per_stage)),
        )


DATA_SHEET = Physical(
    layer_s=650.8e6 / 504e9,  # the weights of a layer, read once
    layer_token_s=2 * 325.4e6 / 29e12,  # multiply and add for each weight
    layer_kv_token_s=20480.0 / 504e9,
    bytes_per_s=100e6 / 8,
    latency_s=1e-3,
    bytes_per_stage=0.9 * 12.0e9,
)
"""An RTX 4070: 504 GB/s, 29 TFLOP/s, 12 GB, of which vLLM uses 90 %."""


def baseline_errors(profile: PipelineProfile, workloads: Sequence[Workload]) -> list[tuple[float, float]]:
    """Returns the logarithms of simulated over published Completion and Proc of the baseline, per workload."""
    errors = []
    for workload in workloads:
        run, published = run_workload(workload, BASELINE, profile), TABLE_1[workload].baseline
        errors.append(
            (
                math.log(run.completion_s / published.completion_s),
                math.log(run.processing_s / published.processing_s),
            )
        )
    return errors


def loss(errors: Sequence[tuple[float, float]]) -> float:
    """Returns what is minimized: the errors of both columns, and hard what is beyond ``MOST_OFF`` of a Completion."""
    completion = math.cbrt(statistics.fmean(abs(error) ** 3 for error, _ in errors))
    processing = math.sqrt(statistics.fmean(error**2 for _, error in errors))
    return (
        completion + PROCESSING_WEIGHT * processing + 5.0 * sum(max(0.0, abs(error) - MOST_OFF) for error, _ in errors)
    )


def fit(
    profile: PipelineProfile,
    start: Physical,
    num_evaluations: int = NUM_EVALUATIONS,
    workloads: Sequence[Workload] = tuple(TABLE_1),
    on_progress: Callable[[str], None] = lambda _: None,
) -> tuple[Physical, dict[str, Any]]:
    """Returns the six numbers, and how far the baseline is off with them.

    Nelder and Mead's simplex on the logarithms; nothing is random. Only the Baseline columns are looked at, never those
    of the schemes that the profile is to predict.

    Args:
        profile: Whose numbers are replaced.
        start: Where the search begins.
        num_evaluations: Most of them.
        workloads: Of Table 1.
        on_progress: Told whenever something better is found.
    """
    from scipy.optimize import minimize

    names = tuple(field.name for field in fields(Physical))
    begin = np.log([getattr(start, name) for name in names])
    best = math.inf

    def physical(logarithms: np.ndarray) -> Physical:
        return Physical(**dict(zip(names, map(float, np.exp(logarithms)), strict=True)))

    def evaluate(logarithms: np.ndarray) -> float:
        nonlocal best
        numbers = physical(logarithms)
        try:
            value = loss(baseline_errors(numbers.into(profile), workloads))
        except ValueError:  # no room for KV
            return 10.0
        if value < best:
            best = value
            on_progress(f"loss {value:.4f}: {numbers}")
        return value

    simplex = np.vstack([begin, *(begin + np.eye(6)[i] * step for i, step in enumerate(_FIRST_STEP))])
    bounds: list[tuple[float | None, float | None]] = [(None, None)] * 6
    bounds[3] = (None, math.log(DATA_SHEET.bytes_per_s))
    result = minimize(
        evaluate,
        begin,
        method="Nelder-Mead",
        bounds=bounds,
        options={"initial_simplex": simplex, "maxfev": num_evaluations, "xatol": 1e-3, "fatol": 1e-4},
    )
    numbers = physical(result.x)
    errors = baseline_errors(numbers.into(profile), workloads)
    rows = [
        {"name": w.name, "completion": math.exp(c) - 1.0, "processing": math.exp(p) - 1.0}
        for w, (c, p) in zip(workloads, errors, strict=True)
    ]
    return numbers, {"loss": float(result.fun), "num_evaluations": int(result.nfev), "baseline_errors": rows}


def write_fitted(profile: PipelineProfile, path: Path) -> None:
    """Writes a profile as YAML."""
    path.write_text(yaml.safe_dump(asdict(profile), sort_keys=False, allow_unicode=True), encoding="utf-8")


def _fitted(value: float) -> Coefficient:
    return Coefficient(value=float(f"{value:.4g}"), source="fitted")
