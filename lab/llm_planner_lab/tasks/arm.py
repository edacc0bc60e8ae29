# SPDX-License-Identifier: Apache-2.0
"""What people ask of an arm, one thing at a time: pick, place, push, conditions. Each function returns one clause."""

from llm_planner_lab.tasks import quantity
from llm_planner_lab.tasks.draft import Clause, Draft
from llm_planner_lab.tasks.drone import saying
from llm_planner_lab.tasks.names import NamedThing
from llm_planner_lab.tasks.sentence import read_templates
from llm_planner_lab.tasks.words import AREAS, CONTAINERS, SMALL_THINGS

TEMPLATES = read_templates("arm")


def put(draft: Draft) -> Clause:
    """Returns a pick and place with both names given."""
    thing, place = some_object(draft), some_place(draft)
    x, y = thing.identifier, place.identifier
    return Clause(
        draft.say(TEMPLATES["put"], x=definite(draft, thing), y=definite(draft, place)), put_plan(x, y), (x, y)
    )


def pick(draft: Draft) -> Clause:
    """Returns a grasp."""
    thing = some_object(draft)
    return Clause(
        draft.say(TEMPLATES["pick"], x=definite(draft, thing)), f"pick({thing.identifier});", (thing.identifier,)
    )


def push(draft: Draft) -> Clause:
    """Returns a push."""
    thing, place = some_object(draft), some_place(draft)
    x, y = thing.identifier, place.identifier
    return Clause(
        draft.say(TEMPLATES["push"], x=definite(draft, thing), y=definite(draft, place)), f"push({x},{y});", (x, y)
    )


def move_to(draft: Draft) -> Clause:
    """Returns a motion above something."""
    place = some_object(draft) if draft.rng.random() < 0.7 else some_place(draft)
    return Clause(
        draft.say(TEMPLATES["above"], x=definite(draft, place)), f"move_to({place.identifier});", (place.identifier,)
    )


def fixed(draft: Draft) -> Clause:
    """Returns home, open or close."""
    plan, templates = draft.rng.choice(list(TEMPLATES["fixed"].items()))
    return Clause(draft.say(templates), plan)


def wait(draft: Draft) -> Clause:
    """Returns a pause."""
    number, said = quantity.seconds(draft.rng)
    return Clause(draft.say(TEMPLATES["wait"], n=said), f"wait({number});", ("wait", str(number)))


def say(draft: Draft) -> Clause:
    """Returns a sentence to say."""
    text = saying(draft)
    return Clause(draft.say(TEMPLATES["say"], t=text), f"say('{text}');", (text,))


def conditional(draft: Draft) -> Clause:
    """Returns something to do if an object is, or is not, on the table."""
    rng = draft.rng
    thing = some_object(draft) if rng.random() < 0.6 else draft.unlisted(SMALL_THINGS, exists=0.0)
    x = thing.identifier
    said = rng.choice(("a ", "the ", "", "an ")) + thing.spoken
    kind = rng.random()
    if kind < 0.4:
        place = some_place(draft)
        y = place.identifier
        do = draft.say(TEMPLATES["put_it"], y=definite(draft, place))
        text = draft.say(TEMPLATES["if_there"], x=said, do=do)
        return Clause(text, f"?iv({x}){{{put_plan(x, y)}}}", (x, y))
    if kind < 0.7:
        action = rng.choice((say, fixed, put))(draft)
        return Clause(
            draft.say(TEMPLATES["if_there"], x=said, do=action.text), f"?iv({x}){{{action.plan}}}", (x, *action.names)
        )
    action = rng.choice((say, fixed, put))(draft)
    return Clause(
        draft.say(TEMPLATES["if_missing"], x=thing.spoken, do=action.text),
        f"?iv({x})==False{{{action.plan}}}",
        (x, *action.names),
    )


def put_plan(x: str, y: str) -> str:
    """Returns the plan that brings x to y."""
    return f"pick({x});place({x},{y});"


def some_object(draft: Draft) -> NamedThing:
    """Returns a new object on the table, listed if there is a scene."""
    if draft.has_scene:
        return draft.visible()
    name = draft.unlisted(exists=0.0)
    draft.put(name.identifier, is_listed=False)
    return name


def some_place(draft: Draft) -> NamedThing:
    """Returns an area that every table has, or a container."""
    if draft.rng.random() < 0.35:
        area = draft.rng.choice(AREAS)
        if area not in draft.reserved:
            draft.reserved.add(area)
            return NamedThing(area, area, area.replace("_", " "))
    if draft.has_scene:
        return draft.visible(CONTAINERS if draft.rng.random() < 0.5 else SMALL_THINGS)
    name = draft.unlisted(CONTAINERS, exists=0.0)
    draft.put(name.identifier, is_listed=False)
    return name


def some_container(draft: Draft) -> NamedThing:
    """Returns a place that holds any number of objects."""
    if draft.rng.random() < 0.35:
        return some_place(draft)
    name = draft.visible(CONTAINERS) if draft.has_scene else draft.unlisted(CONTAINERS, exists=0.0)
    if not draft.has_scene:
        draft.put(name.identifier, is_listed=False)
    return name


def definite(draft: Draft, name: NamedThing) -> str:
    """Returns how people say a certain object."""
    return draft.rng.choice(("the ", "the ", "the ", "")) + name.spoken
