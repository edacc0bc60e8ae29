# SPDX-License-Identifier: Apache-2.0
"""``llm-planner chaos``: faults against a whole fleet."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from llm_planner.cli.options import SeedOption
from llm_planner.cli.output import console, error_console
from llm_planner.cli.simulator import Simulator
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner_lab.progress import progress_bar

if TYPE_CHECKING:
    from llm_planner_lab.bench.chaos.schedule import FaultKind

PAGE = Path("docs/benchmarks/chaos.md")
BACKENDS = ("fake", "torch")


def chaos(
    seed: SeedOption = 0,
    goals: Annotated[int, typer.Option(min=0, help="End when this many goals have ended; 0 for no limit.")] = 0,
    seconds: Annotated[float, typer.Option(min=0.0, help="End after this many seconds; 0 for no limit.")] = 60.0,
    faults: Annotated[
        str, typer.Option(help="Kinds of faults, with commas between; `none`, or `list` to see them.")
    ] = ("all"),
    every: Annotated[float, typer.Option(min=0.1, help="Mean seconds between two faults.")] = 4.0,
    last_fault: Annotated[int | None, typer.Option(help="Index of the last fault, to repeat what broke.")] = None,
    starts: Annotated[int, typer.Option(min=0, help="Instead: start and stop the fleet this many times.")] = 0,
    soak: Annotated[
        bool, typer.Option("--soak", help="Instead: no faults; does the memory of a process grow?")
    ] = False,
    drones: Annotated[int, typer.Option(min=0, max=50, help="How many drones.")] = 5,
    arms: Annotated[int, typer.Option(min=0, max=50, help="How many arms.")] = 1,
    time_scale: Annotated[float, typer.Option(min=0.1, help="How much faster than real time robots run.")] = 5.0,
    backend: Annotated[
        str, typer.Option(help="What plans: fake (scripted plans, checked to the letter) or torch (sentences).")
    ] = "fake",
    sim: Annotated[Simulator, typer.Option(help="Robots without bodies, or with: then their world is killed too.")] = (
        Simulator.KINEMATIC
    ),
    defect: Annotated[
        str,
        typer.Option(
            "--break", help="Break robots on purpose: foreign, twice, unadmitted, deaf or dies; or drone_1=deaf,..."
        ),
    ] = "",
    journals: Annotated[Path | None, typer.Option(help="Leave journals and logs of all processes here.")] = None,
    json: Annotated[Path | None, typer.Option("--json", help="Write the result here.")] = None,
    page: Annotated[Path | None, typer.Option(help=f"Write a page here, such as {PAGE}, from --json files.")] = None,
) -> None:
    """Start a fleet, inject faults from a seeded schedule, and check every call that every robot made.

    Planner, engine, robots, dashboard and recorder are processes of their own. Robots are told one thing after the
    other, with emergencies and cancels at every moment, while processes are killed and stopped, messages get lost, the
    network is cut, clocks step, disk and memory end, and strangers send what no program of ours would. Then what each
    robot's driver was told is compared, call by call, with what the safety gate had admitted for that goal.

    The seed decides which fault comes when, and what robots are told; when a process is hit in the midst of its work is
    up to the machine. Exit status 1 if an invariant is broken; the last line says how to repeat it.

    Example: llm-planner chaos --seconds 60

    Example: llm-planner chaos --goals 10000 --seconds 0   (until 10,000 goals have ended)

    Example: llm-planner chaos --faults kill-engine,kill-planner

    Example: llm-planner chaos --starts 100   (start and stop it a hundred times)

    Example: llm-planner chaos --soak --seconds 7200   (does memory grow?)

    Example: llm-planner chaos --seconds 20 --faults none --break twice   (does it find a robot that is broken?)

    Some faults need root: without it there is no network and no disk of its own, and they are left out.
    """
    from llm_planner_lab.bench.chaos import machine
    from llm_planner_lab.bench.chaos.mutations import NAMES
    from llm_planner_lab.bench.chaos.parts import with_other_parts
    from llm_planner_lab.bench.chaos.schedule import MEANINGS
    from llm_planner_lab.reports import write_report

    if faults == "list":
        for kind, meaning in MEANINGS.items():
            console.print(f"{kind.value:15} {meaning}")
        return
    if backend not in BACKENDS:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"--backend {backend}: it must be {' or '.join(BACKENDS)}")
    if unknown := sorted({one.rpartition("=")[2] for one in defect.split(",") if one} - set(NAMES)):
        raise PlannerError(
            ErrorCode.INVALID_CONFIG, f"--break {unknown[0]}: a robot can be made {', '.join(NAMES)}, and nothing else"
        )
    kinds = () if soak else _kinds(faults)
    if problem := machine.isolate():
        error_console.print(problem, style="yellow", soft_wrap=True)
    with progress_bar("starting the fleet") as on_progress:
        if starts:
            from llm_planner_lab.bench.chaos.starts import run_starts

            document = run_starts(starts, seed, drones=drones, arms=arms, on_progress=on_progress)
        else:
            from llm_planner_lab.bench.chaos.campaign import Plan, run_campaign

            plan = Plan(
                seed=seed,
                goals=goals,
                seconds=seconds,
                kinds=kinds,
                last_fault=last_fault,
                every_s=every,
                drones=drones,
                arms=arms,
                time_scale=time_scale,
                backend=backend,
                has_world=sim is Simulator.MUJOCO,
                is_soak=soak,
                defect=defect,
                journals=journals,
            )
            document = run_campaign(plan, on_progress, is_isolated=not problem)
    _show(document)
    for path in write_report("chaos", with_other_parts(document, json), json, page):
        console.print(f"wrote {path}")
    if any(document["invariants"].values()):
        error_console.print(f"to repeat it:  {document['reproduce']}", style="bold red", soft_wrap=True)
        raise typer.Exit(1)


def _kinds(text: str) -> "tuple[FaultKind, ...]":
    from llm_planner_lab.bench.chaos.schedule import FaultKind

    names = {kind.value: kind for kind in FaultKind}
    if text in ("all", "none"):
        return tuple(FaultKind) if text == "all" else ()
    unknown = [name for name in text.split(",") if name not in names]
    if unknown:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"no fault {unknown[0]!r}; known are {', '.join(names)}")
    return tuple(names[name] for name in text.split(","))


def _show(document: dict[str, Any]) -> None:
    """Prints what was done, what came of it, and what must hold."""
    from llm_planner_lab.bench.chaos.checks import INVARIANTS

    for what in ("faults", "goals", "figures"):
        table = Table(what, "")
        for name, value in document.get(what, {}).items():
            table.add_row(name, _text(value))
        if table.row_count:
            console.print(table)
    for kind, reason in document.get("skipped", {}).items():
        console.print(f"left out: {kind} {reason}", style="yellow")
    table = Table("invariant", "broken", "which says that")
    for name, count in document["invariants"].items():
        table.add_row(name, f"[{'red' if count else 'green'}]{count}[/]", INVARIANTS[name])
    console.print(table)
    for example in document["examples"]:
        where = f"{example['at_s']} s, fault {example['fault']}"
        console.print(f"{example['invariant']} ({where}): {example['what']}", style="red", markup=False, soft_wrap=True)


def _text(value: object) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{name} {number}" for name, number in value.items())
    return "-" if value is None else str(value)
