# SPDX-License-Identifier: Apache-2.0
"""The page docs/benchmarks/vllm.md from the document of ``llm-planner bench vllm``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

Document = Mapping[str, Any]

_HEAD = """# vLLM under our scheduler and under its own

Written by `llm-planner bench vllm --page docs/benchmarks/vllm.md`, started from `.venv-vllm`. vLLM {vllm}, model
`{model}`, commit `{commit}`, {cores} cores, no GPU; the engine calls itself "{device}".
When the run began, {load_before:.1f} other programs wanted a core: that disturbs milliseconds and tokens/s, not steps.
Every comparison is of one vLLM in one run: our scheduler is taken out of it and vLLM's own is put in.

## Resume to next token

Of four generations one is suspended for some steps and then runs again, in {resume[ratio]:.2f} times the
inter-token time (aim: at most 2).

| | ms |
| --- | --- |
| between two tokens, all four running | {resume[inter_token_ms]:.2f} |
| from being named to the next token | {resume[resume_ms]:.2f} |

## What a step costs more because of us

{num_requests} generations decode. Processor time, medians; steps with and without us alternate.

| part of a step | ms |
| --- | --- |
| our scheduler: who runs, and booking what came out | {decision[decision_ms]:.3f} |
| handing the step over, and what came back | {decision[handover_ms]:.3f} |
| vLLM's `schedule` with our mixin | {decision[schedule_ms]:.3f} |
| vLLM's `schedule` without | {decision[stock_schedule_ms]:.3f} |
| **added** | **{decision[added_ms]:.3f}** |

That is {share:.1%} of a step of 10 ms (aim: at most 5 %); a whole step takes {decision[step_ms]:.1f} ms here.

## An urgent request while all slots are busy

{num_slots} slots, {num_slots} generations in them and as many in line, all of 60 to 200 tokens; then an urgent request
of 12 tokens comes. Medians of three; a step that computes nothing, while a grammar is compiled, does not count.

| scheduler | steps to its first token | to its last | ms to its first | to its last |
| --- | --- | --- | --- | --- |
"""

_ROWS = {
    "alone": "no other request",
    "ours": "ours",
    "stock_priority": "vLLM, policy `priority`",
    "stock_fcfs": "vLLM, policy `fcfs`",
}

_PIPELINE = """
## A pipeline of {num_stages} workers

{num_requests} generations arrive together and write {num_tokens} tokens each; vLLM with
`pipeline_parallel_size={num_stages}` on one machine. Its processes, an engine and {num_stages} workers, poll:
where fewer cores are free than that, stages do not run at the same time, and throughput says little. Schedulers in
turn; medians of {num_turns} turns, and the fastest turn of each, disturbed least. A call of `schedule` is empty
if no request is left that could run: vLLM puts all that is ready into one micro-batch, and the next one finds nothing.

| scheduler | completion s | tokens/s | times stock | fastest turn, tokens/s | times stock | calls | empty |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""

_PIPELINE_ROWS = {
    "stock": "vLLM's own",
    "token_budget": "Algorithm 1 of the paper",
    "both": "Algorithms 1 and 2 of the paper",
    "balanced": "ours",
}


def page(document: Document) -> str:
    """Returns the page."""
    single = document["one_worker"]
    head = _HEAD.format(**{**document, **single}, share=single["decision"]["share_of_10_ms"])
    rows = [_urgent_row(title, single["urgent"][name]) for name, title in _ROWS.items()]
    text = head + "\n".join(rows) + "\n"
    if (pipeline := document.get("pipeline")) is not None:
        text += _PIPELINE.format(**pipeline)
        text += "\n".join(_pipeline_row(t, pipeline["schedulers"][name]) for name, t in _PIPELINE_ROWS.items()) + "\n"
    return text


def _urgent_row(title: str, one: Mapping[str, float]) -> str:
    steps = f"{one['first_token_steps']:.0f} | {one['whole_steps']:.0f}"
    return f"| {title} | {steps} | {one['first_token_ms']:.0f} | {one['whole_ms']:.0f} |"


def _pipeline_row(title: str, one: Mapping[str, float]) -> str:
    figures = f"{one['completion_s']:.2f} | {one['tokens_per_s']:.0f} | {one['throughput_ratio']:.2f}"
    figures += f" | {one['fastest_tokens_per_s']:.0f} | {one['fastest_ratio']:.2f}"
    return f"| {title} | {figures} | {one['calls']:.0f} | {one['empty_call_share']:.0%} |"


def write_page(document: Document, path: Path) -> None:
    """Writes the page."""
    path.write_text(page(document), encoding="utf-8")
