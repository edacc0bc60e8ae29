# SPDX-License-Identifier: Apache-2.0
"""The page docs/benchmarks/timebill.md from the document of ``bench.timebill``: the paper's claims next to ours."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

from llm_planner_lab.bench.timebill.aims import Document, aims, percent, table_of, value_of
from llm_planner_lab.bench.timebill.steering_page import FIELDS as STEERING_FIELDS
from llm_planner_lab.bench.timebill.steering_page import steering_section

_STRATEGIES = {"kill": "Kill", "skip_next": "Skip-Next", "partial": "Partial delivery (ours)"}
_APPROACHES = (
    "vanilla; `alpha_`: a fixed eviction ratio; `scene_`: a fixed share left out; TimeBill; ours, without and with that"
)

_HEAD = """# Time budgets: the evaluation of TimeBill, and ours

Written by `llm-planner bench timebill`, which took {minutes:.0f} minutes: model
`{model}` on `{device}`, commit `{commit}` (`+`: with changes), eviction by {eviction_method}.

**How times come about.** The engine is the real one, and every step is measured, in {clock}. The clock of the sweep is
virtual: the planner's own loop, scheduler, budget solver and goal book run in it, and each step takes what it took on
the engine. A
generation that is the same under several budgets and strategies ran once ({num_generations} did) and is replayed, so
that approaches which do the same take the same time. Encoding the prompt counts for all, predicting the length for
those that predict ({predict_ms_mean:.1f} ms on the mean; nothing hides it here). The time of decisions is under "The
solver". The part "under load" replays nothing.

**What is asked.** {num_tasks} held-out tasks, {num_seeds} seeds, of all families that have such: a scene so long that
the prompt falls into a class below, and a reference plan of at least {min_plan_tokens} tokens, because with less there
is no decode phase to speed up. One token per step (`lookahead: off`), as the paper's equations count; at most
{max_tokens} tokens. A class shares its budget, which is a fraction of its mean vanilla time in this run.

{classes}

**How it is asked.** As a hard real-time task, whose period is its budget: a robot asks for the next plan when the time
for the last one is over. That is how the paper's Skip-Next has a next; the paper does not state its arrivals. Each
approach serves two requests without a budget first, as a planner in service has. TimeBill is the paper's: Eq. (11) with
the end of the most probable bucket, k = 5, the profile uncorrected; it refuses no request. Ours is the planner as it
is shipped. It has a measure that the paper does not know, scene pruning: leaving out, before the prefill, the entries
of the scene that the task needs least. What it adds shows against `scene_50` and `scene_90`, which always leave out
that share of the prompt (at most nine tenths of the scene), and `ours_whole_scene`, which is ours without it. AWQ, the
paper's quantised baseline, has no counterpart here. The task, the rules and the last 32 tokens of a prompt are never
evicted, so a ratio of 95 % removes somewhat less.

**How it is scored.** `score`: success of the executed plan in the kinematic simulator. `same_numbers`: share of the
reference plan's numbers that are in their places. What is refused, skipped or killed is an empty answer and scores 0.
`+-` is the half-width of the 95 % interval over tasks.
"""

_SWEEP_NOTE = (
    "The paper: TimeBill has the highest score at every budget and completes about as much as 95 %. A cell is "
    "`score / same_numbers / completion_rate`, and for ours `(refused)`. The best ratio is that of the very point, "
    "which is not known beforehand.\n\n"
)

_FIELDS = """## The JSON document

| key | meaning |
| --- | --- |
| `ete.prefill_mape`, `ete.decode_mape` | mean absolute percentage errors, as fractions, on held-out lengths |
| `ete.decode_run_mape`, `ete.decode_run_noise_floor` | the same for the mean of `ete.run_steps` decode steps in a row |
| `ete.noise_floor` | the larger of `prefill_noise_floor`, `decode_noise_floor`: errors of the repeats' own median |
| `ete.end_to_end` | whole responses: `mape`, `mape_true_length` (the length known), `n`, `wcet_share_by_ratio` |
| `ete.end_to_end.wcet_share_planner` | the same share for the worst case that the planner counts on |
| `ete.end_to_end.wcet_over_measured` | worst case over measured time, the mean; `_planner`: of the planner's |
| `ete.end_to_end.vanilla` | every request without eviction: `measured_s`, `predicted_s`, `wcet_s` |
| `rlp.NAME` | `mae`, `rmse` in tokens, `r2`; measured when the predictor was trained |
| `interval_coverage_90` | share of held-out lengths in their 90 % intervals |
| `wcet_share` | share of whole responses that took no longer than Eq. (9) with k = 5 said |
| `solver_ms` | `p50`, `p99`, `n`: first decisions of ours about a request |
| `sweep`, `k_sweep` | one object per point, below |
| `steering` | one object per point, below: plans that are closed in time, with graceful truncation and without |
| `concurrent` | the same under load, with `num_robots` and `vanilla_s`, the mean time that budgets are fractions of |
| `against_best_alpha` | score of ours less that of the best fixed ratio, task by task: `difference`, `ci95` |
| `setup` | model, device, commit, time, classes of requests |

