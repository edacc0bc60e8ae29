# SPDX-License-Identifier: Apache-2.0
"""What a plain order becomes in larger ones: for several things, for one of two, some times over, in a case only.

Authors write each such sentence once, with few orders; here any order of any author may be in it. So a model learns
what "the other one" or "unless" do to an order, whatever it is.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from llm_planner_lab.tasks.frames import AMOUNT, OBJECT, Frame
from llm_planner_lab.tasks.sample import is_within_limits
from llm_planner_lab.tasks.words import COLOURS

Thing = Callable[[random.Random], str]
"""Returns the name of something that an order may be about."""

_DEFINITE = r"\b([Tt]he|[Tt]his|[Tt]hat|[Mm]y|[Yy]our|[Oo]ur) <{}>"
_NOT_PLAIN = re.compile(
    r"\b(if|unless|otherwise|else|before|after|until|while|when|once|no|not|don't|dont|never|instead|wait|sorry|times|twice"
    r"|both|all|neither|nor|every|each|again|other|another|same|first|last|one|ones|them|they|its|that|which|who)\b|[?]"
)
_BEHIND_A_SUBJECT = re.compile(
    r"[ ,]*(is|was|has|had|needs|goes|belongs|wants|looks|stands|lies|sits|gets|must|should|can|will|'s)\b"
)
_NEVER_AGAIN = re.compile(r"\{|\b(?:ld|tk|h|pick|place|find|home|open|close|d|wait|g|a|o)\(")
"""In plans that mean no more if they are carried out several times, or fail then."""
_LISTED_SHARE, _CHOSEN_SHARE, _REPEATED_SHARE = 0.35, 0.25, 0.15
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six")


def composed(rng: random.Random, frame: Frame, thing: Thing) -> Frame:
    """Returns a larger order made of a filled one; the frame itself if it is none that this way can be made of."""
    if frame.scene or frame.is_danger or re.search(r"fail|unclear|->|\?|\bs\(|stop\(", frame.plan):
        return frame
    if _NOT_PLAIN.search(frame.sentence.lower()) or begins_with_a_full_hand(frame.plan):
        return frame
    kind = rng.random()
    if kind < _LISTED_SHARE:
        return _gapped(rng, frame, thing) or _listed(rng, frame, thing) or frame
    if kind < _LISTED_SHARE + _CHOSEN_SHARE:
        return (_of_all(rng, frame) if rng.random() < 0.4 else _other(rng, frame)) or frame
    if kind < _LISTED_SHARE + _CHOSEN_SHARE + _REPEATED_SHARE:
        return _repeated(rng, frame) or frame
    return _conditional(rng, frame, thing) or frame


# --- Several things


def _listed(rng: random.Random, frame: Frame, thing: Thing) -> Frame | None:
    """Returns the order for two or three things instead of one: "the cup" -> "the cup and the spoon"."""
    noun = _only_subject(frame)
    if noun is None:
        return None
    others = _fresh(rng, frame, thing, rng.choice((1, 1, 2)))
    article = _article(rng)
    names = [f"{article}<{other}>" for other in others]
    link = rng.choice((" and ", " and ", ", and ", " and also ", " plus ", ", then "))
    tail = f"{link}{names[0]}" if len(names) == 1 else f", {names[0]}{link}{names[1]}"
    sentence = frame.sentence.replace(f"<{noun}>", f"<{noun}>{tail}")
    plan = frame.plan + "".join(frame.plan.replace(f"<{noun}>", f"<{other}>") for other in others)
    return replace(frame, sentence=_in_plural(sentence), plan=plan)


def _gapped(rng: random.Random, frame: Frame, thing: Thing) -> Frame | None:
    """Returns an order to bring something somewhere with another: "the cup on the tray, the spoon in the drawer"."""
    plan = re.fullmatch(r"pick\(<([^>]+)>\);place\(<\1>,<([^>]+)>\);", frame.plan)
    if plan is None:
        return None
    said = re.search(
        rf"<{re.escape(plan[1])}>.*?\b((?:in|on|onto|into|to|by|at|next to|beside) )\w+ <{re.escape(plan[2])}>",
        frame.sentence,
    )
    if said is None:
        return None
    count = rng.choice((1, 1, 2))
    names = _fresh(rng, frame, thing, 2 * count)
    article = _article(rng)
    sentence, plans = frame.sentence[: said.end()], [frame.plan]
    for index in range(count):
        one, two = names[2 * index : 2 * index + 2]
        link = rng.choice((", ", " and ", " and ", ", and ", " ")) if index == count - 1 else ", "
        sentence += f"{link}{article}<{one}> {said[1]}{article}<{two}>"
        plans.append(f"pick(<{one}>);place(<{one}>,<{two}>);")
    return replace(frame, sentence=sentence + frame.sentence[said.end() :], plan="".join(plans))


# --- One of several things


_OTHERS = (
    ("{order}", "the other {noun}", ", not the {out} one"),
    ("not the {out} {noun}, the other one: {order}", "the {noun}", ""),
    ("{order}", "the other {noun}, not the {out} one,", ""),
    ("{order}", "the {noun} that is not {out}", ""),
    ("{order}", "the {noun}", ", but not the {out} one"),
    ("not the {out} one, {order}", "the other {noun}", ""),
    ("{order}", "the {noun}", ", I mean the other one, not the {out} {noun}"),
    ("{order}", "the {noun}", ", the {meant} one, not the {out} one"),
    ("{order}", "the {noun}", ", the {meant} one I mean"),
    ("{order}", "the {noun}", ", and I mean the {meant} one"),
    ("{order}", "the {meant} one of the two {noun}s", ""),
)
"""The sentence, what stands for "the cup" in the order, and what stands behind the order."""


def _other(rng: random.Random, frame: Frame) -> Frame | None:
    """Returns the order for one of two things of a kind, told by what the other one is."""
    noun = _definite(rng, frame)
    if noun is None:
        return None
    out, meant = rng.sample(COLOURS, 2)
    whole, inner, tail = rng.choice(_OTHERS)
    words = {"noun": noun, "out": out, "meant": meant}
    order = re.sub(_DEFINITE.format(re.escape(noun)), inner.format(**words), frame.sentence)
    tail = tail.format(**words)
    order = re.sub(r"([\s.!]*)$", lambda match: tail + match[1], order, count=1)
    if not whole.startswith("{"):
        order = order[:1].lower() + order[1:]
    kind = noun.replace(" ", "_")
    return replace(
        frame,
        sentence=whole.format(order=order, **words),
        scene=(f"{out}_{kind}", f"{meant}_{kind}"),
        plan=frame.plan.replace(f"<{noun}>", f"{meant}_{kind}"),
    )


def _of_all(rng: random.Random, frame: Frame) -> Frame | None:
    """Returns the order for all things of a kind that the scene has, or for all but one."""
    noun = _only_subject(frame)
    if noun is None or " " in noun:
        return None
    has_exception = rng.random() < 0.4
    count = rng.randint(2, 4)
    if has_exception or rng.random() < 0.4:
        marks = rng.sample(COLOURS, count + has_exception)
        names = [f"{mark}_{noun}" for mark in marks]
    else:
        marks, names = [], [f"{noun}_{number}" for number in range(1, count + 1)]
    many = f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"
    said = rng.choice((f"all the {many}", f"every {noun}", f"each {noun}", f"the {many}, all of them,", f"all {many}"))
    if has_exception:
        said += rng.choice(
            (" except the {}", " except the {} one", " but not the {} one", " but the {} one", " apart from the {}")
        )
        said = said.replace(",,", ",").format(marks[-1])
        names, scene = names[:-1], names
    else:
        said = rng.choice((said, said, f"both {many}")) if count == 2 else said
        scene = names
    sentence = re.sub(_DEFINITE.format(re.escape(noun)), said, frame.sentence)
    sentence = _in_plural(sentence) if "every" not in said and "each" not in said else sentence
    plan = "".join(frame.plan.replace(f"<{noun}>", name) for name in names)
    return replace(frame, sentence=sentence, scene=tuple(scene), plan=plan)


# --- Some times over


_TIMES_OF_ONE = (
    "{order} [{n}] times",
    "[{n}] times: {lower}",
    "{order}, and that [{n}] times",
    "{order}, [{n}] times over",
)
_TIMES_OF_ALL = (
    "{order}, all of that [{n}] times",
    "{order}, and the whole thing [{n}] times",
    "[{n}] times over, {lower}",
    "do this [{n}] times: {lower}",
    "{order}, that whole sequence [{n}] times please",
)


def _repeated(rng: random.Random, frame: Frame) -> Frame | None:
    """Returns the order several times over: all of it."""
    plan = frame.plan
    statements = [*filter(None, plan.split(";"))]
    if _NEVER_AGAIN.search(plan) or len(statements) > 3:
        return None
    count = rng.randint(2, 6)
    if frame.robot == "tello" and not is_within_limits(AMOUNT.sub(r"\1", f"{count}{{{plan}}}")):
        return None
    number = rng.choice((str(count), str(count), _NUMBERS[count]))
    order = frame.sentence.rstrip(" .!")
    lower = order[:1].lower() + order[1:]
    form = rng.choice(_TIMES_OF_ONE if len(statements) == 1 else _TIMES_OF_ALL)
    if count == 2 and rng.random() < 0.6:
        form = form.replace("[{n}] times over", "twice").replace("[{n}] times", "twice")
    times = count if "twice" in form else f"[{count}]"
    return replace(frame, sentence=form.format(order=order, lower=lower, n=number), plan=f"{times}{{{plan}}}")


# --- In a case only


_SEEN = (
    "you see {}",
    "there is {}",
    "you can see {}",
    "{} is there",
    "{} is in view",
    "there's {} in front of you",
    "{} is around",
)
_UNSEEN = (
    "you don't see {}",
    "there is no {}",
    "you can't see {}",
    "{} is not there",
    "{} isn't in view",
    "no {} is there",
)
_FOUND = ("there is {} anywhere", "you find {} anywhere", "{} is anywhere around you", "there's {} somewhere around")
_NOT_FOUND = (
    "there is no {} anywhere",
    "{} is nowhere",
    "{} is nowhere around you",
    "you find no {} anywhere",
    "{} is nowhere to be seen",
)
_IF = ("if", "if", "if", "in case", "provided")


def _conditional(rng: random.Random, frame: Frame, thing: Thing) -> Frame | None:
    """Returns the order in a case only: in front of it or behind it, with what must be there or must not."""
    (noun,) = _fresh(rng, frame, thing, 1)
    cases = [(_SEEN, "?iv({})"), (_UNSEEN, "?iv({})==False")]
    if frame.robot == "tello":
        cases += [(_FOUND, "?s({})"), (_NOT_FOUND, "?s({})==False")]
    said, test = rng.choice(cases)
    case = rng.choice(said)
    article = "" if "no {}" in case else rng.choice(("the ", "the ", "an " if noun[0] in "aeiou" else "a "))
    if said is _UNSEEN and rng.random() < 0.4:
        case, link = rng.choice(_SEEN), "unless"
        article = rng.choice(("the ", "an " if noun[0] in "aeiou" else "a "))
    else:
        link = rng.choice(_IF)
    case = f"{link} {case.format(f'{article}<{noun}>')}"
    order = frame.sentence.rstrip(" .!")
    if rng.random() < 0.5:
        sentence = f"{case[:1].upper()}{case[1:]}, {order[:1].lower()}{order[1:]}"
    else:
        sentence = f"{order}{rng.choice((' ', ' ', ', '))}{case}"
    return replace(frame, sentence=sentence, plan=f"{test.format(f'<{noun}>')}{{{frame.plan}}}")


# --- Parts of them


def _only_subject(frame: Frame) -> str | None:
    """Returns the noun that every statement of an order is about, so that the order can be given for others, too."""
    nouns = OBJECT.findall(frame.plan)
    if not nouns or "{" in frame.plan or re.search(r"\bfind\(", frame.plan):
        return None
    noun = nouns[0]
    if not _is_definite(frame, noun) or ends_with_a_full_hand(frame.plan):  # a hand holds one thing
        return None
    about = f"<{noun}>"
    statements = [*filter(None, frame.plan.split(";"))]
    is_about = all(
        about in s or (s == "tp()" and about in before)
        for before, s in zip(["", *statements], statements, strict=False)
    )
    return noun if is_about and not re.search(r"\bit's\b|\bit is\b", frame.sentence) else None


def _definite(rng: random.Random, frame: Frame) -> str | None:
    """Returns something definite of one word or two that the order acts on; None if there is nothing."""
    nouns = [n for n in dict.fromkeys(OBJECT.findall(frame.plan)) if _is_definite(frame, n)]
    return rng.choice(nouns) if nouns else None


def _is_definite(frame: Frame, noun: str) -> bool:
    found = [*re.finditer(_DEFINITE.format(re.escape(noun)), frame.sentence)]
    is_singular = re.fullmatch(r"[a-z]+( [a-z]+)?", noun) and not re.search(r"[^s]s$", noun)
    is_once = len(found) == 1 and frame.sentence.count(f"<{noun}>") == 1
    return bool(is_singular and is_once and not _BEHIND_A_SUBJECT.match(frame.sentence, found[0].end()))


def _fresh(rng: random.Random, frame: Frame, thing: Thing, count: int) -> Sequence[str]:
    """Returns things that the order does not speak of, and whose last words differ."""
    taken = {noun.lower().split()[-1] for noun in OBJECT.findall(frame.sentence)}
    found: list[str] = []
    while len(found) < count:
        other = thing(rng)
        if other.split()[-1] not in taken and re.fullmatch(r"[a-z][a-z -]*", other):
            taken.add(other.split()[-1])
            found.append(other)
    return found


def _article(rng: random.Random) -> str:
    return rng.choice(("the ", "the ", "the ", ""))


def _in_plural(sentence: str) -> str:
    return re.sub(r"\bit\b(?![^<]*>)", "them", sentence)  # a <post it> stays one


def begins_with_a_full_hand(plan: str) -> bool:
    """Whether a plan puts down what the arm has picked up before."""
    return "place(" in plan and "pick(" not in plan.partition("place(")[0]


def ends_with_a_full_hand(plan: str) -> bool:
    """Whether a plan leaves in the hand what the arm has picked up."""
    return plan.rfind("pick(") > max(plan.rfind("place("), plan.rfind("open("))
