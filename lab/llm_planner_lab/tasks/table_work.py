# SPDX-License-Identifier: Apache-2.0
"""Longer work of an arm: stacks, cleaning, sorting (tasks 9 to 11 of TimelyLLM, Table 2)."""

import itertools

from llm_planner.demo.task import kind_of
from llm_planner_lab.tasks.arm import TEMPLATES, definite, put_plan, some_container, some_object
from llm_planner_lab.tasks.draft import Clause, Draft
from llm_planner_lab.tasks.words import (
    COLOURS,
    CONTAINERS,
    DESK_THINGS,
    FRUITS,
    RUBBISH,
    VEGETABLES,
)

DEFAULT_STACK = ("red_box", "green_box", "blue_box")
DEFAULT_DESK = (("paper", "bin"), ("wrapper", "bin"), ("cup", "tray"), ("pen", "tray"), ("book", "tray"))
DEFAULT_FOOD = (
    ("apple", "left_area"),
    ("banana", "left_area"),
    ("orange", "left_area"),
    ("carrot", "right_area"),
    ("tomato", "right_area"),
    ("potato", "right_area"),
)


def stack(draft: Draft) -> Clause:
    """Returns a tower (task 9 of TimelyLLM, Table 2): the first named is the lowest unless it says "on"."""
    kind = draft.rng.random()
    if kind < 0.35:
        return _stack_colours(draft)
    if kind < 0.6 and draft.has_scene:
        return _stack_all(draft)
    if kind < 0.42:
        return _stack_guess(draft)
    return _stack_named(draft)


def clean(draft: Draft) -> Clause:
    """Returns desk cleaning (task 10 of TimelyLLM, Table 2): rubbish to the bin, the rest to the container."""
    rng = draft.rng
    if not draft.has_scene:
        return Clause(draft.say(TEMPLATES["clean"]), _guess_plan(DEFAULT_DESK), (), ("sorted", *_pairs(DEFAULT_DESK)))
    rubbish = _pool_names(draft, RUBBISH, rng.randint(0, 3))
    kind = rng.random()
    if kind < 0.2:
        return _throw_away(draft, rubbish)
    things = rubbish + _pool_names(draft, DESK_THINGS, rng.randint(1, 4))
    things += [some_object(draft).identifier for _ in range(rng.choice((0, 0, 1, 2)))]
    rng.shuffle(things)
    _put_missing(draft, things)
    draft.is_crowded = False  # everything on a desk is either rubbish or to be put away
    if kind < 0.4:
        place = some_container(draft)
        plan = [(name, place.identifier) for name in things]
        text = draft.say(TEMPLATES["all_into"], y=definite(draft, place))
    else:
        if rng.random() < 0.2:
            _put_places(draft, (rng.choice(("desk", "table")),))
        container = rng.choice(CONTAINERS)
        places = (*(("bin",) if rng.random() < 0.8 else ()), *((container,) if rng.random() < 0.8 else ()))
        rest = container if container in places else "tray"
        _put_places(draft, places)
        plan = [(name, "bin" if kind_of(name) in RUBBISH else rest) for name in things]
        text = draft.say(TEMPLATES["clean"])
    return Clause(text, "".join(put_plan(*pair) for pair in plan), tuple(things), ("sorted", *_pairs(tuple(plan))))


def _throw_away(draft: Draft, rubbish: list[str]) -> Clause:
    """Returns cleaning that leaves everything but rubbish where it is."""
    text = draft.say(TEMPLATES["rubbish"])
    _put_missing(draft, rubbish)
    draft.reserved.update(RUBBISH)
    if draft.rng.random() < 0.8:
        _put_places(draft, ("bin",))
    if not rubbish:
        draft.visible()
        return Clause(text, "say('nothing to do');", (), ("same_outcome",))
    plan = tuple((name, "bin") for name in rubbish)
    return Clause(text, "".join(put_plan(*pair) for pair in plan), tuple(rubbish), ("sorted", *_pairs(plan)))


def sort_food(draft: Draft) -> Clause:
    """Returns fruit and vegetable classification (task 11 of TimelyLLM, Table 2)."""
    rng = draft.rng
    if not draft.has_scene:
        return Clause(draft.say(TEMPLATES["sort"]), _guess_plan(DEFAULT_FOOD), (), ("sorted", *_pairs(DEFAULT_FOOD)))
    things = _pool_names(draft, FRUITS, rng.randint(1, 4)) + _pool_names(draft, VEGETABLES, rng.randint(1, 4))
    rng.shuffle(things)
    _put_missing(draft, things)
    draft.reserved.update((*FRUITS, *VEGETABLES))
    kind = rng.random()
    fruit, vegetables = "left_area", "right_area"
    names = tuple(things)
    if kind < 0.5:
        container = rng.choice((*CONTAINERS, "area", "area", "area"))
        if rng.random() < 0.5:
            fruit, vegetables = f"fruit_{container}", f"vegetable_{container}"
            _put_places(draft, rng.sample((fruit, vegetables), 2))
        elif rng.random() < 0.5:
            _put_places(draft, rng.sample((fruit, vegetables), 2))
        text = draft.say(TEMPLATES["sort"])
    elif kind < 0.8:
        one, two = some_container(draft), some_container(draft)
        fruit, vegetables = one.identifier, two.identifier
        names = (*names, fruit, vegetables)
        text = draft.say(TEMPLATES["sort_into"], x=definite(draft, one), y=definite(draft, two))
    else:
        wanted = rng.choice(("fruit", "vegetables", "fruits"))
        place = some_container(draft)
        pool = VEGETABLES if wanted == "vegetables" else FRUITS
        plan = [(name, place.identifier) for name in things if kind_of(name) in pool]
        text = draft.say(TEMPLATES["only"], k=wanted, y=definite(draft, place))
        return Clause(text, "".join(put_plan(*pair) for pair in plan), names, ("sorted", *_pairs(tuple(plan))))
    plan = [(name, fruit if kind_of(name) in FRUITS else vegetables) for name in things]
    return Clause(text, "".join(put_plan(*pair) for pair in plan), names, ("sorted", *_pairs(tuple(plan))))


