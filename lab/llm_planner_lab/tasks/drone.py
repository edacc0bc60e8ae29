# SPDX-License-Identifier: Apache-2.0
"""What people ask of a drone: motion, search, pictures, conditions. Each function returns one clause."""

from llm_planner_lab.tasks import quantity
from llm_planner_lab.tasks.draft import Clause, Draft
from llm_planner_lab.tasks.names import NamedThing, word
from llm_planner_lab.tasks.sentence import read_templates
from llm_planner_lab.tasks.words import FURNITURE, PURPOSES, SAYINGS, SMALL_THINGS, THINGS

TEMPLATES = read_templates("drone")


def move(draft: Draft) -> Clause:
    """Returns a straight motion with a number."""
    skill = draft.rng.choice(sorted(TEMPLATES["moves"]))
    low, high = {"md": (20, 60), "mu": (20, 150)}.get(skill, (20, 500))
    number, said = quantity.distance_cm(
        draft.rng, low, high if draft.first or draft.rng.random() < 0.5 else min(high, 150)
    )
    draft.first = False
    return Clause(draft.say(TEMPLATES["moves"][skill], n=said), f"{skill}({number});", _unusual(skill, number, 50))


def _unusual(skill: str, number: int, step: int) -> tuple[str, ...]:
    """Returns what the held-out split goes by: the numbers that every speaker uses are never held out."""
    return (skill, str(number)) if number % step else ()


def take_off(draft: Draft) -> Clause:
    """Returns a take-off; in the air it does nothing."""
    return Clause(draft.say(TEMPLATES["take_off"]), "tk();")


def turn(draft: Draft) -> Clause:
    """Returns a turn with a number."""
    skill = draft.rng.choice(("tc", "tu"))
    number, said = quantity.angle_deg(draft.rng)
    draft.first = False
    return Clause(draft.say(TEMPLATES["turns"][skill], n=said), f"{skill}({number});", _unusual(skill, number, 45))


def fixed_motion(draft: Draft) -> Clause:
    """Returns a motion without a number: half a turn, a bit forward."""
    plan, templates = draft.rng.choice(list(TEMPLATES["fixed"].items()))
    draft.first = False
    return Clause(draft.say(templates), plan)


def picture(draft: Draft) -> Clause:
    """Returns a request for a picture."""
    return Clause(draft.say(TEMPLATES["picture"]), "tp();")


def land(draft: Draft) -> Clause:
    """Returns a landing."""
    draft.first = False
    return Clause(draft.say(TEMPLATES["land"]), "ld();")


def wait(draft: Draft) -> Clause:
    """Returns a pause."""
    number, said = quantity.seconds(draft.rng)
    return Clause(draft.say(TEMPLATES["wait"], n=said), f"d({number});")


def stop(draft: Draft) -> Clause:
    """Returns a stop."""
    return Clause(draft.say_any(TEMPLATES["stop"]), "h();")


def say(draft: Draft) -> Clause:
    """Returns a sentence to say."""
    text = saying(draft)
    return Clause(draft.say(TEMPLATES["say"], t=text), f"l('{text}');", (text,))


def saying(draft: Draft) -> str:
    """Returns a few words to say."""
    pools = (SAYINGS, SAYINGS, SAYINGS, THINGS)
    return " ".join(
        word(draft.rng, draft.rng.choice(pools), held_out=draft.held_out, invented=0.1)
        for _ in range(draft.rng.choice((1, 1, 2, 2, 3, 4)))
    )


def goto(draft: Draft) -> Clause:
    """Returns a flight to an object: directly if the scene lists it, else after a search."""
    return _reach(draft, TEMPLATES["goto"])


def look_for(draft: Draft) -> Clause:
    """Returns a search for an object (task 1 of TimelyLLM, Table 2)."""
    return _reach(draft, TEMPLATES["find"])


def look_at(draft: Draft) -> Clause:
    """Returns a turn towards an object."""
    name, listed = draft.some()
    x = name.identifier
    plan = f"o({x});" if listed and draft.first else f"{_search(x)}o({x});"
    draft.first = False
    return Clause(draft.say(TEMPLATES["look_at"], x=_the(draft, name)), plan, (x,), ("facing", x))


def is_there(draft: Draft) -> Clause:
    """Returns a question whether an object is there."""
    name, _ = draft.some(exists=0.5)
    x = name.identifier
    draft.first = False
    return Clause(draft.say(TEMPLATES["is_there"], x=_a(draft, name)), f"->s({x});", (x,), ("reported", x))


