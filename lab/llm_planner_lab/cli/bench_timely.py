# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench timely`` and others: policies and what segments cost, in virtual time and on a real planner."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from llm_planner.cli.options import BackendOption, ConfigOption, ModelOption, ThreadsOption
from llm_planner.cli.output import console, error_console, print_json
from llm_planner.core.config import PlannerConfig, SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.profile import find_profile
from llm_planner_lab.bench.artifact import POLICIES, run_artifact
from llm_planner_lab.bench.chat import ChatBench, run_chat
from llm_planner_lab.bench.decision import run_decision
from llm_planner_lab.bench.overhead import run_overhead, table2_requests
from llm_planner_lab.bench.planner_profile import profile_planner
from llm_planner_lab.bench.replicas import ReplicaBench, run_replicas
from llm_planner_lab.bench.section7 import Section7, draw, rounded
from llm_planner_lab.bench.timely.benchmark import Lab, TimelyBench, run_timely
from llm_planner_lab.bench.validation import draw_validation, run_validation, summary_lines
from llm_planner_lab.cli.live import live_lab, planner_config
from llm_planner_lab.cli.shared import numbers, write_json
from llm_planner_lab.reports import write_report

JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the result here instead of printing it.")]


LIVE_POLICIES = "fcfs,fcfs_segment,pud,tardiness"
VLLM_POLICIES = "tardiness,vllm_fcfs,vllm_priority"
LIVE_DURATION_S = 30.0


def timely(
    workload: Annotated[str, typer.Option(help="wid1, wid2, wid3 (Table 3 of TimelyLLM) or a trace file.")] = "wid1",
    policies: Annotated[str, typer.Option(help=f"Names with commas between; all if empty, live {LIVE_POLICIES}.")] = "",
    engine: Annotated[str, typer.Option(help="simulated: virtual time; live: the real engine, in real time.")] = (
        "simulated"
    ),
    profile: Annotated[str, typer.Option(help="Simulated engine: a profile's name or YAML file.")] = (
        "llama3-8b-rtx4090"
    ),
    seeds: Annotated[int | None, typer.Option(min=1, help="Traces per policy; by default 3, live 1.")] = None,
    load: Annotated[float | None, typer.Option(min=0.01, help="Factor on events and robots; by default 1.")] = None,
    duration: Annotated[
        float | None,
        typer.Option(min=1.0, help=f"Seconds of a trace; by default as in Table 3, live {LIVE_DURATION_S:g}."),
    ] = None,
    prefixes: Annotated[bool, typer.Option(help="Prefill the static part of prompts once.")] = True,
    max_num_seqs: Annotated[int, typer.Option(min=1, help="Most generations that decode together.")] = 16,
    max_num_batched_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of a step.")] = 2048,
    sweep: Annotated[str, typer.Option(help="load=0.5,1,2,4 or max_num_seqs=1,2,4,8: one document per value.")] = "",
    model: ModelOption = None,
    config: ConfigOption = None,
    backend: BackendOption = None,
    threads: ThreadsOption = 1,
    json: JsonFile = None,
) -> None:
    """Compare scheduling policies on the same traces: utility, response and waiting times per class of requests.

    With `--engine live`, the model of --model, --config, --backend and --threads plans the instructions of the trace
    itself. With `--backend vllm`, the policies vllm_fcfs and vllm_priority are vLLM's own: the same vLLM schedules by
    itself, with --max-num-seqs slots.
    """
    _require_composed(
        workload, {"--seeds": seeds, "--duration": duration, "--load": load, "--sweep load": sweep.startswith("load")}
    )
    is_live = engine == "live"
    planner = planner_config(model, config, threads, backend) if is_live else PlannerConfig()
    usual = (VLLM_POLICIES if planner.backend == "vllm" else LIVE_POLICIES) if is_live else ""
    documents = []
    with live_lab(is_shown=is_live) as lab:
        for changes in _sweep(sweep):
            scheduler = SchedulerConfig(
                max_num_seqs=int(changes.get("max_num_seqs", max_num_seqs)),
                max_num_batched_tokens=max_num_batched_tokens,
            )
            bench = TimelyBench(
                workload=workload,
                policies=tuple(filter(None, (policies or usual).split(","))),
                profile=profile,
                num_seeds=seeds or (1 if is_live else 3),
                load=changes.get("load", load or 1.0),
                duration_s=duration or (LIVE_DURATION_S if is_live else None),
                reuses_prefixes=prefixes,
                scheduler=scheduler,
                engine=engine,
                planner=planner,
            )
            documents.append(run_timely(bench, lab, console.print if json else lambda _: None))
    _write(documents if sweep else documents[0], json)


