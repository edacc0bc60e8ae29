# SPDX-License-Identifier: Apache-2.0
"""``llm-planner robots try``: a plan in physics, without a planner and without ROS."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from llm_planner.cli.check import judge
from llm_planner.cli.options import JsonOption, ModelsOption, RobotOption, SeedOption
from llm_planner.cli.output import console, print_json, writing
from llm_planner.core.pose import Pose
from llm_planner.core.segment import ReportStatus, Segment
from llm_planner.robots.library import RobotLibrary

if TYPE_CHECKING:
    from llm_planner.sim.physics.trial import Trial


def try_plan(
    plan: Annotated[str, typer.Argument(help="A plan in MiniSpec (docs/plan_language.md), e.g. 'mf(50);tc(90);'.")],
    robot: RobotOption = "tello",
    models: ModelsOption = None,
    world: Annotated[
        str, typer.Option(help="A bundled world (house, table), a YAML file; an empty stage if not.")
    ] = "",
    wind: Annotated[float, typer.Option(min=0.0, max=5.0, help="Standard deviation of the wind, in m/s.")] = 0.3,
    picture: Annotated[Path | None, typer.Option(help="Draw how it ends into this PNG file, without a window.")] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Carry a plan out in MuJoCo, in virtual time, after the safety gate has judged all of it.

    Shown next to what the robot model expects. Exit status 0 if every segment succeeded and nothing was touched.

    Example: llm-planner robots try 'mf(50);tc(90);'
    """
    from llm_planner.sim.physics.trial import run_trial
    from llm_planner.sim.physics.world_file import load_world_file

    model = RobotLibrary(models or []).get(robot)
    segments = list(judge(model, plan))
    world_file = load_world_file(world) if world else None
    trial = run_trial(model, segments, world_file, wind_m_per_s=wind, seed=seed)
    if picture is not None:
        _draw(trial, picture)
    if as_json:
        print_json(_as_json(trial, segments))
    else:
        _print(trial, segments)
    is_good = _num_succeeded(trial) == len(segments) and not trial.collisions
    raise typer.Exit(0 if is_good else 1)


def _num_succeeded(trial: "Trial") -> int:
    return sum(report.status is ReportStatus.SUCCEEDED for report in trial.reports)


def _print(trial: "Trial", segments: list[Segment]) -> None:
    table = Table("segment", "outcome", "took (s)", "expected (s)", "p90 (s)")
    ends = {report.index: report for report in trial.reports if report.status is not ReportStatus.STARTED}
    for segment in segments:
        end = ends.get(segment.index)
        outcome = "not begun" if end is None else end.status.name.lower()
        if end is not None and end.reason:
            outcome += f": {end.reason}"
        took = "" if end is None else f"{end.duration_s:.1f}"
        table.add_row(segment.text, outcome, took, f"{segment.expected.p50_s:.1f}", f"{segment.expected.p90_s:.1f}")
    console.print(table, markup=False)
    for text in trial.said:
        console.print(f"said: {text}", markup=False)
    for collision in trial.collisions:
        what = collision.other.rpartition(":")[2]
        console.print(
            f"[red]touched[/] {escape(what)} after {collision.time_s:.1f} s, at {collision.speed_m_per_s:.2f} m/s"
        )
    ended = f"after {trial.duration_s:.1f} s at {_shown(trial.true or trial.believed)}"
    console.print(ended if trial.true is None else f"{ended}; believes to be at {_shown(trial.believed)}")


def _shown(pose: Pose) -> str:
    return f"({pose.x_m:.2f}, {pose.y_m:.2f}, {pose.z_m:.2f}) m, {pose.yaw_deg:.0f} degrees"


def _as_json(trial: "Trial", segments: list[Segment]) -> dict[str, object]:
    return {
        "num_segments": len(segments),
        "num_succeeded": _num_succeeded(trial),
        "duration_s": trial.duration_s,
        "expected_s": sum(segment.expected.p50_s for segment in segments),
        "reports": list(trial.reports),
        "said": list(trial.said),
        "true": trial.true,
        "believed": trial.believed,
        "collisions": list(trial.collisions),
    }


def _draw(trial: "Trial", path: Path) -> None:
    from llm_planner.sim.physics.camera import render, save

    shown = render(trial.physics, at_m=trial.at_m, distance_m=2.0, azimuth_deg=60.0, elevation_deg=-50.0)
    with writing(path):
        save(shown, path)
    console.print(f"wrote {path}")
