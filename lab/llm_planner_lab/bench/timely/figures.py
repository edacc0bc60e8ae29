# SPDX-License-Identifier: Apache-2.0
"""The figures of TimelyLLM's section 7 from the documents of ``bench.timely``."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from llm_planner.monitoring.timeline import draw_timeline
from llm_planner_lab.bench.run_timeline import spans_of
from llm_planner_lab.bench.timely.metrics import quantile
from llm_planner_lab.simulation.records import RequestRecord, RunRecord

Document = Mapping[str, Any]
_SIZE_INCHES, _DPI = (7.0, 3.6), 110


def draw_utility_by_task(document: Document, path: Path) -> None:
    """Bars: mean utility by task type, one group per task (Fig. 5a, 5d and 9 of the paper)."""
    with _Figure(path, f"{_title(document)}: time utility by task") as axes:
        policies = document["policies"]
        tasks = [name for name in next(iter(policies.values())) if name.isdigit()]
        width = 0.8 / len(policies)
        for index, (policy, classes) in enumerate(policies.items()):
            places = [t + index * width - 0.4 + width / 2 for t in range(len(tasks))]
            values = [classes[task]["utility_mean"] for task in tasks]
            errors = [classes[task]["utility_mean_ci95"] or 0.0 for task in tasks]
            axes.bar(places, values, width, yerr=errors, label=policy, error_kw={"elinewidth": 0.6})
        axes.set_xticks(range(len(tasks)), tasks)
        axes.set(xlabel="trace id of Table 2", ylabel="mean time utility")
        lowest = min(c[task]["utility_mean"] for c in policies.values() for task in tasks)
        axes.set_ylim(bottom=max(-3.0, lowest * 1.1 if lowest < 0 else 0.0))


def draw_response_cdf(runs: Mapping[str, Sequence[RunRecord]], title: str, path: Path) -> None:
    """Lines: distribution of the response times of urgent requests (all, where there are none), of the sent ones."""
    with _Figure(path, f"{title}: response times") as axes:
        for policy, of_seeds in runs.items():
            records = [record for run in of_seeds for record in run.requests]
            urgent = [r for r in records if r.urgency == "urgent"] or records
            times_s = sorted(r.response_time_s for r in urgent if r.response_time_s is not None)
            probabilities = [i / 100 for i in range(101)]
            served = len(times_s) / max(1, len(urgent))
            axes.plot([quantile(times_s, p) for p in probabilities], [served * p for p in probabilities], label=policy)
        axes.set(xlabel="response time [s]", ylabel="share of urgent requests", ylim=(0, 1.02))
        axes.set_xlim(left=0)


def draw_sweep(documents: Sequence[Document], key: str, label: str, path: Path, class_name: str = "urgent") -> None:
    """Lines: mean utility of a class against a parameter (Fig. 7 of the paper: batch size), with 95 % intervals."""
    first = documents[0]
    load = "" if key == "load" else f", {first['load']:g}x load"
    title = f"{first['workload']}{load}, prefixes reused, {first['engine']}: utility of {class_name} requests"
    with _Figure(path, title) as axes:
        for policy in documents[0]["policies"]:
            places = [document[key] for document in documents]
            metrics = [document["policies"][policy][class_name] for document in documents]
            errors = [m["utility_mean_ci95"] or 0.0 for m in metrics]
            axes.errorbar(places, [m["utility_mean"] for m in metrics], errors, label=policy, marker=".", capsize=2)
        axes.set(xlabel=label, ylabel="mean time utility")
        axes.set_ylim(bottom=max(-3.0, axes.get_ylim()[0]))


def draw_two_rows(run: RunRecord, policy: str, path: Path) -> None:
    """Two rows: a normal and an urgent request of the same event (Fig. 6 of the paper)."""
    pair = _rivals(run.requests)
    origin_s = min((record.arrival_s for record in pair), default=0.0)
    spans = [
        replace(span, start_s=span.start_s - origin_s, end_s=span.end_s - origin_s)
        for record in pair
        for span in spans_of(record, f"{record.urgency}, task {record.task}")
    ]
    draw_timeline(spans, path, f"{policy}: an urgent and a normal request of the same event")


def _rivals(requests: Sequence[RequestRecord]) -> tuple[RequestRecord, ...]:
    """Returns the first urgent request that arrived together with a normal one, and that one."""
    for urgent in requests:
        same = [r for r in requests if r.arrival_s == urgent.arrival_s and r.urgency == "normal"]
        if urgent.urgency == "urgent" and len(same) > 4:
            return (same[0], urgent)
    return tuple(requests[:2])


def _title(document: Document) -> str:
    reuse = "prefixes reused" if document["reuses_prefixes"] else "whole prompts prefilled"
    return f"{document['workload']}, {document['load']:g}x load, {reuse}, {document['engine']}"


class _Figure:
    """A figure that is saved when its axes have been filled."""

    def __init__(self, path: Path, title: str) -> None:
        self._path = path
        self._title = title

    def __enter__(self) -> Any:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot as plt

        self._figure, axes = plt.subplots(figsize=_SIZE_INCHES, layout="constrained")
        self._axes = axes
        axes.set_title(self._title, fontsize=9)
        axes.grid(alpha=0.3)
        return axes

    def __exit__(self, kind: object, *_: object) -> None:
        from matplotlib import pyplot as plt

        if kind is None:
            self._axes.legend(fontsize=7)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._figure.savefig(self._path, dpi=_DPI)
        plt.close(self._figure)