def _guess_plan(pairs: tuple[tuple[str, str], ...]) -> str:
    return "".join(f"?iv({x}){{{put_plan(x, y)}}}" for x, y in pairs)


def _pairs(pairs: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    return tuple(f"{x}>{y}" for x, y in pairs)


def _pool_names(draft: Draft, pool: tuple[str, ...], count: int) -> list[str]:
    names = [name for name in draft.rng.sample(pool, count) if draft.reserve(name)]
    return [f"{name}_{draft.rng.randint(1, 9)}" if draft.rng.random() < 0.25 else name for name in names]


def _put_places(draft: Draft, places: list[str] | tuple[str, ...]) -> None:
    for place in places:
        draft.reserved.add(place)
        draft.put(place)


def _put_missing(draft: Draft, names: list[str]) -> None:
    known = {placed.name for placed in draft.objects}
    for name in names:
        if name not in known:
            draft.put(name)


def _listing(draft: Draft, items: list[str]) -> str:
    if draft.rng.random() < 0.3:
        return ", ".join(items)
    return ", ".join(items[:-1]) + draft.rng.choice((" and ", ", and ", " and ")) + items[-1]


def _tower(names: list[str]) -> str:
    """Returns the plan that stacks the names, the first at the bottom."""
    return "".join(put_plan(upper, lower) for lower, upper in itertools.pairwise(names))


def _stack_named(draft: Draft) -> Clause:
    things = [some_object(draft) for _ in range(draft.rng.choice((2, 3, 3, 4, 4, 5)))]
    names = [thing.identifier for thing in things]
    said = [definite(draft, thing) for thing in things]
    if draft.rng.random() < 0.4:
        text = draft.say(TEMPLATES["stack_on"], l=draft.rng.choice((" on ", " on top of ", " onto ")).join(said[:3]))
        names = names[:3][::-1]
    else:
        text = draft.say(TEMPLATES["stack_listed"], l=_listing(draft, said))
    return Clause(text, _tower(names), tuple(names), ("stacked", *names))


def _stack_colours(draft: Draft) -> Clause:
    rng = draft.rng
    kind = rng.choice(("box", "block", "cube", "brick", "cup", "book", "plate", "bowl"))
    draft.reserved.add(kind)
    colours = rng.sample(COLOURS, rng.choice((2, 3, 3, 3, 4, 5)))
    names = [f"{colour}_{kind}" for colour in colours]
    for name in rng.sample(names, len(names)):
        draft.put(name, is_listed=draft.has_scene)
    plural = kind + "e" * (kind == "box")
    return Clause(
        draft.say(TEMPLATES["stack_colours"], k=plural, l=_listing(draft, colours)),
        _tower(names),
        tuple(names),
        ("stacked", *names),
    )


def _stack_guess(draft: Draft) -> Clause:
    """Returns a stack of unnamed things: the boxes that such a table usually has."""
    for name in draft.rng.sample(DEFAULT_STACK, len(DEFAULT_STACK)):
        draft.put(name, is_listed=False)
    text = draft.say((*TEMPLATES["stack_objects"], "stack the boxes", "stack all boxes"))
    return Clause(text, _tower(list(DEFAULT_STACK)), (), ("stacked", *DEFAULT_STACK))


def _stack_all(draft: Draft) -> Clause:
    rng = draft.rng
    if rng.random() < 0.4:
        draft.is_crowded = False
        names = [some_object(draft).identifier for _ in range(rng.choice((2, 3, 3, 4)))]
        return Clause(draft.say(TEMPLATES["stack_objects"]), "<tower>", tuple(names), ("stacked_all", *names))
    kind = rng.choice(("box", "block", "cube", "brick", "cup", "book", "plate", "bowl", "crate", "tin"))
    draft.reserved.add(kind)
    count = rng.choice((2, 3, 3, 4, 5))
    if rng.random() < 0.5:
        names = [f"{colour}_{kind}" for colour in rng.sample(COLOURS, count)]
    else:
        names = [f"{kind}_{number}" for number in rng.sample(range(1, 10), count)]
    for name in names:
        draft.put(name)
    plural = kind + "e" * (kind == "box")
    return Clause(draft.say(TEMPLATES["stack_all"], k=plural), "<tower>", tuple(names), ("stacked_all", *names))
