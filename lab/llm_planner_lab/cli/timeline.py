# SPDX-License-Identifier: Apache-2.0
"""``llm-planner timeline``: a run as a picture and as a Chrome trace."""

from pathlib import Path
from typing import Annotated

import typer

from llm_planner.cli.output import console
from llm_planner.core.config import SchedulerConfig
from llm_planner.demo.timeline import read_summary, spans_of_demo
from llm_planner.monitoring.chrome_trace import write_chrome_trace
from llm_planner.monitoring.timeline import Span, draw_timeline, window
from llm_planner.prediction.profile import find_profile
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.bench.run_timeline import spans_of_run
from llm_planner_lab.simulation.script import ScriptLibrary
from llm_planner_lab.simulation.simulator import SimulationConfig, simulate
from llm_planner_lab.simulation.trace import read_trace

SUMMARY = "summary.json"


def timeline(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A trace file, or a demo's directory or summary.json.", exists=True)
    ],
    png: Annotated[Path | None, typer.Option(help="Picture to write; by default next to RUN.")] = None,
    chrome: Annotated[Path | None, typer.Option(help="Chrome trace to write; by default next to RUN.")] = None,
    start_s: Annotated[float, typer.Option("--start", min=0.0, help="The picture begins here, in seconds.")] = 0.0,
    duration_s: Annotated[
        float | None, typer.Option("--duration", min=0.01, help="The picture's length, in seconds; all without.")
    ] = None,
    policy: Annotated[str, typer.Option(help="Scheduling policy, to replay a trace under.")] = "tardiness",
    profile: Annotated[str, typer.Option(help="Engine profile, to replay a trace with: a name or a YAML file.")] = (
        "llama3-8b-rtx4090"
    ),
) -> None:
    """Show who waited, who moved and when the engine worked: a PNG, and a Chrome trace that opens in Perfetto.

    One row for the engine and one per robot. A demo is drawn as it went; a trace is replayed in virtual time.
    """
    is_demo = run.is_dir() or run.suffix == ".json"
    stem = (run if run.is_dir() else run.parent) / ("timeline" if is_demo else f"{run.stem}_timeline")
    png, chrome = png or stem.with_name(f"{stem.name}.png"), chrome or stem.with_name(f"{stem.name}.json")
    spans, title = _demo(run) if is_demo else _trace(run, policy, profile)
    shown = window(spans, start_s, duration_s)
    draw_timeline(shown, png, title, start_s)
    write_chrome_trace(spans, chrome)
    console.print(f"wrote {png}, and {chrome}: open it at https://ui.perfetto.dev", soft_wrap=True)


def _demo(run: Path) -> tuple[list[Span], str]:
    summary = read_summary(run / SUMMARY if run.is_dir() else run)
    return spans_of_demo(summary), summary.title


def _trace(run: Path, policy: str, profile: str) -> tuple[list[Span], str]:
    robots = RobotLibrary()
    config = SimulationConfig(profile=find_profile(profile), scheduler=SchedulerConfig(policy=policy), keeps_steps=True)
    record = simulate(read_trace(run, robots), config, ScriptLibrary(robots))
    return list(spans_of_run(record)), f"{run.stem}, policy {policy}, simulated with {config.profile.name}"
