# SPDX-License-Identifier: Apache-2.0
"""In the place of launch, which is not on PyPI: just enough of it to run our launch files and see what they start."""

import runpy
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LAUNCH = Path(__file__).resolve().parents[2] / "launch"


@dataclass
class Context:
    argv: list[str]
    launch_configurations: dict[str, str] = field(default_factory=dict)


class Entity:
    """Keeps what it was made of, and does nothing."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.arguments, self.options = arguments, options

    def execute(self, context: Context) -> list[Any]:
        return []


class DeclareLaunchArgument(Entity):
    def execute(self, context: Context) -> list[Any]:
        context.launch_configurations.setdefault(self.arguments[0], self.options["default_value"])
        return []


class OpaqueFunction(Entity):
    def execute(self, context: Context) -> list[Any]:
        return self.options["function"](context) or []


class LaunchDescription(Entity):
    def execute(self, context: Context) -> list[Any]:
        return self.arguments[0]


class IncludeLaunchDescription(Entity):
    def execute(self, context: Context) -> list[Any]:
        return [description_of(Path(self.arguments[0].arguments[0]))]


class LaunchConfiguration(Entity):
    def perform(self, context: Context) -> str:
        return context.launch_configurations[self.arguments[0]]


class Node(Entity):
    pass


class ExecuteProcess(Entity):
    pass


NAMES = {
    "launch": {"Action": Entity, "LaunchContext": Context, "LaunchDescription": LaunchDescription},
    "launch.actions": {
        **dict.fromkeys(["LogInfo", "SetEnvironmentVariable", "UnsetEnvironmentVariable", "Shutdown"], Entity),
        **{kind.__name__: kind for kind in (DeclareLaunchArgument, ExecuteProcess, IncludeLaunchDescription)},
        "OpaqueFunction": OpaqueFunction,
    },
    "launch.substitutions": {"LaunchConfiguration": LaunchConfiguration},
    "launch.launch_description_sources": {"PythonLaunchDescriptionSource": Entity},
    "launch_ros": {},
    "launch_ros.actions": {"Node": Node},
}


def install(monkeypatch) -> None:
    """Has launch files import what is here."""
    for name, contents in NAMES.items():
        module = types.ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)


def description_of(path: Path) -> LaunchDescription:
    return runpy.run_path(str(path))["generate_launch_description"]()


def launch(file: str, /, **given: str) -> list[Entity]:
    """Returns what ``ros2 launch`` starts of a file of ours, in order; also ``started_before`` of what it raises."""
    context = Context([f"{key}:={value}" for key, value in given.items()], dict(given))
    started: list[Entity] = []

    def visit(entity: Any) -> None:
        if isinstance(entity, Node | ExecuteProcess):
            started.append(entity)
        for inner in entity.execute(context):
            visit(inner)

    try:
        visit(description_of(LAUNCH / f"{file}.launch.py"))
    except Exception as error:
        error.started_before = started
        raise
    return started


def command_of(node: Node) -> list[str]:
    """Returns the command that launch_ros would run for a node of ours."""
    from llm_planner.ros.composition import parameter_words

    options = node.options
    words = [sys.executable, "-m", f"llm_planner.ros.{options['executable']}", "--ros-args"]
    for remapping in (("__node", options.get("name")), ("__ns", "/" + options["namespace"].strip("/"))):
        if remapping[1]:
            words += ["-r", f"{remapping[0]}:={remapping[1]}"]
    for given in options["parameters"]:
        if isinstance(given, str):
            words += ["--params-file", given]
        else:
            words += parameter_words(given)
    return words
