# SPDX-License-Identifier: Apache-2.0
"""The figures of the pipeline benchmark."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from llm_planner_lab.bench.pipeline.timeline import ZOOM_S, Timeline

Document = Mapping[str, Any]
_DPI = 110
LABELS = {
    "baseline": "vLLM 0.9 (paper's baseline)",
    "token_budget": "Algorithm 1 (paper)",
    "both": "Algorithms 1 + 2 (paper)",
    "vllm_0_32": "vLLM 0.32",
    "ours": "ours",
    "ours_urgent": "ours, urgent first",
}
_COLORS = {
    "baseline": "#7f7f7f",
    "token_budget": "#6baed6",
    "both": "#2171b5",
    "vllm_0_32": "#e6862a",
    "ours": "#2c8a3d",
    "ours_urgent": "#8a2c6b",
}
_LINES: dict[str, dict[str, Any]] = {  # two lines that often coincide can both be seen
    "baseline": {"linewidth": 3.2},
    "ours": {"linewidth": 3.2},
    "ours_urgent": {"linestyle": "--"},
}
_SWEEPS = {
    "bandwidth_mbps": "bandwidth [Mbps]",
    "stages": "stages",
    "stage_skew": "last stage slower by factor",
    "length_skew": "skew of lengths (sigma)",
}


def draw_pipeline(document: Document, lines: Sequence[Timeline], directory: Path) -> list[Path]:
    """Draws all figures; returns their paths."""
    import matplotlib as mpl

    mpl.use("Agg")
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / f"pipeline_{name}.png" for name in ("workloads", "timeline", "online", "sweeps")]
    _draw_workloads(document["workloads"], paths[0])
    _draw_timelines(lines, paths[1])
    _draw_online(document["online"], paths[2])
    _draw_sweeps(document["sweeps"], paths[3])
    return paths


def _draw_workloads(rows: Sequence[Document], path: Path) -> None:
    """Points: completion against the baseline's, the paper's hollow and ours filled (Table 1)."""
    from matplotlib import pyplot as plt

    figure, grid = plt.subplots(2, 1, figsize=(10.0, 6.4), sharex=True, layout="constrained")
    places = np.arange(len(rows))
    for axes, key, label in ((grid[0], "completion_s", "completion"), (grid[1], "idle_s", "GPU idle")):
        for offset, name in zip((-0.3, -0.15, 0.0, 0.15), ("token_budget", "both", "vllm_0_32", "ours"), strict=True):
            simulated = [row[name][key] / row["baseline"][key] for row in rows]
            axes.bar(places + offset, simulated, width=0.14, color=_COLORS[name], label=LABELS[name])
            known = [(i, row["published"]) for i, row in enumerate(rows) if row["published"]]
            if name in {"token_budget", "both"}:
                axes.scatter(
                    [i + offset for i, _ in known],
                    [p[name][key] / p["baseline"][key] for _, p in known],
                    s=22, marker="D", facecolor="white", edgecolor="black", zorder=3,
                    label="as published" if name == "both" else None,
                )  # fmt: skip
        axes.axhline(1.0, color="#7f7f7f", linewidth=0.8)
        axes.set_ylabel(f"{label} / baseline's")
        axes.grid(alpha=0.3, axis="y")
    grid[0].legend(fontsize=8, ncols=5, loc="upper center", bbox_to_anchor=(0.5, 1.18))
    grid[1].set_xticks(places, [row["name"] for row in rows], fontsize=8)
    _save(figure, path)


def _draw_timelines(lines: Sequence[Timeline], path: Path) -> None:
    """Strips: how busy each stage is over the whole run, and single micro-batches in its middle (Fig. 2)."""
    from matplotlib import pyplot as plt

    figure, grid = plt.subplots(
        len(lines), 2, figsize=(11.0, 1.5 * len(lines) + 0.6), layout="constrained", width_ratios=(2, 1)
    )
    for row, line in zip(grid, lines, strict=True):
        num_stages, num_bins = line.busy.shape
        image = row[0].imshow(
            line.busy, aspect="auto", cmap="Greens", vmin=0, vmax=1, interpolation="nearest",
            extent=(0, line.bin_s * num_bins, num_stages - 0.5, -0.5),
        )  # fmt: skip
        row[0].axvline(line.completion_s, color="#c0392b", linewidth=1.2)
        row[0].set_title(f"{LABELS[line.name]}: {line.completion_s:.0f} s", fontsize=9, loc="left")
        for stage in range(num_stages):
            spans = [(p.began_s - line.zoom_s, p.ended_s - p.began_s) for p in line.zoom if p.stage == stage]
            row[1].broken_barh(spans, (stage - 0.4, 0.8), color=_COLORS[line.name], edgecolor="white", linewidth=0.3)
        row[1].set(xlim=(0, ZOOM_S), ylim=(num_stages - 0.5, -0.5))
        for axes in row:
            axes.set_yticks(range(num_stages))
            axes.set_ylabel("stage", fontsize=8)
    grid[-1][0].set_xlabel("time [s]")
    grid[-1][1].set_xlabel(f"{ZOOM_S:g} s in the middle [s]")
    figure.colorbar(image, ax=grid[:, 0], label="computing", shrink=0.6)
    _save(figure, path)


def _draw_online(online: Document, path: Path) -> None:
    """Lines: share of requests in flight that satisfy both targets, over time (Fig. 3)."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(10.0, 3.6), layout="constrained")
    series = online["series"]
    for name in series:
        if name != "time_s":
            values = [float("nan") if value is None else 100 * value for value in series[name]]
            style = {"linewidth": 1.1, **_LINES.get(name, {})}
            axes.plot(series["time_s"], values, color=_COLORS[name], label=LABELS[name], **style)
    targets = online["targets"]
    axes.set(
        xlabel="time [s]",
        ylabel=f"in flight with TTFT <= {targets['ttft_s']:g} s,\nITL <= {1000 * targets['itl_s']:g} ms [%]",
        ylim=(-3, 103),
    )
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="center right")
    _save(figure, path)


def _draw_sweeps(sweeps: Document, path: Path) -> None:
    """Lines: completion against what is varied."""
    from matplotlib import pyplot as plt

    figure, grid = plt.subplots(2, 2, figsize=(10.0, 6.6), layout="constrained")
    for axes, (key, label) in zip(grid.flat, _SWEEPS.items(), strict=True):
        points = sweeps[key]
        for name in points[0]:
            if name != "value":
                times_s = [point[name]["completion_s"] for point in points]
                axes.plot(
                    [p["value"] for p in points], times_s,
                    marker="o", color=_COLORS[name], label=LABELS[name], **_LINES.get(name, {}),
                )  # fmt: skip
        axes.set(xlabel=label, ylabel="completion [s]")
        if key == "bandwidth_mbps":
            axes.set(xscale="log", yscale="log")
        else:
            axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    grid[0][0].legend(fontsize=8)
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot as plt

    figure.savefig(path, dpi=_DPI)
    plt.close(figure)
