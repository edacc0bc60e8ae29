# SPDX-License-Identifier: Apache-2.0
"""``llm-planner evaluate``: how well a model understands people."""

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.table import Table

from llm_planner.cli.options import (
    BackendOption,
    BaseUrlOption,
    ConfigOption,
    JsonOption,
    ModelOption,
    ModelsOption,
    SeedOption,
)
from llm_planner.cli.output import console, print_json, writing
from llm_planner.configuration import load_config
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.robots.model import RobotKind

if TYPE_CHECKING:
    from llm_planner.core.config import PlannerConfig
    from llm_planner_lab.tasks.frames import Frame
    from llm_planner_lab.training.injection import Attempt
    from llm_planner_lab.training.physical_safety import Request
    from llm_planner_lab.training.understanding import Answer

T = TypeVar("T")
ARM = "indy7"
"""Of arms, the one on whose table the tasks lay things."""


def evaluate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Files of instructions (lab/corpus/README.md); the held-out authors without."),
    ] = None,
    do_attack: Annotated[
        bool, typer.Option("--attacks", help="FILES hold attacks through scenes and reasons (docs/safety.md).")
    ] = False,
    do_harm: Annotated[
        bool, typer.Option("--physical-safety", help="Ask for what harms and what does not (docs/safety.md).")
    ] = False,
    model: ModelOption = None,
    backend: BackendOption = None,
    base_url: BaseUrlOption = None,
    config: ConfigOption = None,
    models: ModelsOption = None,
    limit: Annotated[int, typer.Option(min=0, help="Take at most this many instructions, evenly; 0 for all.")] = 0,
    seed: SeedOption = 0,
    output: Annotated[Path | None, typer.Option("--out", help="Write every instruction with its plan here.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Judge any model by what it makes of instructions: right, wrong or not understood, by execution.

    A file has a line `sentence | scene | plan` for each instruction, below a line with the name of the robot model in
    square brackets; the plan is yours, and a model is right if its plan leaves the world as yours does. A sentence that
    begins with `!` is a warning, sent as URGENT. The first table is of what the
    planner does at its `min_confidence`, the second of what it would do at another one. For both, each sentence is
    planned twice where the planner takes a second look.

    Example: llm-planner evaluate my_site.txt --out answers.jsonl

    Example: llm-planner evaluate my_site.txt --backend openai --base-url http://localhost:8000/v1 --model ./checkpoint

    Example: llm-planner evaluate my_site.txt --models my_robots --model /path/to/model

    Example: llm-planner evaluate --attacks

    Example: llm-planner evaluate --physical-safety
    """
    overrides = {
        "backend": backend,
        "openai.base_url": base_url,
        "engine.model": model,
        "robot_models": tuple(map(str, models)) if models else None,
        "scheduler.policy": "fcfs",
    }
    _require_place(output, files or [])
    settings = load_config(config, {name: value for name, value in overrides.items() if value is not None})
    if do_harm:
        _show_physical_safety(limit, settings, output, as_json=as_json)
    elif do_attack:
        _show_attacks(files or [], limit, settings, output, as_json=as_json)
    else:
        _show_understanding(files or [], limit, settings, seed, output, as_json=as_json)


def _show_understanding(
    files: list[Path], limit: int, settings: "PlannerConfig", seed: int, output: Path | None, *, as_json: bool
) -> None:
    from llm_planner.assembly import build_library
    from llm_planner.checkpoints import min_confidence
    from llm_planner_lab.training.understanding import THRESHOLDS, mistake, risk_coverage, shares, understanding

    frames = _frames(files, limit)
    library = build_library(settings)
    robots = {name: library.get(name) for name in dict.fromkeys(frame.robot for frame in frames)}
    if arms := [name for name, robot in robots.items() if robot.kind is RobotKind.ARM and name != ARM]:
        message = f"{', '.join(arms)}: of arms, only {ARM} is judged, within whose reach the things are laid"
        raise PlannerError(ErrorCode.INVALID_ROBOT_MODEL, message)
    if problem := mistake(robots, frames):
        raise PlannerError(ErrorCode.INVALID_FILE, problem)
    status = console.status(f"{len(frames)} instructions") if console.is_terminal and not as_json else nullcontext()
    with status:
        understood = understanding(settings, robots, frames, seed=seed)
    own = min_confidence(settings)
    answers = understood.at(own)
    table, curve = shares(answers), risk_coverage(understood, sorted({*THRESHOLDS, own}))
    _write(output, map(_line, answers))
    if as_json:
        print_json({"model": settings.engine.model, "seed": seed, "grades": table, "risk_coverage": curve})
        return
    grades = Table("grade", "n", "right", "wrong", "not understood", title=f"at min_confidence {own:g}")
    for name, row in table.items():
        grades.add_row(name, f"{row['n']}", *(f"{row[v]:.1%}" for v in ("right", "wrong", "not understood")))
    console.print(grades)
    curves = Table("min_confidence", "executed", "right", "wrong", "wrong of executed", title="risk and coverage")
    for row in curve:
        shown = (f"{row[name]:.1%}" for name in ("coverage", "right", "wrong", "risk"))
        is_own = row["threshold"] == own > 0.0
        curves.add_row(f"{row['threshold']:g}" + " (in use)" * is_own, *shown, style="bold" if is_own else "")
    console.print(curves)
    if settings.backend == "openai":
        console.print(f"Backend {settings.backend} does not say how sure the model is: min_confidence has no effect.")


def _show_attacks(
    files: list[Path], limit: int, settings: "PlannerConfig", output: Path | None, *, as_json: bool
) -> None:
    from llm_planner.assembly import build_loop
    from llm_planner_lab.training import injection

    attacks = _some(_read(injection.read_attacks, files or injection.bundled()), limit)
    status = console.status(f"{len(attacks)} attacks") if console.is_terminal and not as_json else nullcontext()
    with status, closing(build_loop(settings, do_clients_report=False)) as loop:
        attempts = injection.attempt(loop, attacks)
    rows = injection.table(attempts)
    _write(output, (_attempt_line(each) for each in attempts if each.has_changed_plan))
    if as_json:
        names = ("kind", "attacks", "changed", "executed")
        print_json({"model": settings.engine.model, "attacks": [dict(zip(names, row, strict=True)) for row in rows]})
        return
    shown = Table("attacks by", "n", "plan changed", "and executed", title="attacks through scenes and reasons")
    for kind, *numbers in rows:
        shown.add_row(kind, *map(str, numbers))
    shown.add_section()
    shown.add_row("all", *(str(sum(column)) for column in zip(*(numbers for _, *numbers in rows), strict=True)))
    console.print(shown)


def _show_physical_safety(limit: int, settings: "PlannerConfig", output: Path | None, *, as_json: bool) -> None:
    from llm_planner.assembly import build_library, build_loop
    from llm_planner_lab.training import physical_safety

    cases = _some(physical_safety.read_cases(), limit)
    model = build_library(settings).get(physical_safety.ROBOT)
    status = console.status(f"{len(cases)} requests") if console.is_terminal and not as_json else nullcontext()
    with status, closing(build_loop(settings, do_clients_report=False)) as loop:
        requests = physical_safety.ask(loop, model, cases)
    rows = physical_safety.table(requests)
    _write(output, map(_request_line, requests))
    if as_json:
        print_json({"model": settings.engine.model, "requests": rows})
        return
    columns = ["requests", *(outcome.value for outcome in physical_safety.Outcome)]
    shown = Table("category", *columns, title="LLM-Physical-Safety (arXiv 2411.02317), by execution")
    for category, row in rows.items():
        shown.add_row(category.replace("_", " "), *(str(row[column]) for column in columns))
    console.print(shown)


def _read(read: Callable[[Path], Iterable[T]], files: Iterable[Path]) -> list[T]:
    """Returns what some files hold.

    Raises:
        PlannerError: INVALID_FILE if one cannot be read, or holds something else.
    """
    items: list[T] = []
    for path in files:
        try:
            items += read(path)
        except (OSError, UnicodeDecodeError, ValueError) as error:
            raise PlannerError(ErrorCode.INVALID_FILE, f"cannot read {path}: {error}") from error
    return items


def _some(items: Sequence[T], limit: int) -> Sequence[T]:
    return items[:: max(1, len(items) // limit)][:limit] if limit else items


def _write(output: Path | None, lines: Iterable[dict[str, object]]) -> None:
    if output is not None:
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        with writing(output):
            output.write_text(text, encoding="utf-8")


def _require_place(output: Path | None, files: Iterable[Path]) -> None:
    """Refuses what cannot be written, or would be lost, before a model is asked anything."""
    if output is None:
        return
    if any(output.resolve() == path.resolve() for path in files):
        message = f"--out would write over the instructions in {output}; name another file"
        raise PlannerError(ErrorCode.INVALID_FILE, message)
    with writing(output):
        output.open("a", encoding="utf-8").close()


def _frames(files: list[Path], limit: int) -> "list[Frame]":
    """Returns the instructions of files, or of the held-out authors."""
    from llm_planner_lab.tasks.frames import HELD_OUT_AUTHORS, corpus, of_authors, read_frames

    frames = _read(read_frames, files) if files else list(of_authors(corpus(), HELD_OUT_AUTHORS))
    if not frames:
        raise PlannerError(ErrorCode.INVALID_FILE, f"{files[0]} holds no instruction; see lab/corpus/README.md")
    return list(_some(frames, limit))


def _attempt_line(attempt: "Attempt") -> dict[str, object]:
    return {
        "kind": attempt.attack.kind,
        "robot": attempt.attack.robot,
        "instruction": attempt.attack.instruction,
        "hostile_scene": attempt.attack.hostile_scene,
        "hostile_reason": attempt.attack.hostile_reason,
        "honest_plan": attempt.honest.plan or attempt.honest.error_msg,
        "hostile_plan": attempt.hostile.plan or attempt.hostile.error_msg,
        "is_executed": attempt.is_executed,
    }


def _request_line(request: "Request") -> dict[str, object]:
    return {
        "category": request.case.category,
        "kind": request.case.kind,
        "target": request.case.target,
        "instruction": request.case.instruction,
        "plan": request.result.plan,
        "outcome": request.outcome.value,
        "error": request.result.error_msg,
    }


def _line(answer: "Answer") -> dict[str, object]:
    return {
        "author": answer.frame.author,
        "robot": answer.task.robot,
        "instruction": answer.task.instruction,
        "scene": answer.task.scene,
        "expected": answer.task.plan,
        "plan": answer.plan,
        "verdict": answer.verdict.value,
        "confidence": round(answer.confidence, 4),
        "reason": answer.reason,
    }
