# SPDX-License-Identifier: Apache-2.0
"""The verbs that a model is taught: with which orders of its training had a thing to do something with.

    python -m llm_planner_lab.training.verbs MODEL --last-author 222    # writes them into the model's planner.json

A run writes its own; a mean of several has those of the first one until this is called.
"""

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from llm_planner.core.errors import PlannerError
from llm_planner.language.parser import parse
from llm_planner.planning.instruction.names import acted_on
from llm_planner.planning.instruction.verbs import verbs_of_things
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.tasks.frames import HELD_OUT_AUTHORS, ROBOTS, Frame, corpus, of_authors
from llm_planner_lab.tasks.spoken import literal


def taught_verbs(frames: Iterable[Frame]) -> dict[str, str]:
    """Returns for each robot the verbs of its orders, with a blank between two."""
    models = {name: RobotLibrary().get(name) for name in ROBOTS}
    verbs: dict[str, set[str]] = {name: set() for name in ROBOTS}
    rng = random.Random(0)
    for frame in frames:
        if frame.is_danger or frame.plan.startswith(("fail(", "unclear(")):
            continue
        task, gate = literal(rng, frame, has_scene=False), SafetyGate(models[frame.robot])
        try:
            calls = [call for statement in parse(task.plan) for call in gate.admit(statement)]
        except PlannerError:  # too far from where it starts
            continue
        things = {name for call in calls for name in acted_on(models[frame.robot], call)}
        names = things.union(frame.scene)
        verbs[frame.robot].update(
            verb for verb, meant in verbs_of_things(task.instruction, names) if not things.isdisjoint(meant)
        )
    return {name: " ".join(sorted(found)) for name, found in verbs.items()}


def trained_frames(last_author: int) -> list[Frame]:
    """Returns the sentences of all authors up to a number, but for those who are held out."""
    frames = of_authors(corpus(), HELD_OUT_AUTHORS, is_in=False)
    return [frame for frame in frames if int(frame.author.partition("-")[0]) <= last_author]


def main(
    model: Annotated[Path, typer.Argument(help="Model directory.")],
    last_author: Annotated[int, typer.Option(min=1, help="Number of the last author on whom it was trained.")],
) -> None:
    """Writes the verbs that a model was taught into its planner.json."""
    path = model / "planner.json"
    own = json.loads(path.read_text(encoding="utf-8"))
    own["verbs"] = taught_verbs(trained_frames(last_author))
    path.write_text(json.dumps(own, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
