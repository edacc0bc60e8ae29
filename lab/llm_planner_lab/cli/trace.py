# SPDX-License-Identifier: Apache-2.0
"""``llm-planner trace``: compose, record and replay LRTrace files."""

from dataclasses import replace
from pathlib import Path
from typing import IO, Annotated

import typer

from llm_planner.cli.options import ConfigOption, ModelOption, ThreadsOption
from llm_planner.cli.output import console, error_console, print_json
from llm_planner.cli.stop_signal import StopSignal
from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.cli.shared import numbers
from llm_planner_lab.simulation.failures import MAX_SHARE, with_failures
from llm_planner_lab.simulation.trace import read_trace, request_schema, write_trace
from llm_planner_lab.simulation.workload import compose as compose_trace
from llm_planner_lab.simulation.workload import workload as preset

app = typer.Typer(help="Compose, record and replay traces of robots' requests.", no_args_is_help=True)


@app.command()
def compose(
    path: Annotated[Path, typer.Argument(help="The file to write.")],
    workload: Annotated[str, typer.Option(help="wid1, wid2, wid3 or chat: what the options below change.")] = "wid1",
    seed: Annotated[int, typer.Option(help="The same seed gives the same trace.")] = 0,
    load: Annotated[float, typer.Option(min=0.01, help="Factor on events and robots.")] = 1.0,
    events_per_s: Annotated[float | None, typer.Option(help="Poisson rate of events.")] = None,
    max_tasks_per_event: Annotated[int | None, typer.Option(help="Max TPE.")] = None,
    num_robots: Annotated[int | None, typer.Option(help="Agent number.")] = None,
    duration_s: Annotated[float | None, typer.Option(help="Length in seconds.")] = None,
    tasks: Annotated[str, typer.Option(help="Trace ids of Table 2, with commas between.")] = "",
    failures: Annotated[
        float, typer.Option(min=0.0, max=MAX_SHARE, help="Share of segments that fail on the robot, e.g. 0.05.")
    ] = 0.0,
) -> None:
    """Compose a trace: Poisson events, up to Max TPE tasks at once, a free robot for each."""
    changes = {
        "events_per_s": events_per_s,
        "max_tasks_per_event": max_tasks_per_event,
        "num_robots": num_robots,
        "duration_s": duration_s,
        "tasks": numbers("--tasks", tasks, int) if tasks else None,
    }
    spec = replace(preset(workload).scaled(load), **{k: v for k, v in changes.items() if v is not None})  # type: ignore[arg-type]
    robots = RobotLibrary()
    trace = compose_trace(spec, seed, robots)
    if failures:
        trace = with_failures(trace, failures, seed, robots)
    write_trace(trace, path)
    console.print(f"wrote {len(trace.requests)} requests to {path}")


@app.command()
def schema() -> None:
    """Print the JSON schema of a request's line in a trace file."""
    print_json(request_schema())


@app.command()
def record(
    path: Annotated[Path, typer.Argument(help="The file to write; it must not exist yet.")],
    planner: Annotated[str, typer.Option(help="Full name of the planner node.")] = "/planner",
    past: Annotated[
        bool, typer.Option("--past", help="Begin with what the planner still remembers: its last 1,000 events.")
    ] = False,
    duration: Annotated[float | None, typer.Option(min=0.1, help="Seconds; until Ctrl-C if not given.")] = None,
) -> None:
    """Record the goals of a running planner until Ctrl-C, into a file that `trace replay` reads.

    Every line is written as it comes; a recording that is killed counts as far as it goes. Goals that began before the
    recording, or have not ended when it ends, are not replayed.
    """
    from llm_planner.ros.spinning import spinning
    from llm_planner_lab.ros.trace_recorder import TraceRecorder

    stop = StopSignal()
    with _new_file(path) as file, error_console.status(f"waiting for goals of {planner}; Ctrl-C ends") as status:
        with spinning("llm_planner_recorder") as node:
            recorder = TraceRecorder(
                node,
                planner,
                file,
                name=path.stem,
                has_past=past,
                on_event=lambda number: status.update(f"{number} events of {planner}; Ctrl-C ends"),
            )
            stop.wait(duration)
        recorder.close()
    trace = read_trace(path, RobotLibrary())
    lost = f"; {recorder.num_lost} events were lost" if recorder.num_lost else ""
    console.print(f"wrote {recorder.num_events} events, {len(trace.requests)} whole goals, to {path}{lost}")


def _new_file(path: Path) -> IO[str]:
    try:
        return path.open("x", encoding="utf-8")
    except OSError as error:
        raise PlannerError(
            ErrorCode.INVALID_FILE, f"{path} cannot be written ({error.strerror}); choose another name"
        ) from error


@app.command()
def replay(
    path: Annotated[Path, typer.Argument(help="A trace file.")],
    policy: Annotated[str, typer.Option(help="Scheduling policy.")] = "tardiness",
    engine: Annotated[str, typer.Option(help="simulated: virtual time; live: the real engine, in real time.")] = (
        "simulated"
    ),
    profile: Annotated[str, typer.Option(help="Simulated engine: a profile's name or YAML file.")] = (
        "llama3-8b-rtx4090"
    ),
    prefixes: Annotated[bool, typer.Option(help="Prefill the static part of prompts once.")] = True,
    model: ModelOption = None,
    config: ConfigOption = None,
    threads: ThreadsOption = 1,
) -> None:
    """Replay a trace and print what came of it.

    In virtual time, the plans are those of the file. Live, the model plans the instructions itself; a robot takes as
    long as the file says for a statement that the file has in the same place, and a sample of its model otherwise.
    """
    from llm_planner_lab.bench.timely.benchmark import TimelyBench, run_timely
    from llm_planner_lab.cli.live import live_lab, planner_config

    is_live = engine == "live"
    bench = TimelyBench(
        workload=str(path),
        policies=(policy,),
        profile=profile,
        reuses_prefixes=prefixes,
        engine=engine,
        planner=planner_config(model, config, threads) if is_live else PlannerConfig(),
    )
    if read_trace(path, RobotLibrary()).about.get("is_cut"):
        error_console.print(f"{path}: the recording was cut; its whole goals are replayed")
    with live_lab(is_shown=is_live) as lab:
        document = run_timely(bench, lab)
    print_json(document)
