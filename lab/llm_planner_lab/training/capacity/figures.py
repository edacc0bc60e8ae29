# SPDX-License-Identifier: Apache-2.0
"""Figures of the comparison of throughput models: Figs. 6 to 8 of ALA."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

Document = dict[str, Any]
LABELS = {
    "kernel": "kernel (ours)",
    "ala": "ALA",
    "linear": "linear",
    "xgboost": "XGBoost",
    "random_forest": "random forest",
    "gradient_boosting": "gradient boosting",
    "pooled_xgboost": "pooled XGBoost",
}


def write_figures(document: Document, directory: Path) -> list[Path]:
    """Writes all figures of a document that it has the numbers for; returns their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    mpl.rcParams.update({"font.size": 8, "axes.spines.top": False, "axes.spines.right": False})
    drawn = {"splits": _splits(document["splits"]), "models": _models(document["splits"])}
    if document.get("training_sets"):
        drawn["training_sets"] = _training_sets(document["training_sets"])
    if document.get("subset_search"):
        drawn["search"] = _search(document["subset_search"])
    paths = []
    for name, figure in drawn.items():
        path = directory / f"capacity_{name}.png"
        figure.tight_layout()
        figure.savefig(path, dpi=110)
        paths.append(path)
    return paths


def _splits(splits: Sequence[Document]) -> Figure:
    """Cumulative distribution of errors of every method, one panel per kind of split."""
    figure = Figure(figsize=(11, 2.8))
    for axes, split in zip(figure.subplots(1, len(splits), sharey=True), splits, strict=True):
        for name, method in split["methods"].items():
            is_ours = name == "kernel"
            values = [100 * value for value in method["percentiles"]]
            axes.plot(values, range(101), label=LABELS[name], lw=2 if is_ours else 1, zorder=3 if is_ours else 2)
        axes.set(xscale="log", xlim=(0.1, 1000), title=split["kind"], xlabel="absolute error [%]")
    figure.axes[0].set_ylabel("share of rows [%]")
    figure.axes[-1].legend(fontsize=6, frameon=False)
    return figure


def _models(splits: Sequence[Document]) -> Figure:
    """Quartiles of errors by language model on withheld rows (Fig. 8)."""
    methods = splits[0]["methods"]
    names = [name for name in ("kernel", "ala") if name in methods]
    figure = Figure(figsize=(9, 3.2))
    for axes, name in zip(figure.subplots(1, len(names), sharey=True, squeeze=False)[0], names, strict=True):
        by_model = methods[name]["by_model"]
        boxes = [
            {"label": model.rpartition("/")[2], "whislo": low, "q1": q1, "med": middle, "q3": q3, "whishi": high}
            for model, (low, q1, middle, q3, high) in (
                (model, [max(1e-3, 100 * value) for value in values]) for model, values in by_model.items()
            )
        ]
        axes.bxp(boxes, showfliers=False)
        axes.set(yscale="log", title=LABELS[name])
        axes.tick_params(axis="x", rotation=90)
    figure.axes[0].set_ylabel("absolute error [%]")
    return figure


def _training_sets(sets: Sequence[Document]) -> Figure:
    """Histograms of errors for different training sets (Fig. 6)."""
    figure = Figure(figsize=(11, 2.6))
    for axes, entry in zip(figure.subplots(1, len(sets), sharey=True), sets, strict=True):
        for name in ("ala", "kernel"):
            values = [min(60.0, 100 * value) for value in entry[name]["percentiles"]]
            axes.hist(values, bins=range(0, 62, 2), alpha=0.6, label=LABELS[name])
        axes.set(title=entry["name"], xlabel="absolute error [%]")
    figure.axes[0].set_ylabel("share of rows [%]")
    figure.axes[0].legend(frameon=False)
    return figure


def _search(search: Document) -> Figure:
    """Errors and training times along a search over subsets (Fig. 7)."""
    figure = Figure(figsize=(11, 5.6))
    first, second, third, fourth = figure.subplots(2, 2).ravel()
    names = list(search["median_ape"])
    labels = [LABELS[name] for name in names]
    first.boxplot([[100 * e for e in search["median_ape"][name]] for name in names], tick_labels=labels)
    first.set(yscale="log", ylabel="median error [%]", title="(a) errors over all subsets")
    third.boxplot([search["cpu_s"][name] for name in names], tick_labels=labels)
    third.set(yscale="log", ylabel="training [s]", title="(c) processor time")
    for name in names:
        second.plot([100 * e for e in search["median_ape"][name]], label=LABELS[name], lw=1)
        fourth.plot(search["train_rows"], search["cpu_s"][name], ".", label=LABELS[name], ms=3)
    second.set(yscale="log", xlabel="iteration", title="(b) errors along the search")
    fourth.set(yscale="log", xlabel="training rows", title="(d) processor time and rows")
    second.legend(fontsize=6, frameon=False)
    for axes in (first, third):
        axes.tick_params(axis="x", rotation=30)
    return figure
