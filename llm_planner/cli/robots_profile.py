# SPDX-License-Identifier: Apache-2.0
"""``llm-planner robots profile``: how long a robot's skills take, measured in a physical simulation."""

import importlib.util
from collections.abc import Sequence
from json import dumps as json_text
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from llm_planner.cli.options import ModelsOption, RobotOption, SeedOption
from llm_planner.cli.output import console, writing
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.extras import load_extra
from llm_planner.robots.library import RobotLibrary

if TYPE_CHECKING:
    from llm_planner.sim.physics.profiling.profile import Group

MOST_MEDIAN_ERROR, COVERAGE = 0.05, (0.88, 0.92)


def profile_robot(
    robot: RobotOption = "tello",
    sim: Annotated[str, typer.Option(help="What simulates the robot: mujoco.")] = "mujoco",
    models: ModelsOption = None,
    calls: Annotated[
        int, typer.Option(min=16, help="Calls to fit each duration model to: the more, the surer p90.")
    ] = 400,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that simulate.")] = 1,
    wind: Annotated[float, typer.Option(min=0.0, max=5.0, help="Mean wind in m/s.")] = 0.3,
    output: Annotated[
        Path | None, typer.Option(help="Directory for the robot model with the new durations, and a picture.")
    ] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Write them into the robot model's own file.")] = False,
    seed: SeedOption = 0,
    json: Annotated[Path | None, typer.Option("--json", help="Also write the figures here.")] = None,
) -> None:
    """Try every skill over a grid of arguments and seeds in virtual time, and fit the robot's duration models.

    Printed: median error and share of calls within p90 (with the standard error of so few calls), before and after, on
    as many calls whose arguments, places and seeds were not profiled; ahead: with the arguments known, but not
    where things are, as the scheduler before the call. Without --output or --in-place nothing is written. Exit status 0
    also where an aim is missed.

    Example: llm-planner robots profile --robot tello
    """
    if sim != "mujoco":
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"no simulation {sim!r}; there is mujoco")
    if missing := [name for name in ("mujoco", "ruamel") if importlib.util.find_spec(name) is None]:
        raise PlannerError(
            ErrorCode.NOT_INSTALLED,
            f"profiling needs {', '.join(missing)}, which is not installed: pip install -r requirements/sim.txt",
        )
    if output is not None:
        load_extra("matplotlib", "plots")  # for its pictures: missing is said before everything is measured
    from llm_planner.sim.physics.profiling.profile import overall_coverage, profile
    from llm_planner.sim.physics.profiling.write import write_durations

    library = RobotLibrary(models or [])
    model = library.get(robot)
    path = library.path_of(robot)
    for directory in filter(None, (output, json and json.parent, path.resolve().parent if in_place else None)):
        with writing(directory):  # said before everything is measured
            directory.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=directory).close()
    found = profile(model, num_calls=calls, seed=seed, wind_m_per_s=wind, num_jobs=jobs, on_progress=console.print)
    console.print(_table(f"{robot} in {sim}, held-out calls", found))
    low, high = COVERAGE
    wide = [g.label for g in found if not g.is_table and g.now.median_error > MOST_MEDIAN_ERROR]
    off = [g.label for g in found if not low <= g.now.coverage <= high]
    console.print(f"median error up to {MOST_MEDIAN_ERROR:.0%} (tables have none): {_verdict(wide)}")
    console.print(f"{low:.0%} to {high:.0%} of the calls within p90: {_verdict(off)}")
    coverage, error = overall_coverage(found)
    console.print(f"of all calls together, {coverage:.1%} (+-{error:.1%})")
    fits = {name: group.after for group in found for name in group.skills}
    targets = [path] if in_place else []
    if output is not None:
        targets.append(output / path.name)
        from llm_planner.sim.physics.profiling.figures import draw_profile

        parts = {group.label: (group.before, group.after, group.held_out) for group in found}
        with writing(output):
            draw_profile(output / f"{robot}.png", f"{robot} in {sim}: {calls} calls, wind {wind:g} m/s", parts)
    for target in targets:
        with writing(target):
            write_durations(path, target, fits)
        console.print(f"written: {target}")
    if json is not None:
        rows = [
            {
                "skills": group.skills,
                "calls": group.now.num_samples,
                "median_error": [group.was.median_error, group.now.median_error],
                "coverage": [group.was.coverage, group.now.coverage],
                "coverage_error": group.coverage_error,
                "ahead": [group.ahead.median_error, group.ahead.coverage],
            }
            for group in found
        ]
        figures = {"robot": robot, "calls": calls, "seed": seed, "coverage": [coverage, error], "groups": rows}
        with writing(json):
            json.write_text(json_text(figures, indent=1) + "\n")


def _verdict(missed: list[str]) -> str:
    return f"missed by {'; '.join(missed)}" if missed else "met by all"


def _table(title: str, found: Sequence["Group"]) -> Table:
    """Returns what is shown of each group of skills."""
    headings = ("skills", "calls", "median error", "within p90", "ahead: error", "within p90")
    table = Table(*headings, title=title)
    for group in found:
        was, now = group.was, group.now
        errors = f"{was.median_error:.1%} -> {now.median_error:.1%}"
        covers = f"{was.coverage:.0%} -> {now.coverage:.1%} (+-{group.coverage_error:.1%})"
        ahead = (f"{group.ahead.median_error:.1%}", f"{group.ahead.coverage:.1%}")
        table.add_row(group.label, str(now.num_samples), errors, covers, *ahead)
    return table
