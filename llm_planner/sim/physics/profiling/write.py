# SPDX-License-Identifier: Apache-2.0
"""Writes fitted duration models into a robot's YAML file; everything else stays as it was, comments included."""

import dataclasses
from collections.abc import Mapping
from enum import Enum
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from llm_planner.robots.library import load_robot_model
from llm_planner.sim.physics.profiling.fit import Fit

MAX_WIDTH = 4096  # lines are not folded


def with_durations(text: str, fits: Mapping[str, Fit]) -> str:
    """Returns a robot model's file with other duration models.

    Skills that share one by an anchor go on sharing it if they were fitted together, and what merges from it follows.
    Anchors that it used for single numbers stay for others.

    Args:
        text: Of the file.
        fits: By name of skill.
    """
    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, MAX_WIDTH
    yaml.indent(mapping=2, sequence=4, offset=2)
    document = yaml.load(text)
    changed: dict[int, Fit] = {}
    for name, fit in fits.items():
        skill = document["skills"][name]
        if changed.setdefault(id(skill["duration"]), fit) is not fit:  # shared, and found to be two
            skill["duration"] = _plain(fit)
        else:
            _replace(skill["duration"], fit)
            _forget_comments(skill["duration"], document.get("definitions") or CommentedMap(), skill)
    stream = StringIO()
    yaml.dump(document, stream)
    return stream.getvalue()


def write_durations(source: Path, target: Path, fits: Mapping[str, Fit]) -> None:
    """Writes a robot model's file with other duration models, whole or not at all, once the planner can read it.

    Raises:
        OSError: If it cannot be written.
        PlannerError: INVALID_ROBOT_MODEL if it cannot be read, or ``target`` is not named as the robot.
    """
    text = with_durations(source.read_text(encoding="utf-8"), fits)
    file = target.resolve()  # a link stays one
    file.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=file.parent) as directory:
        draft = Path(directory) / target.name
        draft.write_text(text, encoding="utf-8")
        load_robot_model(draft)
        draft.replace(file)


def _replace(node: CommentedMap, fit: Fit) -> None:
    """Puts a fit in the place of what a node said; how far a robot goes where no argument tells stays if not fitted."""
    fields = _plain(fit)
    for key in [key for key in node if key not in fields and not (key == "travel" and fields["kind"] == "trapezoid")]:
        del node[key]
    for key, value in fields.items():
        node.ca.items.pop(key, None)
        node[key] = value


def _forget_comments(node: CommentedMap, *parents: CommentedMap) -> None:
    """Drops what was said of numbers that are others now; a reference to a node keeps its comment too."""
    for tokens in node.ca.comment or ():
        if isinstance(tokens, list):
            tokens.clear()
    for parent in parents:
        for key in [key for key, value in parent.items() if value is node]:
            parent.ca.items.pop(key, None)


def _plain(value: Any) -> Any:
    """Returns a record as YAML writes it, on one line, without what it leaves out."""
    if dataclasses.is_dataclass(value):
        pairs = ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
        node = CommentedMap((name, _plain(part)) for name, part in pairs if part is not None)
        node.fa.set_flow_style()
        return node
    if isinstance(value, tuple):
        sequence = CommentedSeq(_plain(part) for part in value)
        sequence.fa.set_flow_style()
        return sequence
    return value.value if isinstance(value, Enum) else value
