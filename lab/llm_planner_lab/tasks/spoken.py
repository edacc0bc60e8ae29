# SPDX-License-Identifier: Apache-2.0
"""Tasks made of frames: slots are filled, what is not in view is searched for, sides are mirrored, sentences joined."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.planning.instruction.quantities import QuantityKind, quantities
from llm_planner.planning.untrusted import ascii_letters
from llm_planner_lab.tasks.composed import begins_with_a_full_hand, composed, ends_with_a_full_hand
from llm_planner_lab.tasks.draft import Draft
from llm_planner_lab.tasks.frames import AMOUNT, OBJECT, WORDS, Frame, nouns, sayings
from llm_planner_lab.tasks.names import invented_word
from llm_planner_lab.tasks.renamed import renamed
from llm_planner_lab.tasks.sample import DEFAULT_DIFFICULTY, Difficulty, Task, grasps_somebody, is_within_limits
from llm_planner_lab.tasks.scene import PlacedObject, describe
from llm_planner_lab.tasks.searching import with_decisions, with_searches
from llm_planner_lab.tasks.sentence import decorate, misspell, recase
from llm_planner_lab.tasks.words import COLOURS, INJECTIONS, THINGS

_JOINERS = (
    ", then ",
    " and then ",
    ", and then ",
    ". then ",
    ". after that, ",
    " and ",
    ", ",
    ". ",
    "; ",
    ". next, ",
    " then ",
)
_AREAS = frozenset(("left_area", "right_area", "table", "bin"))
_PLAIN_JOINT = re.compile(r"\b(if|unless|otherwise|else|before|after|no|not|don't|dont|never|instead|wait|sorry)\b|[?]")
_LITERAL_SHARE, _MIRRORED_SHARE, _JOINED_SHARE, _DECORATED_SHARE = 0.25, 0.3, 0.25, 0.12
_OUT_OF_RANGE_SHARE = 0.05
_INJECTED_SHARE = 0.2
_AMBIGUOUS_SHARE = 0.1
_COMPOSED_SHARE = 0.9
_RENAMED_SHARE = 0.6
_ALIKE_SHARE = 0.15
_TWO_SAYINGS_SHARE = 0.15
_TRIES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """Makes tasks of frames.

    Attributes:
        frames: To draw from, by robot.
        cum_weights: How often a frame is drawn, summed up in the order of ``frames``; None for all alike.
        things: Objects that may stand in a slot, by robot.
        words: What may be said.
    """

    frames: Mapping[str, Sequence[Frame]]
    cum_weights: Mapping[str, Sequence[float]] | None
    things: Mapping[str, Sequence[str]]
    words: Sequence[str]

    @staticmethod
    def of(frames: Sequence[Frame], weights: Sequence[float] | None = None) -> "Speaker":
        """Returns a speaker with everything that these frames hold.

        Args:
            frames: Of both robots.
            weights: How often each is drawn, in relation to the others of its robot; None for all alike.
        """
        robots = ("tello", "indy7")
        cum_weights = None
        if weights is not None:
            drawn = list(zip(frames, weights, strict=True))
            cum_weights = {robot: [*accumulate(w for f, w in drawn if f.robot == robot)] for robot in robots}
        return Speaker(
            frames={robot: [f for f in frames if f.robot == robot] for robot in robots},
            cum_weights=cum_weights,
            things={robot: nouns(frames, robot) for robot in robots},
            words=sayings(frames),
        )

    def sample(self, rng: random.Random, difficulty: Difficulty = DEFAULT_DIFFICULTY) -> Task:
        """Returns one task."""
        while grasps_somebody((task := self._sample(rng, difficulty)).plan):
            pass
        return task

    def _sample(self, rng: random.Random, difficulty: Difficulty) -> Task:
        robot = "tello" if rng.random() < len(self.frames["tello"]) / sum(map(len, self.frames.values())) else "indy7"
        filled = self._filled(rng, self._frame(rng, robot))
        if rng.random() < _AMBIGUOUS_SHARE:
            filled = _ambiguous(rng, filled)
        elif rng.random() < _JOINED_SHARE and _can_be_joined(filled):
            other = self._filled(rng, self._frame(rng, robot))
            if _can_be_joined(other):
                filled = _joined(rng, filled, other)
        elif rng.random() < _COMPOSED_SHARE:
            filled = composed(rng, filled, lambda r: self._thing(r, robot))
        task = _task(rng, filled, difficulty)
        if task.scene and rng.random() < _INJECTED_SHARE:
            task = replace(task, scene=self._with_order(rng, robot, task.scene))
        return task

    def _frame(self, rng: random.Random, robot: str) -> Frame:
        cum_weights = None if self.cum_weights is None else self.cum_weights[robot]
        return rng.choices(self.frames[robot], cum_weights=cum_weights)[0]

    def _with_order(self, rng: random.Random, robot: str, scene: str) -> str:
        """Returns a scene that holds an order, which no operator gave."""
        other = rng.choice(self.frames[robot])
        sentence = _as_said(other.sentence)
        words = sentence.split()
        start = rng.randrange(len(words))
        order = rng.choice((rng.choice(INJECTIONS), sentence, other.plan, " ".join(words[start : start + 3])))
        return rng.choice(("{0}, {1}", "{1}; {0}", "{0}, sign: '{1}'", "{0}, {1}, {1}, {1}")).format(scene, order)

    def _filled(self, rng: random.Random, frame: Frame) -> Frame:
        """Returns the frame with other words in its slots, if it can have them."""
        if rng.random() < _MIRRORED_SHARE:
            frame = mirrored(frame)
        if frame.scene and rng.random() < _RENAMED_SHARE:
            frame = renamed(rng, frame)
        if rng.random() < _LITERAL_SHARE:
            return frame
        for _ in range(_TRIES):
            filled = self._with_objects(rng, _with_amounts(rng, frame))
            filled = _with_words(rng, filled, self.words)
            if frame.robot != "tello" or is_within_limits(AMOUNT.sub(r"\1", filled.plan)):
                return filled
        return frame

    def _with_objects(self, rng: random.Random, frame: Frame) -> Frame:
        slots = list(dict.fromkeys(OBJECT.findall(frame.sentence)))
        taken = {noun.lower() for noun in slots}
        others: dict[str, str] = {}
        for noun in slots:
            other = self._thing(rng, frame.robot)
            if rng.random() < 0.3 or other in taken:
                continue
            others[noun] = other
            taken.add(other)
        if 1 < len(others) <= len(COLOURS) and rng.random() < _ALIKE_SHARE:
            others = dict(zip(others, _alike(rng, len(others)), strict=True))

        def change(match: re.Match[str]) -> str:
            return f"<{others.get(match[1], match[1])}>"

        sentence = _with_articles(OBJECT.sub(change, frame.sentence))
        return replace(frame, sentence=sentence, plan=OBJECT.sub(change, frame.plan))

    def _thing(self, rng: random.Random, robot: str) -> str:
        kind = rng.random()
        if kind < 0.5 and self.things[robot]:
            return rng.choice(self.things[robot]).lower()
        noun = invented_word(rng) if kind < 0.65 else rng.choice(THINGS)
        return f"{rng.choice(COLOURS)} {noun}" if rng.random() < 0.2 else noun


def _alike(rng: random.Random, count: int) -> list[str]:
    """Returns names that have a word in common: a model that copies must not go on with the wrong one."""
    if rng.random() < 0.5:
        noun = rng.choice(THINGS)
        return [f"{colour} {noun}" for colour in rng.sample(COLOURS, count)]
    colour = rng.choice(COLOURS)
    return [f"{colour} {noun}" for noun in rng.sample(THINGS, count)]


def literal(rng: random.Random, frame: Frame, *, has_scene: bool) -> Task:
    """Returns the task of a frame with the author's own words.

    Args:
        rng: Of the world and of the names that the scene lists besides.
        frame: As the author wrote it.
        has_scene: Whether the scene lists the objects, where the author gave none.
    """
    return _task(rng, frame, Difficulty(max_objects=12, noise=0.0), has_scene=has_scene, is_plain=True)


def identifier(noun: str) -> str:
    """Returns the name of an object in scenes and plans: ``red box`` -> ``red_box``."""
    name = re.sub(r"\W+", "_", ascii_letters(noun.lower().replace("'", ""))).strip("_")
    return f"the_{name}" if name[0].isdigit() else name


def _with_articles(sentence: str) -> str:
    """Returns the sentence with "a" or "an" in front of objects, as their sound wants it."""

    def fitting(match: re.Match[str]) -> str:
        article = "an" if match[2][0] in "aeiou" else "a"
        return f"{article if match[1].islower() else article.capitalize()} <{match[2]}"

    return re.sub(r"\b([Aa]n?) <(\w)", fitting, sentence)


def _with_words(rng: random.Random, frame: Frame, words: Sequence[str]) -> Frame:
    found = WORDS.findall(frame.sentence)
    others = {said: _saying(rng, words) if rng.random() < 0.6 else said for said in found}

    def change(match: re.Match[str]) -> str:
        return f"~{others.get(match[1], match[1])}~"

    return replace(frame, sentence=WORDS.sub(change, frame.sentence), plan=WORDS.sub(change, frame.plan))


def _saying(rng: random.Random, words: Sequence[str]) -> str:
    """Returns something to say; now and then with a comma, at which a sentence that orders it does not end."""
    saying = rng.choice(words)
    return f"{saying.rstrip('.!?')}, {rng.choice(words)}" if rng.random() < _TWO_SAYINGS_SHARE else saying


# --- Amounts

_IN_PLAN = re.compile(r"(?:(\w+)\()?\[(\d+(?:\.\d+)?)\]")
_RANGES = {"md": (20, 60), "mu": (20, 150)}


def _with_amounts(rng: random.Random, frame: Frame) -> Frame:
    """Returns the frame with other amounts, if each of those in the plan is one of the sentence."""
    said = AMOUNT.findall(frame.sentence)
    used = list(_IN_PLAN.finditer(frame.plan))
    links = _links(said, used)
    if not said or links is None:
        return frame
    others = [
        _other_amount(rng, said[i], [u[1] or "" for u, link in zip(used, links, strict=True) if link == i])
        for i in range(len(said))
    ]
    if len(used) == 1 and used[0][1] in _MOVES and rng.random() < _OUT_OF_RANGE_SHARE and "{" not in frame.plan:
        value = rng.choice(
            (rng.randint(5, 19), rng.randint(501, 999), 100 * rng.randint(6, 99), 100 * rng.randint(6, 999))
        )
        plan = f"fail('{value / 100:g} m is too far');" if value > 500 else f"fail('{value} cm is too little');"
        return replace(frame, sentence=AMOUNT.sub(f"[{value} cm]", frame.sentence), plan=plan)
    texts, numbers = iter(others), iter(links)
    sentence = AMOUNT.sub(lambda _: f"[{next(texts)[0]}]", frame.sentence)
    plan = AMOUNT.sub(lambda _: f"[{others[next(numbers)][1]}]", frame.plan)
    return replace(frame, sentence=sentence, plan=plan)


_MOVES = frozenset(("mf", "mb", "ml", "mr", "mu", "md"))


def _links(said: Sequence[str], used: Sequence[re.Match[str]]) -> list[int] | None:
    """Returns which amount of the sentence each number of the plan is; None if one is no such amount."""
    stated = [quantities(text) for text in said]
    links: list[int] = []
    for match in used:
        value = float(match[2])
        fits = [
            i
            for i, found in enumerate(stated)
            if len(found) == 1 and abs(found[0].value - value) <= max(1.0, 0.02 * value)
        ]
        if not fits:
            return None
        links.append(next((i for i in fits if i not in links), fits[0]))
    return links


def _other_amount(rng: random.Random, said: str, skills: Sequence[str]) -> tuple[str, str]:
    """Returns another amount of the kind: how it is said, and its number."""
    found = quantities(said)
    kind = found[0].kind if len(found) == 1 else QuantityKind.COUNT
    skill = next((s for s in skills if s), "")
    if kind is QuantityKind.LENGTH or skill in _MOVES:
        low, high = _RANGES.get(skill, (20, 500))
        step = rng.choice((1, 5, 10, 10, 50, 100))
        number = max(low, min(high, rng.randint(low // step, high // step) * step))
        return (f"{number} cm" if kind is QuantityKind.LENGTH else str(number)), str(number)
    if kind is QuantityKind.ANGLE or skill in ("tc", "tu"):
        number = rng.choice(
            (rng.randint(1, 360), 5 * rng.randint(1, 72), rng.choice((30, 45, 60, 90, 120, 135, 180, 270)))
        )
        return (f"{number} degrees" if kind is QuantityKind.ANGLE else str(number)), str(number)
    if kind is QuantityKind.TIME or skill in ("d", "wait"):
        number = rng.choice((rng.randint(1, 12), rng.randint(1, 60)))
        return (f"{number} s" if kind is QuantityKind.TIME else str(number)), str(number)
    number = rng.randint(2, 10)
    return str(number), str(number)


# --- Sides

_SIDES = (
    ("left", "right"),
    ("leftwards", "rightwards"),
    ("leftward", "rightward"),
    ("lefthand", "righthand"),
    ("port", "starboard"),
    ("anticlockwise", "clockwise"),
    ("counterclockwise", "clockwise"),
    ("counter-clockwise", "clockwise"),
    ("anti-clockwise", "clockwise"),
    ("ml", "mr"),
    ("tu", "tc"),
    ("left_area", "right_area"),
)
_OTHER_SIDE = dict(_SIDES) | {two: one for one, two in reversed(_SIDES)}
_SIDE = re.compile(r"(?<![\w-])(" + "|".join(sorted(_OTHER_SIDE, key=len, reverse=True)) + r")(?![\w-])", re.IGNORECASE)
_BEHIND_RIGHT = (
    "now away there here by on up at in behind above below over next beside after before through then so ok under "
    "beneath past against until onto into along across outside inside where when as off"
)
_BEFORE_RIGHT = "all that's thats is just too the that'll be it yeah ok so quite not got do done"
_BEFORE_LEFT = "what's is are was were been got have has i we he she they someone you just only one ones thing things"
_BEHIND_LEFT = "behind over it the my his her our some something alone open unlocked last"
_NO_SIDE = re.compile(
    rf"\bright[ ,]({_BEHIND_RIGHT.replace(' ', '|')})\b|\b({_BEFORE_RIGHT.replace(' ', '|')}|get it|gets it) right\b"
    rf"|\bright[,.!?]|^right\b|\b({_BEFORE_LEFT.replace(' ', '|')}|any\w*|nothing) left\b"
    rf"|\bleft ({_BEHIND_LEFT.replace(' ', '|')})\b|\bcopyright\b|write",
    re.IGNORECASE,
)
"""Where "left" and "right" mean no side, or may not."""


def mirrored(frame: Frame) -> Frame:
    """Returns the frame with left for right and right for left, where these words mean sides."""
    if _NO_SIDE.search(frame.sentence) or (frame.scene and _SIDE.search(" ".join(frame.scene).replace("_", " "))):
        return frame
    if bool(_SIDE.search(frame.sentence)) != bool(_SIDE.search(frame.plan)):
        return frame

    def other(match: re.Match[str]) -> str:
        found = _OTHER_SIDE[match[1].lower()]
        return found.upper() if match[1].isupper() else found.capitalize() if match[1][0].isupper() else found

    return replace(frame, sentence=_SIDE.sub(other, frame.sentence), plan=_SIDE.sub(other, frame.plan))


# --- What may be meant in two ways

_DEFINITE = re.compile(r"\b(?:the|this|that|my|your) <([a-z]*[^\Ws])>", re.IGNORECASE)


def _ambiguous(rng: random.Random, frame: Frame) -> Frame:
    """Returns the order with two things of one name in view; the frame itself if it is none that this makes unclear.

    A model that meets a sentence only where it is ambiguous asks back where there is one thing of the name, too.
    """
    nouns_said = [noun.lower() for noun in dict.fromkeys(OBJECT.findall(frame.sentence))]
    tails = [re.split(r"\W", noun)[-1] for noun in nouns_said]
    definite = [m[1].lower() for m in _DEFINITE.finditer(frame.sentence)]
    used = frozenset(noun.lower() for noun in OBJECT.findall(frame.plan))
    candidates = [n for n in definite if n in used and tails.count(n) == 1 and identifier(n) not in _AREAS]
    if not candidates or frame.scene or frame.is_danger or begins_with_a_full_hand(frame.plan):
        return frame
    if re.search(r"fail|unclear|->|find|\?|\bs\(", frame.plan):
        return frame
    noun = rng.choice(candidates)
    others = [identifier(other) for other in nouns_said if other != noun and identifier(other) not in _AREAS]
    scene = [*others, *(identifier(f"{colour} {noun}") for colour in rng.sample(COLOURS, 2))]
    rng.shuffle(scene)
    sentence = _as_said(frame.sentence)
    return replace(frame, sentence=sentence, scene=tuple(scene), plan=f"unclear('which {noun}');")


# --- Several sentences


def _can_be_joined(frame: Frame) -> bool:
    """Whether something else may stand before or behind it: a plain order."""
    is_plan = not re.search(r"fail|unclear|->|\?|stop\(|\bh\(", frame.plan)
    return is_plan and not frame.scene and not frame.is_danger and not _PLAIN_JOINT.search(frame.sentence.lower())


def _joined(rng: random.Random, one: Frame, two: Frame) -> Frame:
    if frozenset(OBJECT.findall(one.sentence)) & frozenset(OBJECT.findall(two.sentence)):
        return one
    plan = one.plan + two.plan
    if ("pick(" in two.plan or "push(" in two.plan) and ends_with_a_full_hand(one.plan):
        return one
    if begins_with_a_full_hand(two.plan):  # whatever the first one leaves in it is something else
        return one
    if "ld(" in one.plan:  # nothing is done behind a landing
        return one
    if one.robot == "tello" and not is_within_limits(AMOUNT.sub(r"\1", plan)):
        return one
    sentence = one.sentence.rstrip(" .!") + rng.choice(_JOINERS) + two.sentence[:1].lower() + two.sentence[1:]
    return replace(one, sentence=sentence, plan=plan)


# --- World and scene


def _task(
    rng: random.Random, frame: Frame, difficulty: Difficulty, *, has_scene: bool | None = None, is_plain: bool = False
) -> Task:
    """Returns the task of a filled frame: a world with its objects, what the scene lists, and the executable plan."""
    objects = list(dict.fromkeys(map(identifier, OBJECT.findall(frame.sentence))))
    if has_scene is None:
        has_scene = rng.random() < (0.45 if objects else 0.25)
    draft = Draft(rng, frame.robot, False, has_scene=has_scene or bool(frame.scene), invented=difficulty.invented)
    names = {name: name for name in objects}
    for name in frame.scene:
        draft.reserved.update((name, name.rpartition("_")[2]))
        draft.put(name)
    for name in objects:
        if name in _AREAS or name in frame.scene:
            continue
        is_listed = has_scene and (is_plain or frame.robot == "indy7" or rng.random() < 0.75)
        if has_scene and is_listed and not is_plain and rng.random() < 0.25:
            names[name] = _longer(rng, name, objects)
        draft.reserved.update((name, name.rpartition("_")[2]))
        if is_listed or frame.robot == "indy7" or rng.random() < 0.75:
            draft.put(names[name], is_listed=is_listed)
    if draft.has_scene and not is_plain:
        most = max(0, difficulty.max_objects - len(draft.objects))
        draft.distract(0 if frame.scene and rng.random() < 0.7 else int((most + 1) ** rng.random()) - 1)
    placed = tuple(draft.objects)
    scene = describe(rng, placed) if draft.has_scene and placed else ""
    plan = _plan(frame, names, frozenset(thing.name for thing in placed if thing.is_listed and draft.has_scene))
    text = _as_said(frame.sentence)
    if not is_plain:
        text = decorate(rng, text, held_out=False) if rng.random() < _DECORATED_SHARE and not frame.is_danger else text
        if rng.random() < difficulty.noise:
            text = misspell(rng, text, _protected(plan, placed))
        text = recase(rng, text)
    family = "danger" if frame.is_danger else "spoken"
    return Task(family, frame.robot, text, scene, plan, placed, ("same_outcome",))


def _longer(rng: random.Random, name: str, objects: Sequence[str]) -> str:
    """Returns a name that a scene may have for what is called ``name``: ``cup_3``, or ``red_cup``."""
    is_alone = sum(other.rpartition("_")[2] == name for other in objects) == 1
    return f"{rng.choice(COLOURS)}_{name}" if is_alone and rng.random() < 0.5 else f"{name}_{rng.randint(1, 9)}"


def _as_said(sentence: str) -> str:
    """Returns the sentence of a frame without the marks of its slots."""
    return WORDS.sub(r"\1", AMOUNT.sub(r"\1", OBJECT.sub(r"\1", sentence)))


def _plan(frame: Frame, names: Mapping[str, str], listed: frozenset[str]) -> str:
    text = OBJECT.sub(lambda match: names[identifier(match[1])], AMOUNT.sub(r"\1", frame.plan))
    text = WORDS.sub(lambda match: match[1].replace("'", "\\'"), text)
    statements = with_decisions(parse(text))
    return to_text(with_searches(statements, listed) if frame.robot == "tello" else statements)


def _protected(plan: str, placed: Sequence[PlacedObject]) -> frozenset[str]:
    words = {word for thing in placed for word in thing.name.split("_")}
    pieces = "".join(letter if letter.isalpha() else " " for letter in plan).split()
    return frozenset(words) | frozenset(pieces) | {"left", "right"}
