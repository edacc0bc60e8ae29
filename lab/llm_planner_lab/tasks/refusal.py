# SPDX-License-Identifier: Apache-2.0
"""Requests that a robot cannot do: it says so and does nothing else."""

from llm_planner_lab.tasks import quantity
from llm_planner_lab.tasks.draft import Clause, Draft
from llm_planner_lab.tasks.drone import TEMPLATES
from llm_planner_lab.tasks.names import word
from llm_planner_lab.tasks.words import (
    IMPOSSIBLE_FOR_ALL,
    IMPOSSIBLE_FOR_ARMS,
    IMPOSSIBLE_FOR_DRONES,
)

CANNOT = "I cannot do that"
_TOO_FAR = tuple(TEMPLATES["moves"][skill] for skill in ("mf", "mb", "ml", "mr", "mu"))
"""Said as the motions that are possible: the number alone tells them apart."""


def drone(draft: Draft) -> Clause:
    """Returns something that a drone cannot do, or a motion beyond its limits."""
    if draft.rng.random() < 0.4:
        metres = draft.rng.choice((draft.rng.randint(6, 20), draft.rng.randint(6, 99), draft.rng.randint(10, 900)))
        said = quantity.said_distance(draft.rng, 100 * metres)
        templates = draft.rng.choice(_TOO_FAR)
        return Clause(draft.say(templates, n=said), f"fail('{CANNOT}');", ("far", str(metres)), ("refused",))
    return _impossible(draft, IMPOSSIBLE_FOR_DRONES, f"fail('{CANNOT}');")


def arm(draft: Draft) -> Clause:
    """Returns something that an arm cannot do."""
    return _impossible(draft, IMPOSSIBLE_FOR_ARMS, f"fail('{CANNOT}');")


def _impossible(draft: Draft, templates: tuple[str, ...], plan: str) -> Clause:
    rng = draft.rng
    if rng.random() < 0.5:
        return Clause(draft.say(IMPOSSIBLE_FOR_ALL), plan, (), ("refused",))
    one, two = (word(rng, held_out=draft.held_out, invented=0.3).replace("_", " ") for _ in range(2))
    text = draft.say(templates, x=one, y=two, n=quantity.distance_cm(rng)[1].split()[0])
    return Clause(text, plan, (one, two), ("refused",))
