# SPDX-License-Identifier: Apache-2.0
"""Emergencies (tasks 6, 7 and 8 of TimelyLLM, Table 2): short plans whose first skill already takes the robot away."""

from llm_planner_lab.tasks import quantity
from llm_planner_lab.tasks.draft import Clause, Draft
from llm_planner_lab.tasks.names import word
from llm_planner_lab.tasks.sentence import read_templates
from llm_planner_lab.tasks.words import ANIMALS, OBSTACLES, PEOPLE

TEMPLATES = read_templates("urgent")

_AWAY = {"left": "mr", "right": "ml", "front": "mb", "behind": "mf", "above": "md", "below": "mu"}

_DEFAULT_CM = {"mr": 150, "ml": 150, "mb": 150, "mf": 150, "mu": 100, "md": 50}


def injury(draft: Draft) -> Clause:
    """Returns a person who comes close (task 6)."""
    return _flee(draft, TEMPLATES["person"], PEOPLE, climb=False)


def collision(draft: Draft) -> Clause:
    """Returns an obstacle that is about to be hit (task 7)."""
    return _flee(draft, TEMPLATES["collision"], OBSTACLES, climb=False)


def pursuit(draft: Draft) -> Clause:
    """Returns an animal that gives chase (task 8): up, out of its reach, and away."""
    return _flee(draft, TEMPLATES["animal"], ANIMALS, climb=True)


def arm_stop(draft: Draft) -> Clause:
    """Returns a danger for a person near an arm: stop at once."""
    who = word(draft.rng, PEOPLE, held_out=draft.held_out, invented=0.05)
    draft.has_scene = draft.has_scene and draft.rng.random() < 0.3
    return Clause(draft.say_any(TEMPLATES["hand"], x=_article(draft, who)), "stop();", (), ("stopped",))


def _flee(draft: Draft, templates: tuple[str, ...], pool: tuple[str, ...], *, climb: bool) -> Clause:
    rng = draft.rng
    who = word(rng, pool, held_out=draft.held_out, invented=0.15)
    directed = rng.random() < 0.88
    side = rng.choice(("left", "right", "front", "behind", "left", "right", "front", "behind", "above", "below"))
    if climb and side in ("above", "below"):
        side = "behind"
    said = draft.say(TEMPLATES["sides"][side]) if directed else ""
    text = draft.say(templates, x=_article(draft, who), s=said).replace(" ,", ",")
    skill = _AWAY[side] if directed else "mb"
    if climb:
        draft.first = False
        return Clause(text, f"mu(100);{skill}(200);", (), ("fled", side if directed else "front"))
    number = _DEFAULT_CM[skill]
    names: tuple[str, ...] = ()
    if rng.random() < 0.2 and skill not in ("mu", "md"):
        number, distance = quantity.distance_cm(rng, 50, 300)
        text += draft.say(TEMPLATES["keep"], n=distance)
        names = (skill, str(number))
    draft.first = False
    return Clause(text, f"{skill}({number});", names, ("fled", side if directed else "front", str(number)))


def _article(draft: Draft, who: str) -> str:
    return draft.rng.choice(("a ", "a ", "the ", "an " if who[0] in "aeiou" else "a ")) + who
