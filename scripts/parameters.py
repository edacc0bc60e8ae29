# SPDX-License-Identifier: Apache-2.0
"""Writes docs/parameters.md and config/planner.yaml from the settings in the code: `make parameters`.

The page has the parameters of all nodes; the file is an example, with the planner's defaults.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import Field, fields, is_dataclass
from pathlib import Path
from typing import Any

import yaml

from llm_planner.core.config import NodeSettings, PlannerConfig
from llm_planner.ros.body import BodySettings
from llm_planner.ros.dashboard_node import DashboardSettings
from llm_planner.ros.parameters import fields_of
from llm_planner.ros.recorder_node import RecorderSettings
from llm_planner.ros.robot_node import RobotSettings
from llm_planner.ros.world_node import WorldSettings

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "parameters.md"
EXAMPLE = ROOT / "config" / "planner.yaml"
EXAMPLE_BEGINS = """\
# The planner node's parameters with their defaults. Change what you need and pass the file:
#   ros2 launch llm_planner edge_server.launch.py config:=my_planner.yaml
#   llm-planner up --config my_planner.yaml       (or --ros-args --params-file my_planner.yaml)
# Each parameter's range: docs/parameters.md. They are read when the node is configured.
# Written by `make parameters` from the settings in the code.
/**:
  ros__parameters:
"""
INTRODUCTION = """\
# Parameters

Written by `make parameters` from the settings in the code. A value of a wrong type or out of its range, and in a
configuration file an unknown name, ends the program with 505 `INVALID_CONFIG` and the name.

A configuration file of the planner holds what differs from the defaults, for example `my_planner.yaml`:

```yaml
robot_models: [my_robots]
engine: {model: /path/to/chat-model}
scheduler: {max_num_seqs: 8}
```

`llm-planner up --config my_planner.yaml` and `config:=my_planner.yaml` of the launch files take it; so does `plan`,
for which the parameters of the planner node have no meaning. Paths in it are relative to the directory in which the
program is started, not to the file. `engine.model: /path/to/chat-model` is another way to write a parameter of a
section.
`--ros-args --params-file` needs the form of ROS, in which [config/planner.yaml](../config/planner.yaml) shows all
defaults: an empty list is `[""]` there, and the names `"on"` and `"off"` are in quotes, because ROS reads them as true
and false otherwise. Everything else takes this form too, and reads it as ROS does: sections whose
name is that of the planner's node count (`/**`, `/planner`), the last one wins for each parameter, and sections of
other nodes may be there. A file without a section for the planner is refused. On a command line of ROS a parameter of
a section is `-p engine.model:=/path/to/chat-model`.
"""
SECTIONS: Sequence[tuple[str, str, Sequence[type]]] = (
    (
        "Planner",
        (
            "They are read when the node is configured, and refused while it is. `llm-planner plan` takes them too: it "
            "serves one request, with policy `fcfs_stream` unless told otherwise."
        ),
        (PlannerConfig,),
    ),
    ("Planner node", "Additional parameters of the planner node; read once at start-up.", (NodeSettings,)),
    ("Robot nodes", "Of `robot_node`; read once, at the start.", (RobotSettings, BodySettings)),
    ("World", "Of `world_node`, which has the bodies of robots with `driver:=mujoco`.", (WorldSettings,)),
    ("Dashboard", "Of `dashboard_node`.", (DashboardSettings,)),
    ("Recorder", "Of `recorder_node`.", (RecorderSettings,)),
)


def page() -> str:
    """Returns the page."""
    return "\n".join([INTRODUCTION, *(_section(*section) for section in SECTIONS)])


def _section(title: str, text: str, settings: Sequence[type]) -> str:
    rows = (_row(name, field) for cls in settings for name, field in fields_of(cls))
    return "\n".join(
        [f"## {title}\n", f"{text}\n", "| parameter | default | range | meaning |", "|---|---|---|---|", *rows, ""]
    )


def _row(name: str, field: "Field[Any]") -> str:
    default = list(field.default) if isinstance(field.default, tuple) else field.default
    low, high = field.metadata["minimum"], field.metadata["maximum"]
    limits = ", ".join(field.metadata["one_of"]) if low is None else f"{low:,.12g} to {high:,.12g}"
    return f"| `{name}` | `{json.dumps(default)}` | {limits or '-'} | {field.metadata['description']} |"


def example() -> str:
    """Returns the example of a parameter file."""
    lines = [line for cls in (NodeSettings, PlannerConfig) for line in _lines(cls, "    ")]
    return EXAMPLE_BEGINS + "\n".join([*lines, ""])


def _lines(cls: Any, indent: str) -> Iterator[str]:
    for field in fields(cls):
        if is_dataclass(field.type):
            yield f"{indent}{field.name}:"
            yield from _lines(field.type, f"{indent}  ")
        else:
            yield f"{indent}{field.name}: {_in_yaml(field.default)}  # {_comment(field)}"


def _comment(field: "Field[Any]") -> str:
    """Returns what a setting means; with the names that it may have, unless the description has them all."""
    description, names = field.metadata["description"], field.metadata["one_of"]
    return description if all(name in description for name in names) else f"{description} One of {', '.join(names)}."


def _in_yaml(default: object) -> str:
    if isinstance(default, tuple):  # ROS has no empty list
        return json.dumps(list(default) or [""])
    return yaml.safe_dump(default).partition("\n")[0]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    EXAMPLE.write_text(example(), encoding="utf-8")
