"""``llm-planner evaluate``: how well a model understands people."""

import json
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from llm_planner.cli.options import BackendOption, BaseUrlOption, ConfigOption, JsonOption, ModelOption, SeedOption
from llm_planner.cli.output import console, print_json
from llm_planner.configuration import load_config
from llm_planner.core.errors import ErrorCode, PlannerError

if TYPE_CHECKING:
    from llm_planner_lab.tasks.frames import Frame
    from llm_planner_lab.training.understanding import Answer


def evaluate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Files of instructions (lab/corpus/README.md); the held-out authors without."),
    ] = None,
    model: ModelOption = None,
    backend: BackendOption = None,
    base_url: BaseUrlOption = None,
    config: ConfigOption = None,
    limit: Annotated[int, typer.Option(min=0, help="Take only so many instructions, evenly; 0 for all.")] = 0,
    seed: SeedOption = 0,
    output: Annotated[Path | None, typer.Option("--out", help="Write every instruction with its plan here.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Judge any model by what it makes of instructions: right, wrong or not understood, by execution.

    A file has a line `sentence | scene | plan` for each instruction, below a line with the name of the robot model in
    square brackets; the plan is yours, and a model is right if its plan leaves the world as yours does. A sentence that
    begins with `!` is a warning, sent as URGENT. The second table shows what another `min_confidence` would execute.
    """
    from llm_planner.assembly import build_library, build_loop
    from llm_planner_lab.training.understanding import ask, risk_coverage, shares

    overrides = {
        "backend": backend,
        "openai.base_url": base_url,
        "engine.model": model,
        "min_confidence": 0.0,
        "max_queued": 100_000,
        "scheduler.policy": "fcfs",
    }
    settings = load_config(config, {name: value for name, value in overrides.items() if value is not None})
    frames = _frames(files or [], limit)
    library = build_library(settings)
    robots = {name: library.get(name) for name in dict.fromkeys(frame.robot for frame in frames)}
    status = console.status(f"{len(frames)} instructions") if console.is_terminal and not as_json else nullcontext()
    with status, closing(build_loop(settings, do_clients_report=False)) as loop:
        answers = ask(loop, robots, frames, seed=seed)
    table, curve = shares(answers), risk_coverage(answers)
    if output is not None:
        lines = [json.dumps(_line(answer), ensure_ascii=False) for answer in answers]
        output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if as_json:
        print_json({"model": settings.engine.model, "seed": seed, "grades": table, "risk_coverage": curve})
        return
    grades = Table(
        "grade", "n", "right", "wrong", "not understood", title="every plan executed, whatever its confidence"
    )
    for name, row in table.items():
        grades.add_row(name, f"{row['n']}", *(f"{row[v]:.1%}" for v in ("right", "wrong", "not understood")))
    console.print(grades)
    curves = Table("min_confidence", "executed", "right", "wrong", "wrong of executed", title="risk and coverage")
    for row in curve:
        shown = (f"{row[name]:.1%}" for name in ("coverage", "right", "wrong", "risk"))
        curves.add_row(f"{row['threshold']:g}", *shown)
    console.print(curves)
    if settings.backend != "torch":
        console.print(f"Backend {settings.backend} does not say how sure the model is: min_confidence has no effect.")


def _frames(files: list[Path], limit: int) -> "list[Frame]":
    """Returns the instructions of files, or of the held-out authors."""
    from llm_planner_lab.tasks.frames import corpus, of_authors, read_frames
    from llm_planner_lab.training.trainer import HELD_OUT_AUTHORS

    try:
        frames = [frame for path in files for frame in read_frames(path)]
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"no file of instructions: {error}") from error
    if not files:
        frames = list(of_authors(corpus(), HELD_OUT_AUTHORS))
    if not frames:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"{files[0]} holds no instruction; see lab/corpus/README.md")
    return frames[:: max(1, len(frames) // limit)][:limit] if limit else frames


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
