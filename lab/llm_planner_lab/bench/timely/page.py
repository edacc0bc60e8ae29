# SPDX-License-Identifier: Apache-2.0
"""The page docs/benchmarks/timely.md from the documents of ``bench.section7``: the paper's figures next to ours."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Document = Mapping[str, Any]

_HEAD = """# Time-utility scheduling: section 7 of TimelyLLM, and ours

The experiments of `llm-planner bench section7 --output docs/benchmarks --seeds {seeds}`.
**Everything on this page is simulated** (docs/policies.md and docs/traces.md say how): the planner's own loop and
scheduler in virtual time, engine profile `{profile}`, traces of Table 3 composed with seeds {first_seed} to
{last_seed} (the constants of the policies were chosen on others), robots whose durations are sampled from the robot
models, 8 ms of network each way, at most {max_num_seqs} sequences and {max_num_batched_tokens} tokens per step,
resumption 150 ms ahead. No run here used a GPU; that a step takes 0.3 ms more per sequence, and computes prompts while
it reads the weights, is assumed. The
paper measured its figures on an RTX 4090 with vLLM: ours say how policies compare under one model of that machine, not
that we would beat a measurement. Commits of the runs (`+`: with changes): {commits}.

Utility is Eq. (1) of the response time (arrival at the planner until the robot's first action). `% of max` is utility
as a share of what it is if every response comes in time; it is negative where lateness costs more than is won.
`+-` is the half-width of the 95 % interval over seeds (Student's t).
"""


_TAIL = """## The JSON document

`llm-planner bench timely --json OUT` writes one document, a list of them with `--sweep`; `timely.json` next to this
page holds all of this page's by the name of the experiment.

| key | meaning |
| --- | --- |
| `workload`, `load`, `profile`, `engine`, `reuses_prefixes`, `seeds` | what was run |
| `max_num_seqs`, `max_num_batched_tokens` | limits of a step |
| `commit` | of the source; `+` if files were changed since |
| `num_requests`, `num_left_out` | requests of all traces; tasks for which no robot was free |
| `policies.NAME.CLASS` | CLASS is `all`, `urgent`, `normal` and each task id |
| `utility_sum`, `utility_mean`, `utility_share_of_max` | Eq. (1) |
| `utility_share_of_bound` | of the same requests, each with the engine to itself; null if that is not positive |
| `utility_mean_ci95`, `utility_share_of_max_ci95` | half-width of the 95 % interval over seeds; null with one seed |
| `response_time_s`, `waiting_time_s` | `mean`, `p50`, `p95`, `p99`, `max`; waiting is the sum over segments of Fig. 3 |
| `longest_wait_s` | of any robot for any one segment, or for a refusal |
| `deadline_hit`, `share_served`, `n` | share with a response within ERT; share that ended well; requests |
| `engine_metrics.NAME` | busy share of the engine, steps, virtual, wall and CPU seconds |

A request that was never served counts with utility 0 and in `share_served`.

## What this page does not show

A live engine: live.md compares runs with one, of another model on another machine. Chat (section 7.4.2) is in
docs/policies.md, forced and drafted tokens are in docs/engine.md; no request here has a time budget (timebill.md).
"""


def write_page(documents: Mapping[str, Any], path: Path) -> None:
    """Writes the page."""
    first = documents["wid1"]
    runs = [run for document in documents.values() for run in (document if isinstance(document, list) else [document])]
    commits = ", ".join(f"`{name}`" for name in sorted({run["commit"] for run in runs}))
    head = _HEAD.format(last_seed=first["first_seed"] + first["seeds"] - 1, commits=commits, **first)
    sections = [
        head,
        "## Urgent and normal requests at the paper's load\n\n" + _paper_note() + _class_tables(documents),
        "## With and without prefix reuse\n\n" + _reuse_table(documents),
        "## Against load\n\n" + _load_tables(documents),
        "## What the batch limit does, and what the order does\n\n" + _small_steps(documents),
        "## Where prompt tokens come on top of a decode step\n\n" + _additive_table(documents),
        "## Robot arm tasks (WID 3)\n\n" + _arm_table(documents),
        "## Batch size (Fig. 7)\n\n" + _batch_table(documents),
        "## How many robots one server holds\n\n" + _fleet_table(documents),
        "## Time of a decision (Table 5)\n\n" + _decision_table(documents),
        "## Figures\n\n" + _figures(path),
        _TAIL,
    ]
    path.write_text("\n".join(section.rstrip() + "\n" for section in sections), encoding="utf-8")


def _paper_note() -> str:
    return (
        "The paper (Fig. 5a): urgent 81.5 % of the maximum against 59.5 % with vLLM, normal at the maximum.\n"
        "Fig. 8: 183 % of the urgent utility of segmented FCFS and 142 % of EDF's.\n\n"
    )


def _class_tables(documents: Mapping[str, Any]) -> str:
    return "\n".join(
        f"### {name.upper()}, prefixes reused ({documents[name]['num_requests']} requests)\n\n"
        + _policies(documents[name], ("urgent", "normal"))
        for name in ("wid1", "wid2")
    )


def _policies(document: Document, classes: Sequence[str]) -> str:
    header = ["policy"]
    for name in classes:
        header += [f"{name} % of max", "% of bound", "p50 / p99 response [s]", "deadlines met", "waiting [s]"]
    rows = []
    for policy, metrics in document["policies"].items():
        row = [policy]
        for name in classes:
            m = metrics[name]
            response = m["response_time_s"]
            row += [
                _share(m),
                _percent(m["utility_share_of_bound"]),
                f"{response['p50']:.3f} / {response['p99']:.3f}",
                _percent(m["deadline_hit"]),
                f"{m['waiting_time_s']['mean']:.3f}",
            ]
        rows.append(row)
    return _table(header, rows)


def _reuse_table(documents: Mapping[str, Any]) -> str:
    header = [
        "policy",
        *(
            f"{w.upper()} {kind}, {c}"
            for w in ("wid1", "wid2")
            for kind in ("reused", "not")
            for c in ("urgent", "normal")
        ),
    ]
    rows = []
    for policy in documents["wid1"]["policies"]:
        cells = [
            _share(documents[f"{w}{suffix}"]["policies"][policy][c])
            for w in ("wid1", "wid2")
            for suffix in ("", "_no_reuse")
            for c in ("urgent", "normal")
        ]
        rows.append([policy, *cells])
    text = (
        "Without reuse every request prefills 1,150 to 1,190 tokens, 133 ms of engine time; alone it takes 0.2 s.\n\n"
    )
    return text + _table(header, rows)


def _load_tables(documents: Mapping[str, Any]) -> str:
    parts = []
    for workload in ("wid1", "wid2"):
        sweep = documents[f"{workload}_load"]
        for class_name in ("urgent", "normal", "all"):
            header = [f"{workload.upper()}, {class_name}, % of max", *(f"{d['load']:g}x" for d in sweep)]
            rows = [[p, *(_share(d["policies"][p][class_name]) for d in sweep)] for p in sweep[0]["policies"]]
            parts.append(_table(header, rows))
        bound = [
            [p, *(_percent(d["policies"][p]["urgent"]["utility_share_of_bound"]) for d in sweep)]
            for p in sweep[0]["policies"]
        ]
        parts.append(_table([f"{workload.upper()}, urgent, % of bound", *(f"{d['load']:g}x" for d in sweep)], bound))
        longest = [
            [p, *(f"{d['policies'][p]['all']['response_time_s']['max']:.2f}" for d in sweep)]
            for p in sweep[0]["policies"]
        ]
        parts.append(
            _table([f"{workload.upper()}, longest response [s]", *(f"{d['load']:g}x" for d in sweep)], longest)
        )
    return "\n".join(parts)


def _small_steps(documents: Mapping[str, Any]) -> str:
    sweep = documents["wid2_small_steps"]
    tokens = sweep[0]["max_num_batched_tokens"]
    rows = [
        [f"{p}, {tokens} tokens per step", *(_share(d["policies"][p]["urgent"]) for d in sweep)]
        for p in sweep[0]["policies"]
    ]
    by_load = {d["load"]: d for d in documents["wid2_load"]}
    rows += [
        [p, *(_share(by_load[d["load"]]["policies"][p]["urgent"]) for d in sweep)]
        for p in ("edf_segment", "pud_printed", "pud", "tardiness")
    ]
    text = (
        "`pud`, `gain_density` and `tardiness` limit the prompt tokens of a step to what it computes while it\n"
        "reads the weights, and learn this number while running. The others take the engine's limit, as vLLM\n"
        "does. The first rows give them the number by hand: what is left between them and ours is the order.\n\n"
    )
    return text + _table(["WID2, urgent, % of max", *(f"{d['load']:g}x" for d in sweep)], rows)


def _additive_table(documents: Mapping[str, Any]) -> str:
    sweep = documents["wid2_additive"]
    rows = [
        [p, *(_share(d["policies"][p][c]) for c in ("urgent", "normal") for d in sweep)] for p in sweep[0]["policies"]
    ]
    header = [f"{c}, {d['load']:g}x" for c in ("urgent", "normal") for d in sweep]
    text = (
        f"Profile `{sweep[0]['profile']}`: a step pays for its prompt tokens as well as for reading the weights, as a\n"
        "CPU does. The batch limit has nothing to fill for free there, so little is left of its gain.\n\n"
    )
    return text + _table(["WID2, % of max", *header], rows)


def _arm_table(documents: Mapping[str, Any]) -> str:
    policies = documents["wid3"]["policies"]
    names = {"9": "stacking", "10": "desk cleaning", "11": "classification"}
    rows = []
    for policy, metrics in policies.items():
        row = [policy]
        for task in names:
            waiting_s, whole_s = (
                metrics[task]["waiting_time_s"]["mean"],
                policies["fcfs"][task]["waiting_time_s"]["mean"],
            )
            row += [
                f"{metrics[task]['utility_mean']:.3f}",
                f"{waiting_s:.3f} ({100 * (waiting_s / whole_s - 1):+.0f} %)",
            ]
        rows.append(row)
    header = ["policy", *(cell for name in names.values() for cell in (f"{name}: utility", "waiting [s]"))]
    text = (
        "The paper (Fig. 9): desk cleaning 1.97x the utility of vLLM and 84 % less waiting. The maximum is 1.\n"
        "Whole-plan FCFS is negative here, so that a ratio would mean nothing: compare the difference.\n\n"
    )
    return text + _table(header, rows)


def _batch_table(documents: Mapping[str, Any]) -> str:
    sweep = documents["wid2_batch_size"]
    rows = [
        [f"{p}, {c}", *(f"{d['policies'][p][c]['utility_mean']:.2f}" for d in sweep)]
        for p in sweep[0]["policies"]
        for c in ("all", "urgent")
    ]
    text = "The paper: TimelyLLM best at a batch of 6 (1.21), vLLM at 12 (0.74). The maximum here is about 1.37.\n\n"
    return text + _table(["WID2, mean utility", *(str(d["max_num_seqs"]) for d in sweep)], rows)


def _fleet_table(documents: Mapping[str, Any]) -> str:
    rows = []
    for document in documents["fleet"]:
        row = [str(document["num_robots"]), f"{document['num_requests'] / 60:.1f}"]
        for policy, metrics in document["policies"].items():
            engine = document["engine_metrics"][policy]
            row += [
                f"{metrics['urgent']['response_time_s']['p99']:.3f}",
                _share(metrics["normal"]),
                f"{engine['virtual_over_cpu']:.0f}x",
            ]
        rows.append(row)
    header = ["robots", "requests per s"]
    for policy in documents["fleet"][0]["policies"]:
        header += [f"{policy}: urgent p99 [s]", "normal % of max", "virtual / CPU time"]
    text = (
        "A minute of WID 1 with each robot as busy as there, 64 slots. The server holds as many robots as keep the\n"
        "urgent p99 within 0.2 s. The last column is the speed of the simulation, in CPU time of one core.\n\n"
    )
    return text + _table(header, rows)


def _decision_table(documents: Mapping[str, Any]) -> str:
    decision = documents["decision"]
    rows = [[n, f"{t['p50']:.3f}", f"{t['p99']:.3f}"] for n, t in decision["decision_ms"].items()]
    text = (
        f"The paper: 2.03 ms at 8 requests. `{decision['policy']}`, all 16 slots busy, wall time: on a machine\n"
        "that does other work as well, trust the median.\n\n"
    )
    return text + _table(["ready", "p50 [ms]", "p99 [ms]"], rows)


def _figures(path: Path) -> str:
    pictures = sorted((path.parent / "figures").glob("timely_*.png"))
    return "\n".join(f"![{picture.stem.removeprefix('timely_')}](figures/{picture.name})\n" for picture in pictures)


def _share(metrics: Mapping[str, Any]) -> str:
    interval = metrics["utility_share_of_max_ci95"]
    text = f"{100 * metrics['utility_share_of_max']:.2f}"
    return text if interval is None else f"{text} +- {100 * interval:.2f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
