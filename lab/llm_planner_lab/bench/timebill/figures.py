# SPDX-License-Identifier: Apache-2.0
"""The figures of TimeBill's section 6 from the document of ``bench.timebill``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Document = Mapping[str, Any]
STRATEGIES = {"kill": "Kill", "skip_next": "Skip-Next", "partial": "partial delivery (ours)"}
_DPI = 110
_STYLES: dict[str, dict[str, Any]] = {
    "vanilla": {"color": "#7f7f7f", "marker": "x"},
    "alpha_25": {"color": "#c6dbef", "marker": "v"},
    "alpha_50": {"color": "#6baed6", "marker": "v"},
    "alpha_75": {"color": "#2171b5", "marker": "v"},
    "alpha_95": {"color": "#08306b", "marker": "v"},
    "scene_50": {"color": "#c994c7", "marker": "^"},
    "scene_90": {"color": "#dd1c77", "marker": "^"},
    "scene_50_95": {"color": "#9e9ac8", "marker": "d"},
    "scene_90_95": {"color": "#6a51a3", "marker": "d"},
    "by_need": {"color": "#67001f", "marker": "*"},
    "by_need_90": {"color": "#b2182b", "marker": "*"},
    "timebill": {"color": "#e6862a", "marker": "s"},
    "timebill_by_need": {"color": "#fdae61", "marker": "s"},
    "ours_whole_scene": {"color": "#a1d99b", "marker": "o"},
    "ours": {"color": "#2c8a3d", "marker": "o", "linewidth": 2.4},
}
INVENTORY_MEASURES = (
    ("score", "F1 of what was asked for"),
    ("completion_rate", "completion rate"),
    ("eviction_ratio", "KV evicted"),
)
_MEASURES = (
    ("score", "task success"),
    ("same_numbers", "numbers in place"),
    ("completion_rate", "completion rate"),
)


def draw_timebill(document: Document, directory: Path) -> list[Path]:
    """Draws all figures; returns their paths."""
    paths = [directory / f"timebill_{name}.png" for name in ("sweep", "k", "end_to_end")]
    draw_sweep(document["sweep"], paths[0])
    _draw_k(document["k_sweep"], paths[1])
    _draw_end_to_end(document["ete"]["end_to_end"]["vanilla"], paths[2])
    return paths


def draw_sweep(rows: Sequence[Document], path: Path, measures: Sequence[tuple[str, str]] = _MEASURES) -> None:
    """Lines: three measures against the budget, one column per overrun strategy (Fig. 7)."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    figure, grid = plt.subplots(3, 3, figsize=(10.5, 8.0), sharex=True, sharey="row", layout="constrained")
    for column, (strategy, title) in enumerate(STRATEGIES.items()):
        for line, (key, label) in enumerate(measures):
            axes = grid[line][column]
            for name, style in _STYLES.items():
                points = [r for r in rows if r["strategy"] == strategy and r["approach"] == name]
                axes.plot(
                    [r["budget_fraction"] for r in points], [_number(r[key]) for r in points], label=name, **style
                )
            axes.grid(alpha=0.3)
            axes.set_ylim(-0.03, 1.03)
            if line == 0:
                axes.set_title(title, fontsize=10)
            if column == 0:
                axes.set_ylabel(label)
        grid[2][column].set_xlabel("budget / vanilla time")
    figure.legend(*grid[0][0].get_legend_handles_labels(), fontsize=8, ncols=6, loc="outside lower center")
    _save(figure, path)


def _draw_k(rows: Sequence[Document], path: Path) -> None:
    """Lines: measures against the pessimistic factor (Fig. 8)."""
    from matplotlib import pyplot as plt

    figure, grid = plt.subplots(1, 3, figsize=(10.5, 3.2), layout="constrained")
    for axes, (key, label) in zip(grid, (_MEASURES[0], _MEASURES[2], ("eviction_ratio", "KV evicted")), strict=True):
        for name in ("timebill", "timebill_by_need", "ours_whole_scene", "ours"):
            points = [row for row in rows if row["approach"] == name]
            axes.plot([r["k"] for r in points], [_number(r[key]) for r in points], label=name, **_STYLES[name])
        axes.grid(alpha=0.3)
        axes.set(xlabel="pessimistic factor k", ylabel=label, ylim=(-0.03, 1.03))
    grid[0].legend(fontsize=8)
    _save(figure, path)


def _draw_end_to_end(rows: Sequence[Document], path: Path) -> None:
    """Points: predicted and worst-case against measured times of whole responses (Fig. 6)."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(5.2, 4.4), layout="constrained")
    measured_ms = [1000 * row["measured_s"] for row in rows]
    longest_ms = max(*measured_ms, *(1000 * row["wcet_s"] for row in rows))
    axes.plot([0, longest_ms], [0, longest_ms], color="#999999", linewidth=0.8, label="measured")
    for key, label, style in (("predicted_s", "predicted", "ours"), ("wcet_s", "worst case, k = 5", "timebill")):
        color, marker = _STYLES[style]["color"], _STYLES[style]["marker"]
        axes.scatter(measured_ms, [1000 * row[key] for row in rows], s=14, color=color, marker=marker, label=label)
    axes.set(xlabel="measured [ms]", ylabel="estimated [ms]", xlim=(0, 1.05 * max(measured_ms)), ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    _save(figure, path)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot as plt

    figure.savefig(path, dpi=_DPI)
    plt.close(figure)
