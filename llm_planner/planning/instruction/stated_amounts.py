# SPDX-License-Identifier: Apache-2.0
"""The amounts that an instruction states: without those that it corrects, steps as lengths, ranges as ranges."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from llm_planner.planning.instruction.quantities import SIDE, UNIT, Quantity, QuantityKind, quantities

TAKEN_BACK = re.compile(
    r"\b(?:not?|na[hw]?|nope|never|\w+n't|(?:do|did|is|ca|wo)nt|cannot|without|unless|instead|actually|mean|meant|rather"
    r"|better|prefer|sorry|scratch|scrap|correction|pardon|oops|wrong|nonsense|cancel|forget|joking|lie|fact|enough|only"
    r"|maybe|well|because|since|already|(?:make|call) (?:it|that)|too (?:much|far|high|low|small|little|long|short)"
    r"|says|said|(?:i|us) say|told|was|were|wanted|away|distance|and a bit)\b|, wait,|[.]{2}|[?]"
)
"""An instruction with such words may state an amount that its plan does not need."""
SIDE_BEFORE = re.compile(rf"\b{SIDE}(?: (?:by|about|for|around|roughly))? $")
SIDE_BEHIND = re.compile(rf" (?:to (?:the|your) )?{SIDE}\b")
_CORRECTED = re.compile(
    rf"(?: (?:to (?:the|your) )?{SIDE})?"
    r"(?:[\s,.;:]*\b(?:no|nope|wait|sorry|actually|i mean|(?:or )?rather|correction|make (?:it|that)))+[,:]? (?:by )?"
)
"""What stands between an amount and the one that takes its place: "2 m to the left, no, wait, 3 m"."""
STEPS = re.compile(r" steps?\b(?! of|[:.])", re.IGNORECASE)
_STEP_CM = 50.0
"""Of "three steps"; a plan may make half of it, or twice as much."""
_UP_TO = re.compile(
    r"\b(?:climb|ris|ascen|up|take ?off|lift|higher)[^,.;]{,12} to (?:an? (?:height|altitude) of )?(?:about )?$"
)
_START_HEIGHT_CM = 100.0
"""From "climb to 2 m" a plan may take off what the robot is thought to be at already."""
_RANGE = re.compile(r" (?:or|to|or maybe|or perhaps) | ?[-\u2013] ?")
_A_SECOND, _A_SECOND_S = re.compile("a second|a sec"), (1.0, 5.0)
_SAID_BEFORE = re.compile(
    r"(?<!times )\b(?:(?P<factor>half|double|twice|a third|a quarter|three quarters) (?:of )?)?"
    r"(?:as (?P<as>far|long|much)|(?(factor)(?:that|the (?P<that>distance|amount|time|angle))|(?!))"
    r"|(?<!\bat )(?<!\bfrom )(?<!\bin )(?:the|that) same"
    rf"(?: (?P<same>distance|amount|time|angle|again)|(?= (?:to (?:the|your) )?{SIDE})))\b"
    r"(?!(?: \w+){,2} (?:as|from|between|speed|pace|size|way|of)\b)",
    re.IGNORECASE,
)
"""An amount that is told by the one before it: "half of that", "as far", "the same distance"."""
_WAYS = (QuantityKind.LENGTH, QuantityKind.ANGLE)
_OF_KIND = {"far": _WAYS[:1], "distance": _WAYS[:1], "angle": _WAYS[1:]} | dict.fromkeys(
    ("long", "time"), (QuantityKind.TIME,)
)
"""What an amount is of that is told so; ways, if that is not said."""
_CLOSE = 12  # characters
_SHARES = {"half": 0.5, "double": 2.0, "twice": 2.0, "a third": 1 / 3, "a quarter": 0.25, "three quarters": 0.75}


@dataclass(frozen=True, slots=True)
class Range:
    """An amount that an instruction leaves open: "two or three metres".

    Attributes:
        stated: What stands for all of it.
        least: In the unit of its kind.
        most: The same.
        side: The only one that it is for; empty if it is for all.
    """

    stated: Quantity
    least: float
    most: float
    side: str = ""


def stated_amounts(instruction: str) -> tuple[tuple[Quantity, ...], tuple[Range, ...]]:
    """Returns the amounts that an instruction states, of a range the upper end, and the ranges."""
    stated = _without_corrected(instruction, quantities(instruction))
    return _with_ranges(instruction, _with_repeated(instruction, (*_with_steps(instruction, stated),)))


def _without_corrected(instruction: str, stated: Sequence[Quantity]) -> tuple[Quantity, ...]:
    """Returns the amounts but for those that the next one corrects, if nothing is taken back behind it."""
    corrected = {
        one
        for one, two in itertools.pairwise(stated)
        if one.kind is two.kind
        and _CORRECTED.fullmatch(instruction[one.end : two.start].lower())
        and not TAKEN_BACK.search(instruction[two.end :].lower())
    }
    return tuple(q for q in stated if q not in corrected)


def _with_steps(instruction: str, stated: Iterable[Quantity]) -> Iterator[Quantity]:
    """Yields the amounts, numbers of steps as lengths."""
    for q in stated:
        is_in = instruction[: q.start].lower().endswith("in ")  # "three metres in three steps"
        steps = STEPS.match(instruction, q.end) if q.kind is QuantityKind.COUNT and not is_in else None
        yield replace(q, kind=QuantityKind.LENGTH, value=_STEP_CM * q.value, end=steps.end()) if steps else q


def _with_repeated(instruction: str, stated: Sequence[Quantity]) -> tuple[Quantity, ...]:
    """Returns the amounts, with those that are told by the only one before: "2 m forward and half of that back"."""
    told = list(stated)
    for found in _SAID_BEFORE.finditer(instruction):
        kinds = _OF_KIND.get((found["as"] or found["same"] or found["that"] or "").lower(), _WAYS)
        before = {(q.kind, q.value) for q in told if q.end <= found.start() and q.kind in kinds}
        is_said = any(0 <= q.start - found.end() < _CLOSE for q in told)  # "the same again, one metre"
        for kind, value in before if len(before) == 1 and not is_said else ():
            share = _SHARES.get((found["factor"] or "").lower(), 1.0)
            told.append(Quantity(kind, share * value, *found.span()))
    return tuple(sorted(told, key=lambda q: q.start))


def _with_ranges(instruction: str, stated: Sequence[Quantity]) -> tuple[tuple[Quantity, ...], tuple[Range, ...]]:
    """Returns the amounts, of two that are the ends of a range the upper one alone, and the ranges."""
    lower_ends, ranges = set(), []
    for one, two in itertools.pairwise(stated):
        unit = re.findall(r"[a-z]+|.", instruction[two.start : two.end].lower())[-1]
        factor = 1.0 if one.kind is two.kind else UNIT.get(unit, (two.kind, _STEP_CM))[1]
        is_range = two.kind is not QuantityKind.COUNT and one.kind in (two.kind, QuantityKind.COUNT)
        if is_range and _RANGE.fullmatch(instruction[one.end : two.start].lower()) and one.value * factor < two.value:
            lower_ends.add(one)
            ranges.append(Range(two, one.value * factor, two.value, side_of(instruction, two)))
    for q in stated:
        said = instruction[q.start : q.end].lower()
        if _UP_TO.search(around(instruction, q)[0]) and q.kind is QuantityKind.LENGTH:
            ranges.append(Range(q, q.value - _START_HEIGHT_CM, q.value, "up"))
        elif _A_SECOND.fullmatch(said):
            ranges.append(Range(q, *_A_SECOND_S))
        elif q.kind is QuantityKind.LENGTH and STEPS.search(f" {said}"):
            ranges.append(Range(q, q.value / 2 + 1.0, q.value * 2, side_of(instruction, q)))
    return tuple(q for q in stated if q not in lower_ends), tuple(ranges)


def around(instruction: str, q: Quantity) -> tuple[str, str]:
    """Returns the words before an amount and behind it."""
    return instruction[max(0, q.start - 40) : q.start].lower(), instruction[q.end : q.end + 40].lower()


def side_of(instruction: str, q: Quantity) -> str:
    """Returns the side that an amount stands directly by; empty if there is none, or one on either hand."""
    before, behind = around(instruction, q)
    found = {match.lastgroup for match in (SIDE_BEFORE.search(before), SIDE_BEHIND.match(behind)) if match}
    return (found.pop() or "") if len(found) == 1 else ""
