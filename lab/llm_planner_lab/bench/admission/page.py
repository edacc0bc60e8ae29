# SPDX-License-Identifier: Apache-2.0
"""The page docs/benchmarks/admission.md from the document of the evaluation: the paper's claims next to ours."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_planner_lab.bench.timebill.aims import table_of

Document = Mapping[str, Any]
_WIDTH = 120
_AIMS = {"1:1000": 1.0, "bins:100": 0.93, "relative:0.1": 0.92}
_EXPECTED = {
    "a_min": {"1:1000": "1.69-1.74", "bins:100": "1.08", "relative:0.1": "1.03-1.05"},
    "a_max": {"1:1000": "3.2-3.4", "bins:100": "1.3", "relative:0.1": "1.2-1.3"},
}
_NAMES = {"h_sf": "H-SF", "a_max": "A_max", "a_min": "A_min", "ours": "ours"}

_HEAD = """# Admission under uncertain lengths: the evaluation of A_min, and ours

Written by `llm-planner bench admission`, commit `{commit}` (`+`: with changes). Everything here is **simulated**: jobs
of a trace, steps in virtual time, no engine. How long a decision takes is measured, in processor time.

**The model** is the paper's (sections 2 and 6): a KV memory of M = {kv_tokens} tokens; each job that is in gets one
token per step and holds its prompt and what it has generated; what does not fit is preempted. H-SF knows all output
lengths and takes the shortest first. Jobs: random subsets of the Azure conversation trace of 2023, prompts and outputs
of up to 1,000 tokens, all there at the start, {num_seeds} seed(s).
A checker of its own counts what is held after every step. Latency is
from arrival to the last token; a cell is its mean relative to that of H-SF on the same jobs, mean (largest) over seeds.

**Costs.** A batch takes one step, as in the paper. What `ours` moves between accelerator and host holds up the whole
batch: 2,900 tokens take a step (Llama-3-8B on an RTX 4090, TimelyLLM: 1,300 tokens in 9.5 ms, a decode step of 21.4
ms). A cancelled job's prompt is computed again for nothing, as in the paper.
"""

_READINGS = """## Where the paper leaves something open

- A running job that has outlived its bound has the indicator 0 in Eq. (3), to the letter. Its memory would be given
  away in every step: on the jobs here that overflows thousands of times. It counts with one more token.
- A bound never falls. To the letter a cancelled job's is what it had generated, even below its l.
- Largest set *in order*: no job overtakes the first that does not fit. If others may, jobs with long prompts are
  preempted again and again, and A_min is worse (1.3-1.4 with bins of 100 in a trial).
- A_max starts a random set of the largest size. With one prompt length and one interval any maximal set has that size;
  with several we draw one job after the other among those that still fit.
- The axis of x in experiment 3 says that larger values are more precise and then that smaller ones are. The interval is
  `[(1 - x) o, (1 + x) o]`, so smaller ones are.