A point of `sweep` and `k_sweep`:

| key | meaning |
| --- | --- |
| `budget_fraction`, `strategy`, `approach`, `k` | `kill`, `skip_next`, `partial`; {approaches} |
| `score`, `score_ci95`, `same_numbers` | means over all `n` jobs; half-width of the 95 % interval |
| `completion_rate`, `completion_ci95` | complete plans of all jobs, as in the paper: late ones of Skip-Next count |
| `in_time_rate`, `in_time_of_admitted` | whole or partial plans within the budget: of all jobs, of those not refused |
| `refused`, `skipped`, `partial`, `n` | jobs |
| `no_plan` | jobs for which the model wrote no plan, whatever the time: stuck in a word, or the gate refused it |
| `eviction_ratio`, `omitted_ratio` | mean shares of the prompt: whose KV was removed, what was never computed |
"""


def write_page(document: Document, path: Path) -> None:
    """Writes the page; its figures are expected next to it, in ``figures/``."""
    setup = document["setup"]
    head = _HEAD.format(minutes=setup["took_s"] / 60, **{**setup, "classes": _classes(setup["classes"]).rstrip()})
    sections = [
        _wrapped(head),
        "## The figures to reach\n\n" + aims(document),
        "## Response lengths (Table 1)\n\n" + _lengths(document),
        "## Execution times (Figs. 5 and 6)\n\n" + _times(document),
        "## The solver\n\n" + _solver(document),
        "## Score and completion against the budget (Fig. 7)\n\n" + _sweep(document),
        "## Closing plans in time\n\n" + _wrapped(steering_section(document["steering"])),
        "## The pessimistic factor (Fig. 8)\n\n" + _k_sweep(document),
        "## Under load\n\n" + _concurrent(document),
        _FIELDS.format(approaches=_APPROACHES) + "\nA point of `steering`:\n\n" + STEERING_FIELDS,
    ]
    path.write_text("\n".join(section.rstrip() + "\n" for section in sections), encoding="utf-8")


def _lengths(document: Document) -> str:
    rows = [[n, f"{r['mae']:.2f}", f"{r['rmse']:.2f}", value_of(r["r2"])] for n, r in document["rlp"].items()]
    text = _wrapped(
        "Measured on held-out prompts in the run that trained the predictor (docs/length_prediction.md), on lengths "
        "that this model really produces. The paper, 512 buckets: MAE 42.71, RMSE 78.13, R2 0.723; regression 64.21 / "
        "103.30 / 0.516; ProxyModel 105.72 / 136.79 / 0.152; S3 108.96 / 148.91 / -0.004. Its lengths are other "
        "lengths: compare R2.\n\n"
    )
    return text + table_of(["predictor", "MAE", "RMSE", "R2"], rows)


def _times(document: Document) -> str:
    ete = document["ete"]
    whole = ete["end_to_end"]
    by_ratio = ", ".join(f"{percent(share)} at ratio {r}" for r, share in whole["wcet_share_by_ratio"].items())
    rows = [
        [name, percent(ete[f"{key}_mape"]), percent(ete[f"{key}_noise_floor"]), paper]
        for key, name, paper in (
            ("prefill", "a prompt", "1.22 %"),
            ("decode", "one decode step", "1.69 %"),
            ("decode_run", f"{ete['run_steps']} decode steps in a row", "-"),
        )
    ]
    text = _wrapped(
        "Errors of a fit to one half of the lengths on the other half; the floor is how far repeats lie from their own "
        "median. The first eight decode steps behind a prompt, which it slows down, are not among them, but whole "
        "responses have them.\n\n"
        "A whole response ends where it does in service; that of a model that is stuck, where its plan is refused. "
        f"They ({whole['n']}, vanilla and every fixed ratio) are off by {percent(whole['mape'])} with the "
        f"predicted length and by {percent(whole['mape_true_length'])} with the true one; "
        f"{percent(document['wcet_share'])} stay below the worst case of Eq. (9) with k = 5 ({by_ratio}), which is "
        f"{value_of(whole['wcet_over_measured'])} times the measured time on the mean. Ours takes the most of the "
        "predicted distribution where that is less than k times its mean, and all tokens that are allowed where "
        f"something is evicted: {percent(whole['wcet_share_planner'])} stay below that, "
        f"{value_of(whole['wcet_over_measured_planner'])} times the measured time on the mean. What evicting takes "
        "itself, which Eq. (8) leaves out, is counted.\n\n"
        "![Predicted and worst-case times against measured ones](figures/timebill_end_to_end.png)"
    )
    return table_of(["step", "MAPE", "noise floor", "paper"], rows) + "\n" + text


def _solver(document: Document) -> str:
    solver = document["solver_ms"]
    return _wrapped(
        f"First decisions about a request, {solver['n']} of them, in {document['setup']['clock']}: "
        f"{solver['p50']:.2f} ms in the median, {solver['p99']:.2f} ms at the 99th percentile. The prediction "
        f"before takes {document['setup']['predict_ms_mean']:.1f} ms on the mean.\n"
    )


def _sweep(document: Document) -> str:
    parts = [_wrapped(_SWEEP_NOTE)]
    rows = document["sweep"]
    fractions = sorted({row["budget_fraction"] for row in rows})
    header = ["budget / vanilla", *(f"{fraction:g}" for fraction in fractions)]
    for strategy, title in _STRATEGIES.items():
        of_strategy = [row for row in rows if row["strategy"] == strategy]
        names = list(dict.fromkeys(row["approach"] for row in of_strategy))
        table = [[name, *(_cell(r) for r in of_strategy if r["approach"] == name)] for name in names]
        against = [row for row in document["against_best_alpha"] if row["strategy"] == strategy]
        table.append(["ours - best ratio", *(f"{r['difference']:+.2f} +- {value_of(r['ci95'])}" for r in against)])
        parts.append(f"### {title}\n\n{table_of(header, table)}\n")
    return "".join(parts) + "![Score, numbers and completion against the budget](figures/timebill_sweep.png)\n"


def _cell(row: Document) -> str:
    refused = f" ({row['refused']})" if row["approach"].startswith("ours") else ""
    return f"{value_of(row['score'])} / {value_of(row['same_numbers'])} / {value_of(row['completion_rate'])}{refused}"


def _k_sweep(document: Document) -> str:
    rows = document["k_sweep"]
    factors = sorted({row["k"] for row in rows})
    table = [
        [f"{name}: {label}", *(value_of(row[key]) for row in rows if row["approach"] == name)]
        for name in ("timebill", "ours_whole_scene", "ours")
        for key, label in (
            ("score", "score"),
            ("completion_rate", "complete"),
            ("omitted_ratio", "left out"),
            ("eviction_ratio", "KV evicted"),
        )
        if name == "ours" or key != "omitted_ratio"
    ]
    table.append(["ours: refused", *(str(row["refused"]) for row in rows if row["approach"] == "ours")])
    text = _wrapped(
        f"Kill, budget {document['setup']['k_fraction']:g} of the vanilla time. The paper: score and completion rise "
        "up to k = 5, and the score falls beyond. Ours counts on no more tokens than the predictor's interval says "
        "(where nothing is evicted), so that a large k binds less.\n\n"
    )
    return text + table_of(["k", *(f"{k:g}" for k in factors)], table) + "\n![Against k](figures/timebill_k.png)\n"


def _concurrent(document: Document) -> str:
    rows = document["concurrent"]
    first = rows[0]
    text = _wrapped(
        f"{first['num_robots']} robots ask at the same moment, {first['n']} jobs, Kill, every step on the live engine, "
        f"in virtual time. The mean vanilla time under this load is {first['vanilla_s']:.2f} s; budgets are fractions "
        "of it. Few jobs: this shows whether budgets hold in a batch, and no more.\n\n"
    )
    table = [
        [
            f"{row['budget_fraction']:g}",
            row["approach"],
            value_of(row["score"]),
            value_of(row["completion_rate"]),
            value_of(row["in_time_of_admitted"]),
            str(row["refused"]),
        ]
        for row in rows
    ]
    return text + table_of(
        ["budget / vanilla", "approach", "score", "complete", "in time of admitted", "refused"], table
    )


def _classes(classes: Sequence[Document]) -> str:
    rows = [
        [
            f"{row['prompt_tokens'][0]} to {row['prompt_tokens'][1] - 1}",
            str(row["n"]),
            f"{row['mean_prompt_tokens']:.0f}",
            f"{row['mean_response_tokens']:.0f}",
            f"{1000 * row['vanilla_s']:.0f}",
            f"{1000 * row['prefill_s']:.0f}",
        ]
        for row in classes
    ]
    return table_of(["prompt tokens", "tasks", "mean", "mean response", "vanilla [ms]", "of it prefill [ms]"], rows)


def _wrapped(text: str) -> str:
    """Returns paragraphs in lines of one width; headings and tables stay as they are."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        p if p.startswith(("|", "#", "!")) else textwrap.fill(p, 118, break_on_hyphens=False) for p in paragraphs
    )