def validate(
    workload: Annotated[str, typer.Option(help="wid1, wid2, wid3 (Table 3 of TimelyLLM) or a trace file.")] = "wid1",
    policies: Annotated[str, typer.Option(help="Names with commas between.")] = "fcfs,fcfs_segment,tardiness",
    profile: Annotated[str, typer.Option(help="A profile of this machine; measured first if empty.")] = "",
    load: Annotated[float | None, typer.Option(min=0.01, help="Factor on events and robots; by default 8.")] = None,
    duration: Annotated[
        float | None, typer.Option(min=1.0, help=f"Seconds of a composed trace; by default {LIVE_DURATION_S:g}.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=3, help="Steps per point, if the profile is measured.")] = 9,
    max_num_seqs: Annotated[int, typer.Option(min=1, help="Most generations that decode together.")] = 16,
    model: ModelOption = None,
    config: ConfigOption = None,
    threads: ThreadsOption = 1,
    png: Annotated[Path | None, typer.Option(help="Picture to write: simulated against live times.")] = None,
    json: JsonFile = None,
) -> None:
    """Replay one trace live and in virtual time, and say how far the simulated response times are off."""
    _require_composed(workload, {"--load": load, "--duration": duration})
    planner = planner_config(model, config, threads)
    scheduler = SchedulerConfig(max_num_seqs=max_num_seqs)
    bench = TimelyBench(
        workload=workload,
        policies=tuple(policies.split(",")),
        num_seeds=1,
        load=load or 8.0,
        duration_s=duration or LIVE_DURATION_S,
        scheduler=scheduler,
        engine="live",
        planner=planner,
    )
    with live_lab() as lab:
        lab.on_progress("measuring a profile" if not profile else "loading the model", 0.0)
        used = find_profile(profile) if profile else profile_planner(planner, "this-machine", repeats).profile
        document = run_validation(bench, used, lab)
    for line in summary_lines(document):
        error_console.print(line, soft_wrap=True)
    if png is not None:
        draw_validation(document, png)
    _write(document, json)


def overhead(
    repeats: Annotated[int, typer.Option(min=2, help="How often every plan is generated, each way.")] = 15,
    model: ModelOption = None,
    config: ConfigOption = None,
    threads: ThreadsOption = 1,
    output: Annotated[Path | None, typer.Option(help="Directory for overhead.json and overhead.md.")] = None,
    json: JsonFile = None,
) -> None:
    """Measure what it costs to generate plans in segments, suspended and resumed, instead of at once; by task.

    Five to ten minutes, most of them until the engine has cooled behind each segment, as it does while a robot moves.
    """
    with live_lab() as lab:
        document = run_overhead(planner_config(model, config, threads), repeats, table2_requests(), lab.on_progress)
    _write_page("overhead", document, output, json)


def decision(
    queued: Annotated[str, typer.Option(help="Lengths of the queue, with commas between.")] = "8,1000,10000",
    policy: Annotated[str, typer.Option(help="Scheduling policy.")] = "tardiness",
    json: JsonFile = None,
) -> None:
    """Measure how long one scheduling decision takes."""
    _write(run_decision(numbers("--queued", queued, int), policy), json)


def chat(
    policies: Annotated[str, typer.Option(help="For paragraphs and sentences; names with commas.")] = "pud,tardiness",
    profile: Annotated[str, typer.Option(help="Engine profile: a name or a YAML file.")] = "llama3-8b-rtx4090",
    seeds: Annotated[int, typer.Option(min=1, help="Traces per way to answer.")] = 3,
    load: Annotated[float, typer.Option(min=0.01, help="Factor on events and people.")] = 1.0,
    duration: Annotated[float, typer.Option(min=10.0, help="Seconds of a trace.")] = 300.0,
    output: Annotated[Path | None, typer.Option(help="Directory for chat.json and chat.md.")] = None,
    json: JsonFile = None,
) -> None:
    """Compare chats answered whole, by paragraphs and by sentences (TimelyLLM 7.4.2), in virtual time."""
    names = tuple(filter(None, policies.split(",")))
    bench = ChatBench(policies=names, profile=profile, num_seeds=seeds, load=load, duration_s=duration)
    document = run_chat(bench, console.print)
    if output is not None:
        write_report("chat", rounded(document), output / "chat.json", output / "chat.md")
    if json is not None:
        _write(document, json)


def artifact(
    policies: Annotated[str, typer.Option(help="Names with commas.")] = ",".join(POLICIES),
    profile: Annotated[str, typer.Option(help="Engine profile: a name or a YAML file.")] = "llama3-8b-rtx4090",
    output: Annotated[Path | None, typer.Option(help="Directory for artifact.json and artifact.md.")] = None,
    json: JsonFile = None,
) -> None:
    """Compare policies on the workloads that the authors of TimelyLLM published; their baseline sets the engine."""
    document = run_artifact(profile, tuple(filter(None, policies.split(","))), console.print)
    _write_page("artifact", document, output, json)


def section7(
    output: Annotated[Path, typer.Option(help="Directory for the page, the JSON file and the figures.")] = Path(
        "docs/benchmarks"
    ),
    seeds: Annotated[int, typer.Option(min=2, help="Traces per policy.")] = 3,
) -> None:
    """Reproduce section 7 of TimelyLLM in virtual time and write timely.md; takes some minutes."""
    lab = Lab()
    documents = rounded(Section7(lab, seeds, console.print).run())
    draw(documents, lab, output / "figures")
    write_report("timely", documents, output / "timely.json", output / "timely.md")


def replicas(
    num_replicas: Annotated[int, typer.Option("--replicas", min=2, help="Engine processes, compared with one.")] = 2,
    robots: Annotated[int, typer.Option(min=1, help="Robots that always have a goal.")] = 32,
    duration: Annotated[float, typer.Option(min=1.0, help="Seconds of a run.")] = 20.0,
    repeats: Annotated[int, typer.Option(min=1, help="Runs each way.")] = 5,
    model: ModelOption = None,
    config: ConfigOption = None,
    backend: BackendOption = None,
    threads: ThreadsOption = 1,
    output: Annotated[Path | None, typer.Option(help="Directory for replicas.json and replicas.md.")] = None,
    json: JsonFile = None,
) -> None:
    """Measure what a second engine process brings on this machine, and what becomes of goals when one is killed."""
    bench = ReplicaBench(
        config=planner_config(model, config, threads, backend),
        num_replicas=num_replicas,
        num_robots=robots,
        duration_s=duration,
        num_repeats=repeats,
    )
    with live_lab() as lab:
        document = run_replicas(bench, lab.on_progress)
    _write_page("replicas", document, output, json)


def _require_composed(workload: str, options: Mapping[str, object]) -> None:
    """Refuses options that compose a trace, where one is given.

    Raises:
        PlannerError: INVALID_CONFIG.
    """
    if Path(workload).is_file() and (given := [option for option, value in options.items() if value]):
        problem = f"{workload} is a trace, which is replayed as it is; leave out {' and '.join(given)}"
        raise PlannerError(ErrorCode.INVALID_CONFIG, problem)


def _sweep(text: str) -> list[dict[str, float]]:
    """Returns the changes that a sweep goes through; one empty change without a sweep."""
    if not text:
        return [{}]
    name, _, values = text.partition("=")
    if name not in {"load", "max_num_seqs"}:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"--sweep takes load=... or max_num_seqs=..., got {text!r}")
    if name == "load":
        return [{name: value} for value in numbers("--sweep load", values, float, least=0.01)]
    return [{name: value} for value in numbers("--sweep max_num_seqs", values, int, least=1)]


def _write_page(name: str, document: Any, output: Path | None, path: Path | None) -> None:
    """Writes the page and its document into a directory, the document elsewhere, or prints it."""
    if output is not None:
        for written in write_report(name, rounded(document), output / f"{name}.json", output / f"{name}.md"):
            console.print(f"wrote {written}")
    if path is not None or output is None:
        _write(document, path)


def _write(document: Any, path: Path | None) -> None:
    if path is None:
        print_json(document)
    else:
        write_json(document, path)
