# SPDX-License-Identifier: Apache-2.0
"""Figures 5, 6 and 7 of A_min from the document of the evaluation."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_planner_lab.bench.admission.experiment import OURS

Document = Mapping[str, Any]
FIGURES = {
    "admission_fig5.png": ("1:1000",),
    "admission_fig6.png": ("bins:100",),
    "admission_fig7.png": ("relative:0.1", "relative:0.95", "relative:0.99"),
}
_DPI = 110
_STYLES: dict[str, dict[str, Any]] = {
    "a_max": {"color": "#b3452c", "marker": "x", "label": "A_max"},
    "a_min": {"color": "#e6862a", "marker": "s", "label": "A_min"},
    "h_sf": {"color": "#7f7f7f", "marker": "v", "label": "H-SF, knows all lengths"},
    OURS: {"color": "#2c8a3d", "marker": "o", "linewidth": 2.4, "label": "ours"},
}


def draw_admission(sweep: Document, directory: Path) -> list[Path]:
    """Draws mean latency against the number of jobs, one panel per interval; returns the paths."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, intervals in FIGURES.items():
        size = (4.0 * len(intervals) + 1.5, 3.6)
        figure, grid = plt.subplots(1, len(intervals), figsize=size, squeeze=False, sharey=True, layout="constrained")
        for axes, interval in zip(grid[0], intervals, strict=True):
            _draw_lines(axes, sweep["runs"], interval)
        grid[0][0].set_ylabel("mean latency [steps]")
        grid[0][0].legend(fontsize=8)
        grid[0][0].set_ylim(bottom=0)  # shared by all panels, once all lines are there
        paths.append(directory / name)
        figure.savefig(paths[-1], dpi=_DPI)
        plt.close(figure)
    return paths


def _draw_lines(axes: Any, runs: Sequence[Document], interval: str) -> None:
    for policy, style in _STYLES.items():
        latencies: dict[int, list[float]] = {}
        for run in runs:
            if run["policy"] == policy and run["interval"] == interval:
                latencies.setdefault(run["n"], []).append(run["mean_latency"])
        numbers = sorted(latencies)
        axes.plot(numbers, [statistics.fmean(latencies[n]) for n in numbers], **style)
    axes.set_title(f"interval {interval}", fontsize=9)
    axes.set_xlabel("number of jobs")
    axes.grid(alpha=0.3)
