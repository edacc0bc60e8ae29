# SPDX-License-Identifier: Apache-2.0
"""Writes what a benchmark found: its document as JSON, and the page of docs/benchmarks that shows it.

A page is the template ``pages/NAME.md.j2``, filled in with the document and with what a document does not hold: labels
that its figures share, and the aims.
"""

import json
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from llm_planner.scheduling.policies import make_policy
from llm_planner_lab import templates
from llm_planner_lab.bench import overhead, resumption
from llm_planner_lab.bench.admission.experiment import OURS
from llm_planner_lab.bench.chaos import parts
from llm_planner_lab.bench.chaos.checks import INVARIANTS
from llm_planner_lab.bench.chaos.schedule import MEANINGS
from llm_planner_lab.bench.intervals import interval95, wilson
from llm_planner_lab.bench.overload import figures as overload_figures
from llm_planner_lab.bench.overload.benchmark import DEFAULT
from llm_planner_lab.bench.pipeline import figures as pipeline_figures
from llm_planner_lab.bench.pipeline import published
from llm_planner_lab.bench.timebill import aims
from llm_planner_lab.simulation.pipeline.schedulers import NAMES
from llm_planner_lab.tasks.inventory import THINGS_SEEN
from llm_planner_lab.training.capacity import figures as capacity_figures

Document = Mapping[str, Any]
DIRECTORY = Path("docs/benchmarks")
"""Of pages and documents, in a checkout."""


def _no_facts(_: Document) -> dict[str, Any]:
    return {}


def _admission_facts(document: Document) -> dict[str, Any]:
    runs = document["sweep"]["runs"]
    latency = {(run["policy"], run["interval"], run["n"], run["seed"]): run["mean_latency"] for run in runs}
    cases = [key[1:] for key in latency if key[0] == OURS]
    most_jobs = max(run["n"] for run in runs)
    return {
        "num_cases": len(cases),
        "num_behind": sum(latency[OURS, *case] > latency["a_min", *case] for case in cases),
        "most_jobs": most_jobs,
        "ours": OURS,
        "slowest_decision_ms": max(r["decision_ms_p99"] for r in runs if r["policy"] == OURS and r["n"] == most_jobs),
    }


def _timely_facts(document: Document) -> dict[str, Any]:
    runs = [run for part in document.values() for run in (part if isinstance(part, list) else [part])]
    return {"commits": sorted({run["commit"] for run in runs})}


def _live_facts(document: Any) -> dict[str, Any]:
    """Returns what the template shows besides the runs.

    For each run the default policy's metrics, and name and metrics of the best other one; the default policy; the
    policies that ``batch_limit: auto`` gives the latency-guided limit; ``mean`` of metrics of a class over the traces;
    and ``lead``, of two metrics of one class: by how much the first is ahead, as mean and half-width of its 95 %
    interval over the traces, on each of which both ran.
    """
    rows = []
    for run in document:
        others = {name: metrics for name, metrics in run["policies"].items() if name != DEFAULT}
        best = max(others, key=lambda name: _mean_share(others[name]["all"]))
        rows.append((run, run["policies"][DEFAULT], best, others[best]))
    limited = [f"`{name}`" for name in document[0]["policies"] if getattr(make_policy(name), "limits_batch", False)]
    return {"default": DEFAULT, "rows": rows, "limited": limited, "lead": _lead, "mean": _mean_share}


def _mean_share(metrics: Mapping[str, Any]) -> float:
    return statistics.fmean(metrics["utility_share_of_max_by_trace"])


def _lead(ahead: Mapping[str, Any], behind: Mapping[str, Any]) -> tuple[float, float | None]:
    pairs = zip(ahead["utility_share_of_max_by_trace"], behind["utility_share_of_max_by_trace"], strict=True)
    differences = [a - b for a, b in pairs]
    return statistics.fmean(differences), interval95(differences)


REPORTS: Mapping[str, Callable[[Document], Mapping[str, Any]]] = {
    "admission": _admission_facts,
    "artifact": _no_facts,
    "budgets": _no_facts,
    "capacity": lambda _: {"labels": capacity_figures.LABELS},
    "chaos": lambda document: {
        "invariants": INVARIANTS,
        "faults": {kind.value: text for kind, text in MEANINGS.items()},
        "judged": parts.judged,
        "is_earlier": parts.is_earlier,
        "has_earlier": any(map(parts.is_earlier, document.values())),
    },
    "chat": _no_facts,
    "encounters": lambda _: {"wilson": wilson},
    "gpu": _no_facts,
    "inventories": lambda _: {"things": THINGS_SEEN},
    "live_policies": _live_facts,
    "measures": _no_facts,
    "nodes": _no_facts,
    "overhead": lambda _: {"paper": overhead.PUBLISHED},
    "overload": overload_figures.facts,
    "physics": _no_facts,
    "pipeline": lambda _: {"labels": pipeline_figures.LABELS, "schedulers": NAMES, "paper": published},
    "replicas": _no_facts,
    "resumption": resumption.facts,
    "timebill": aims.facts,
    "timely": _timely_facts,
    "vllm": _no_facts,
}
"""By the name of a report: what its template takes beyond the document."""


def render(name: str, document: Document) -> str:
    """Returns the page of a report.

    Raises:
        jinja2.UndefinedError: A key of the document is missing.
    """
    return templates.render(name, document=document, **REPORTS[name](document))


def write_report(name: str, document: Document, json_file: Path | None, page: Path | None) -> list[Path]:
    """Writes the document as JSON, in one line, and its page.

    Args:
        name: Of the report.
        document: What the benchmark found.
        json_file: Not written if None.
        page: Not written if None.

    Returns:
        What was written.
    """
    text = json.dumps(document) + "\n"
    contents = {} if json_file is None else {json_file: text}
    if page is not None:
        contents[page] = render(name, json.loads(text))
    for path, content in contents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return list(contents)