def check_or(draft: Draft) -> Clause:
    """Returns a check for one thing or another (task 2 of TimelyLLM, Table 2)."""
    (one, _), (two, _) = draft.some(exists=0.5), draft.some(exists=0.5)
    x, y = one.identifier, two.identifier
    plan = f"?s({x}){{->{x};}}?s({y}){{->{y};}}->False;"
    draft.first = False
    text = draft.say(TEMPLATES["check_or"], x=_spoken(draft, one), y=_spoken(draft, two))
    return Clause(text, plan, (x, y), ("reported_one", x, y))


def check_on(draft: Draft) -> Clause:
    """Returns a look at a thing on a piece of furniture (task 3 of TimelyLLM, Table 2)."""
    place, _ = draft.some(FURNITURE)
    if draft.has_scene and draft.rng.random() < 0.6:
        name, listed = draft.visible(SMALL_THINGS), True
    else:
        name, listed = draft.unlisted(SMALL_THINGS, exists=0.0), False
        _put_near(draft, name, place)
    x, y = name.identifier, place.identifier
    plan = f"g({x});tp();" if listed and draft.first else f"?s({y}){{g({y});}}{_search(x)}g({x});tp();"
    draft.first = False
    text = draft.say(TEMPLATES["check_on"], x=_the(draft, name), y=_the(draft, place))
    return Clause(text, plan, (x, y), ("reached_picture", x))


def find_under(draft: Draft) -> Clause:
    """Returns a search beneath a piece of furniture (task 4 of TimelyLLM, Table 2)."""
    place, _ = draft.some(FURNITURE)
    if draft.has_scene and draft.rng.random() < 0.4:
        name, listed = draft.visible(SMALL_THINGS), True
    else:
        name, listed = draft.unlisted(SMALL_THINGS, exists=0.0), False
        _put_near(draft, name, place)
    x, y = name.identifier, place.identifier
    after_search = f"md(50);?s({y}){{g({y});}}{_search(x)}g({x});"
    plan = f"g({x});" if listed and draft.first else after_search
    draft.first = False
    text = draft.say(TEMPLATES["find_under"], x=_a(draft, name), y=_the(draft, place))
    return Clause(text, plan, (x, y), ("reached", x))


def find_tool(draft: Draft) -> Clause:
    """Returns a search for something that serves a purpose (task 5 of TimelyLLM, Table 2)."""
    rng = draft.rng
    phrases, tools = rng.choice(PURPOSES)
    phrase = rng.choice(phrases)
    others = [tool for _, group in PURPOSES for tool in group if tool not in tools]
    draft.reserved.update(tools)
    draft.reserved.update(word.removesuffix("s") for word in phrase.split())  # a description finds these by name
    tool = rng.choice(tools)
    identifier = f"{tool}_{rng.randint(1, 9)}" if rng.random() < 0.4 else tool
    in_scene = draft.has_scene and rng.random() < 0.75
    if draft.has_scene:
        for other in rng.sample(others, rng.randint(0, 3)):
            if other not in draft.reserved and not set(tools) & set(_same_use(other)):
                draft.reserved.add(other)
                draft.put(other)
    if in_scene or rng.random() < 0.8:
        draft.put(identifier, is_listed=in_scene)
    direct = in_scene and draft.first
    is_noun = phrase.split()[0].endswith("ing") or phrase.endswith("protection")
    plan = f"g({identifier});" if direct else tool_search(f"tool {'for' if is_noun else 'to'} {phrase}")
    draft.first = False
    text = draft.say(TEMPLATES["tool"] if is_noun else TEMPLATES["tool_to"], p=phrase)
    return Clause(text, plan, (phrase, identifier) if direct else (), ("reached_any", *tools))


def tool_search(description: str) -> str:
    """Returns the plan that searches for a description."""
    return f"_1=sa('{description}');?_1==False{{fail('nothing found');}}g(_1);"


def _same_use(tool: str) -> list[str]:
    return [other for _, group in PURPOSES if tool in group for other in group]


def _put_near(draft: Draft, name: NamedThing, place: NamedThing) -> None:
    """Puts an unlisted object where the furniture is, if that is anywhere."""
    for placed in draft.objects:
        if placed.name == place.identifier and draft.rng.random() < 0.8:
            draft.put(name.identifier, is_listed=False, near=placed)
            return


