# SPDX-License-Identifier: Apache-2.0
"""The page docs/benchmarks/capacity.md from the document of a comparison."""

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from llm_planner_lab.training.capacity.figures import LABELS

Document = dict[str, Any]

_HEAD = """# Throughput models: ALA, its baselines, and ours

Written by `llm-planner capacity bench` on {rows} rows of {combinations} combinations (hardware, number of devices,
framework, model) of the public table in `profiles/throughput/`, commit `{commit}`. All errors are absolute errors over
the measured throughput. Nothing of a test is seen before it: neither weights, nor hyperparameters, nor calibration.
Repeats of the same row differ by 0.8 % in the median.

`kernel` is the default of `llm-planner capacity fit`; `ala` is the paper's method as printed (docs/capacity.md).
The paper's own 4 % is on a table of its own that was not published. Its baselines have their libraries' defaults;
`pooled XGBoost` is on log throughput with a column per name.
"""

_KINDS = {
    "random rows": "A fifth of the rows, at random; their combinations have other rows.",
    "unseen combinations": "Five folds over whole combinations: a model in a framework on n devices is new, the "
    "rest of the table is known. All five tests together.",
    "large batches": "Trained on batches up to 32, asked about larger ones.",
    "one model left out": "All rows of a model: {names}. Each in turn.",
    "one hardware left out": "All rows of a device: {names}. Each in turn.",
}


def write_page(document: Document, path: Path) -> None:
    """Writes the page; its figures are expected next to it, in ``figures/``."""
    sections = [_wrapped(_HEAD.format(**document["setup"])), "## The figures to reach\n\n" + _aims(document)]
    sections.append("## Splits (Figs. 7a and 8)\n\n" + _splits(document["splits"]))
    if document.get("training_sets"):
        sections.append("## What to train on (Fig. 6)\n\n" + _training_sets(document["training_sets"]))
    if document.get("subset_search"):
        sections.append("## Search over training subsets (Fig. 7)\n\n" + _search(document["subset_search"]))
    if document.get("abroad"):
        sections.append("## Confidence abroad (Table I)\n\n" + _abroad(document["abroad"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(section.rstrip() + "\n" for section in sections), encoding="utf-8")


def _aims(document: Document) -> str:
    found = {split["kind"]: split["methods"]["kernel"] for split in document["splits"]}
    rows = []
    for kind, limit in (("random rows", 0.02), ("unseen combinations", 0.06)):
        if kind in found:
            rows.append([f"median error, {kind}", f"at most {limit:.0%}", f"{found[kind]['median_ape']:.2%}"])
            rows.append([f"90 % intervals hold, {kind}", "85 to 95 %", f"{found[kind]['coverage_90']:.1%}"])
    if "unseen combinations" in found:
        rank = found["unseen combinations"]["spearman_error"]
        rows.append(["rank correlation of predicted and actual errors, unseen", "at least 0.6", f"{rank:.2f}"])
    if document["setup"].get("predict_ms"):
        rows.append(["one prediction, median", "at most 1 ms", f"{document['setup']['predict_ms']:.2f} ms"])
    return table_of(["what", "aim", "reached"], rows)


def _splits(splits: Sequence[Document]) -> str:
    parts = ["![Errors of all methods on all splits](figures/capacity_splits.png)\n\n"]
    for split in splits:
        names = ", ".join(part["name"].partition(" ")[2] for part in split["splits"])
        parts.append(f"### {split['kind'].capitalize()}\n\n")
        parts.append(_wrapped(f"{_KINDS[split['kind']].format(names=names)} {split['n']} rows asked about.") + "\n\n")
        rows = [
            [
                LABELS[name],
                f"{m['median_ape']:.2%}",
                f"{m['mean_ape']:.1%}",
                f"{m['percentiles'][90]:.1%}",
                f"{m['coverage_90']:.1%}" if "coverage_90" in m else "",
                f"{m['spearman_error']:.2f}" if m.get("spearman_error") is not None else "",
                f"{m['cpu_s_per_split']:.1f}",
            ]
            for name, m in split["methods"].items()
        ]
        header = ["method", "median", "mean", "90th percentile", "90 % intervals hold", "rank correlation", "CPU [s]"]
        parts.append(table_of(header, rows) + "\n")
    parts.append("By language model, on random rows (whiskers: 5 and 95 %):\n\n")
    parts.append("![Errors by language model](figures/capacity_models.png)\n")
    return "".join(parts)


def _training_sets(sets: Sequence[Document]) -> str:
    rows = [
        [s["name"], str(s["train"]), f"{s['ala']['median_ape']:.2%}", f"{s['kernel']['median_ape']:.2%}"] for s in sets
    ]
    return (
        table_of(["trained on", "rows", "ALA, median", "kernel, median"], rows)
        + "\nThe same held-out rows for all four.\n\n![Errors by training set](figures/capacity_training_sets.png)\n"
    )


def _search(search: Document) -> str:
    middle = sorted(search["train_rows"])[len(search["train_rows"]) // 2]
    text = _wrapped(
        f"Rows of {search['model']}; {len(search['train_rows'])} subsets that simulated annealing visits, {middle} "
        "rows in the median; every method is trained on each and asked about the rest."
    )
    return text + "\n\n![Errors and times along the search](figures/capacity_search.png)\n"


def _abroad(sets: Sequence[Document]) -> str:
    rows = [
        [
            f"{s['name']} ({s['n']})",
            LABELS[name],
            f"{s[name]['predicted_error']:.1%}",
            f"{s[name]['confidence']:.2f}",
            f"{s[name]['median_ape']:.1%}",
        ]
        for s in sets
        for name in ("ala", "kernel")
    ]
    text = _wrapped(
        "Both are trained on four fifths of the Llama rows of 7 and 8 billion parameters on Nvidia devices. ALA's "
        "confidence compares lengths and batch sizes only, so another maker's device looks familiar to it."
    )
    return text + "\n\n" + table_of(["data (rows)", "method", "predicted error", "confidence", "actual error"], rows)


def table_of(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _wrapped(text: str) -> str:
    paragraphs = text.split("\n\n")
    return "\n\n".join(p if p.startswith(("|", "#", "!")) else textwrap.fill(p, 118) for p in paragraphs)
