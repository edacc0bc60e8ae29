# SPDX-License-Identifier: Apache-2.0
"""``llm-planner robots``: which robot models there are, what they can do, and how long it takes them."""

from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table
from typer.core import TyperGroup

from llm_planner.cli.options import JsonOption, ModelsOption
from llm_planner.cli.output import console, print_json
from llm_planner.cli.robots_describe import describe, gazebo
from llm_planner.cli.robots_profile import profile_robot
from llm_planner.cli.robots_try import try_plan
from llm_planner.core.skill import ArgumentType
from llm_planner.language.syntax import Call, Expression, Name, Number, Text
from llm_planner.planning.examples import left_out
from llm_planner.robots.duration import expected_duration
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.model import Argument, RobotModel, Skill


class _ShowsByDefault(TyperGroup):
    """``robots``, ``robots list`` and ``robots NAME`` show; what else is no command is a name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args[:1] == ["list"]:
            args = ["show", *args[1:]]
        elif not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["show", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_ShowsByDefault,
    help="List robot models, show what one can do, try a plan in physics, profile how long it takes, or describe it "
    "for other tools.\n\nExample: llm-planner robots\n\nExample: llm-planner robots tello",
)
app.command("try")(try_plan)
app.command("profile")(profile_robot)
app.command("describe")(describe)
app.command("gazebo")(gazebo)


@app.command("show")
def robots(
    name: Annotated[str | None, typer.Argument(help="Show the skills of this robot model.")] = None,
    models: ModelsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the robot models, or the skills of one with their limits and typical durations.

    Example: llm-planner robots show

    Example: llm-planner robots show tello
    """
    library = RobotLibrary(models or [])
    if name is None:
        known_models = [library.get(known) for known in library.names()]
        if as_json:
            print_json(
                [{"name": model.name, "kind": model.kind.value, "skills": len(model.skills)} for model in known_models]
            )
            return
        table = Table("robot model", "kind", "skills", "description")
        for model in known_models:
            table.add_row(model.name, model.kind.value, str(len(model.skills)), model.description)
        console.print(table, markup=False)
        console.print("`llm-planner robots NAME` shows the skills of one.")
        return
    model = library.get(name)
    if as_json:
        skills = [_skill_json(skill) for skill in model.skills.values()]
        print_json({"name": model.name, "kind": model.kind.value, "skills": skills, "left_out": left_out(model)})
    else:
        _print_skills(model)


def _skill_json(skill: Skill) -> dict[str, object]:
    return {
        "name": skill.name,
        "alias": skill.alias,
        "description": skill.description,
        "arguments": list(skill.arguments),
        "returns": skill.returns.value,
    }


def _print_skills(model: RobotModel) -> None:
    table = Table(title=escape(model.description))
    for heading in ("skill", "arguments", "does", "example"):
        table.add_column(heading, overflow="fold")
    table.add_column("median\n(p90), s", justify="right", no_wrap=True)
    for skill in model.skills.values():
        call = Call(skill.name, tuple(_example(argument) for argument in skill.arguments))
        expected = expected_duration(model, call)
        arguments = ", ".join(_describe(argument) for argument in skill.arguments)
        times = f"{expected.p50_s:.1f} ({expected.p90_s:.1f})"
        shown = f"{skill.name}({', '.join(_literal(argument) for argument in call.arguments)})"
        names = f"{skill.name}\n{skill.alias}" if skill.alias else skill.name
        table.add_row(names, arguments, skill.description, shown, times)
    console.print(table, markup=False)
    for line in left_out(model):
        console.print(line, style="yellow", markup=False, soft_wrap=True)


def _describe(argument: Argument) -> str:
    if argument.type is ArgumentType.NUMBER:
        return f"{argument.name}: {argument.minimum:g} to {argument.maximum:g} {argument.unit}".rstrip()
    return f"{argument.name}: {argument.type.value}"


def _example(argument: Argument) -> Expression:
    """Returns a typical value: a number in the middle of its range, rounded."""
    if argument.type is ArgumentType.NUMBER:
        return Number(float(round(((argument.minimum or 0.0) + (argument.maximum or 0.0)) / 2)))
    return Name("cup") if argument.type is ArgumentType.IDENTIFIER else Text("hello")


def _literal(value: Expression) -> str:
    return f"{value.value:g}" if isinstance(value, Number) else "cup" if isinstance(value, Name) else "'hello'"