def _reach(draft: Draft, templates: tuple[str, ...]) -> Clause:
    name, listed = draft.some()
    x = name.identifier
    plan = f"g({x});" if listed and draft.first else f"{_search(x)}g({x});"
    draft.first = False
    return Clause(draft.say(templates, x=_the(draft, name)), plan, (x,), ("reached", x))


def _search(x: str) -> str:
    return f"?s({x})==False{{fail('{x} not found');}}"


def _the(draft: Draft, name: NamedThing) -> str:
    return draft.rng.choice(("the ", "the ", "the ", "the ", "", "a ", "my ")) + name.spoken


def _a(draft: Draft, name: NamedThing) -> str:
    return draft.rng.choice(("a ", "a ", "the ", "the ", "an ", "")) + name.spoken


def _spoken(draft: Draft, name: NamedThing) -> str:
    return draft.rng.choice(("", "", "", "a ", "the ", "my ")) + name.spoken


def conditional(draft: Draft) -> Clause:
    """Returns something to do under a condition on what is seen."""
    rng = draft.rng
    (one, _), (two, _) = draft.some(), draft.some()
    x, y = one.identifier, two.identifier
    kind = rng.choice(("seen", "seen", "seen", "not", "not", "either", "both", "near", "far"))
    names: tuple[str, ...] = (x,)
    said = _a(draft, one)
    draft.first = False
    if kind == "seen" and rng.random() < 0.4:
        do, plan = rng.choice(
            (
                ("go to it", f"g({x});"),
                ("fly to it", f"g({x});"),
                ("approach it", f"g({x});"),
                ("turn to it", f"o({x});"),
            )
        )
        return Clause(draft.say(TEMPLATES["if_seen"], x=said, do=do), f"?iv({x}){{{plan}}}", names)
    action = rng.choice((move, turn, picture, say, land, fixed_motion))(draft)
    names += action.names
    number, distance = quantity.distance_cm(rng, 50, 400)
    if kind in ("either", "both"):
        templates, operator = (TEMPLATES["if_either"], "|") if kind == "either" else (TEMPLATES["if_both"], "&")
        text = draft.say(templates, x=said, y=_a(draft, two), do=action.text)
        return Clause(text, f"?iv({x}){operator}iv({y}){{{action.plan}}}", (*names, y))
    if kind in ("near", "far"):
        templates, operator = (TEMPLATES["if_near"], "<") if kind == "near" else (TEMPLATES["if_far"], ">")
        text = draft.say(templates, x=_the(draft, one), n=distance, do=action.text)
        return Clause(text, f"?iv({x})&od({x}){operator}{number}{{{action.plan}}}", (*names, str(number)))
    templates, condition = (
        (TEMPLATES["if_seen"], f"iv({x})") if kind == "seen" else (TEMPLATES["if_not_seen"], f"iv({x})==False")
    )
    return Clause(draft.say(templates, x=said, do=action.text), f"?{condition}{{{action.plan}}}", names)


def repeat(draft: Draft) -> Clause:
    """Returns something to do several times."""
    rng = draft.rng
    if rng.random() < 0.2:
        shape = rng.choice(TEMPLATES["shapes"])
        sides, angle = shape["sides"], shape["angle"]
        number, said = quantity.distance_cm(rng, 20, 200)
        draft.first = False
        return Clause(
            draft.say(shape["say"], n=said), f"{sides}{{mf({number});tc({angle});}}", (str(sides), str(number))
        )
    count, said = quantity.times(rng)
    body = [_small_step(draft)]
    if rng.random() < 0.5:
        body.append(rng.choice((turn, picture, wait))(draft))
    text = rng.choice((" and ", ", ", " and then ", ", then ")).join(clause.text for clause in body)
    plan = "".join(clause.plan for clause in body)
    names = tuple(name for clause in body for name in clause.names)
    return Clause(draft.say(TEMPLATES["repeat"], do=text, n=said), f"{count}{{{plan}}}", (str(count), *names))


def _small_step(draft: Draft) -> Clause:
    skill = draft.rng.choice(("mf", "mb", "ml", "mr", "tc", "tu"))
    draft.first = False
    if skill in TEMPLATES["turns"]:
        number, said = quantity.angle_deg(draft.rng)
        return Clause(draft.say(TEMPLATES["turns"][skill], n=said), f"{skill}({number});", (skill, str(number)))
    number, said = quantity.distance_cm(draft.rng, 20, 60)
    return Clause(draft.say(TEMPLATES["moves"][skill], n=said), f"{skill}({number});", (skill, str(number)))