"""


def write_page(document: Document, path: Path) -> None:
    """Writes the page; its figures are expected next to it, in ``figures/``."""
    agreement = document["agreement"]
    sections = [
        _wrapped(
            _HEAD.format(
                commit=document["setup"]["commit"],
                kv_tokens=agreement["setup"]["kv_tokens"],
                num_seeds=agreement["setup"]["num_seeds"],
            )
        ),
        f"## At n = {document['setup']['num_jobs']}\n\n" + _agreement(agreement),
        "## Section 6: latency against the number of jobs\n\n" + _sweep(document["sweep"]),
        '## "Nearly identical": how far step times explain it\n\n' + _step_time(document["step_time"]),
        "## Theorems\n\n" + _theorems(document["theorems"]),
        "## Jobs that arrive one after the other\n\n" + _online(document["online"]),
        _wrapped(_READINGS),
    ]
    path.write_text("\n".join(section.rstrip() + "\n" for section in sections), encoding="utf-8")


def _agreement(experiment: Document) -> str:
    ratios = experiment["ratio_to_h_sf"]
    rows = []
    for name, by_interval in ratios.items():
        cells = [f"{_cell(ratio)}{_beside(name, i)}" for i, ratio in by_interval.items()]
        rows.append([_NAMES[name], *cells, *_sums(experiment["runs"], name)])
    header = ["policy", *ratios["h_sf"], "overflows", "cancelled", "suspended", "decision p99 [ms]"]
    note = _wrapped(
        "In square brackets: what an independent implementation of the printed algorithms gave, and for ours the aim. "
        "The sums are over all seeds and intervals.\n"
    )
    return table_of(header, rows) + "\n" + note


def _beside(name: str, interval: str) -> str:
    if name == "ours":
        return f" [{_AIMS[interval]:g}]"
    return f" [{_EXPECTED[name][interval]}]" if name in _EXPECTED else ""


def _sums(runs: Sequence[Document], name: str) -> list[str]:
    own = [run for run in runs if run["policy"] == name]
    sums = [f"{sum(run[key] for run in own)}" for key in ("overflows", "cancellations", "suspensions")]
    return [*sums, f"{max(run['decision_ms_p99'] for run in own):.2f}"]


def _sweep(sweep: Document) -> str:
    runs = sweep["runs"]
    ratios = sweep["ratio_to_h_sf"]
    rows = [
        [_NAMES[name], *(_cell(r) for r in by_interval.values()), *_sums(runs, name)]
        for name, by_interval in ratios.items()
    ]
    header = ["policy", *ratios["h_sf"], "overflows", "cancelled", "suspended", "decision p99 [ms]"]
    latency = {(r["policy"], r["interval"], r["n"], r["seed"]): r["mean_latency"] for r in runs}
    cases = [key[1:] for key in latency if key[0] == "ours"]
    behind = [case for case in cases if latency["ours", *case] > latency["a_min", *case]]
    most = max(run["n"] for run in runs)
    slowest = max(run["decision_ms_p99"] for run in runs if run["policy"] == "ours" and run["n"] == most)
    text = _wrapped(
        f"Ours is behind A_min in {len(behind)} of {len(cases)} cases. With {most} jobs waiting at the start, 99 % of "
        f"its decisions took at most {slowest:.2f} ms.\n"
    )
    figures = "\n\n".join(
        f"![Figure {number} of the paper, redrawn](figures/admission_fig{number}.png)" for number in (5, 6, 7)
    )
    return table_of(header, rows) + "\n" + text + "\n" + figures


def _step_time(rows: Sequence[Document]) -> str:
    cells = []
    for row in rows:
        for name in ("a_max", "a_min", "ours"):
            by_interval = row["ratio_to_h_sf"][name]
            cells.append(
                [row["lengths"], str(row["n"]), row["step"], _NAMES[name], *(_cell(r) for r in by_interval.values())]
            )
    text = _wrapped(
        "The paper: under Vidur's batch times for LLaMA2-70B on two A100, A_min is nearly identical to H-SF already "
        "with [1, 1000]. Two things differ from the table above: step times and lengths. `llama2-70b-2xa100` is a "
        "roofline of published sizes and speeds, in which a step grows with its batch, the prompts that it computes "
        "and the caches that it reads; `chat-like` lengths are log-normal with the means, medians and maxima of the "
        "paper's chats.\n"
    )
    text += "\n" + _explained(rows)
    return text + "\n" + table_of(["lengths", "n", "steps", "policy", *rows[0]["ratio_to_h_sf"]["h_sf"]], cells)


def _explained(rows: Sequence[Document]) -> str:
    """Returns, in words, which share of what A_min is behind with [1, 1000] goes with the steps of the profile."""
    sentences = []
    for unit, profiled in zip(rows[::2], rows[1::2], strict=True):
        before, after = (row["ratio_to_h_sf"]["a_min"]["1:1000"]["mean"] - 1.0 for row in (unit, profiled))
        share = f", which explains {100 * (1 - after / before):.0f} % of it" if before > 0.01 else ""
        sentences.append(
            f"{unit['lengths']} lengths, n = {unit['n']}: A_min is {100 * before:.0f} % behind H-SF with unit steps, "
            f"and {100 * after:.0f} % with those of the profile{share}."
        )
    note = "The rest stays: where the memory is what is short, A_min and H-SF are not nearly identical in this model."
    return _wrapped(" ".join([*sentences, note]) + "\n")


def _theorems(rows: Sequence[Document]) -> str:
    cells = [
        [
            row["theorem"],
            _NAMES.get(row["policy"], "A_l"),
            row["distribution"],
            str(row["kv_tokens"]),
            f"{row['ratio']:.3f}",
            "" if row["expected"] is None else f"{row['expected']:.3f}",
            f"{row['bound']:.3f}",
            "yes" if row["holds"] else "**no**",
        ]
        for row in rows
    ]
    text = "Prompts are empty, one sample each; the bounds hold up to O(1 / M). Outputs are drawn, so they scatter.\n\n"
    return text + table_of(["theorem", "policy", "outputs", "M", "ratio", "paper's ratio", "bound", "within"], cells)


def _online(experiment: Document) -> str:
    ratios = experiment["ratio_to_h_sf"]
    rows = [
        [_NAMES[name], *(_cell(r) for r in by_interval.values()), *_sums(experiment["runs"], name)]
        for name, by_interval in ratios.items()
    ]
    text = _wrapped(
        f"Not in the paper: {experiment['setup']['rate_per_s']:g} jobs per step arrive at random (Poisson), n = "
        f"{experiment['runs'][0]['n']}.\n"
    )
    header = ["policy", *ratios["h_sf"], "overflows", "cancelled", "suspended", "decision p99 [ms]"]
    return text + "\n" + table_of(header, rows)


def _cell(ratio: Mapping[str, float]) -> str:
    return f"{ratio['mean']:.3f} ({ratio['max']:.3f})"


def _wrapped(text: str) -> str:
    paragraphs = text.split("\n\n")
    return "\n\n".join(p if p.lstrip().startswith(("#", "-")) else textwrap.fill(p, _WIDTH) for p in paragraphs) + "\n"
