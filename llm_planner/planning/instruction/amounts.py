# SPDX-License-Identifier: Apache-2.0
"""Numbers of an instruction against those of its plan: code checks what a model may get wrong.

"Fly 100 m forward" must not become ``mf(100)``, one metre, and "two feet" not two metres. A number of a plan is
explained by an amount that the instruction states, or by a documented default where the instruction states none
(docs/language.md). A plan that contradicts its instruction is never executed.
"""

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from llm_planner.core.skill import SkillCall
from llm_planner.language.parser import parse
from llm_planner.language.syntax import And, Assign, Call, Comparison, Fail, If, Loop, Number, Or, Return, Text
from llm_planner.planning.instruction.quantities import SIDE, TURN_BEFORE, UNIT, Quantity, QuantityKind, quantities
from llm_planner.planning.instruction.sides import OPPOSITE, side_of_effect
from llm_planner.planning.instruction.stated_amounts import (
    SIDE_BEFORE,
    SIDE_BEHIND,
    STEPS,
    TAKEN_BACK,
    Range,
    around,
    side_of,
    stated_amounts,
)
from llm_planner.planning.instruction.verdict import PlanCheck, Verdict
from llm_planner.robots.model import RobotModel

_TOLERANCE = 0.02
_DEFAULTS = {
    QuantityKind.LENGTH: (50.0, 100.0),
    QuantityKind.ANGLE: (90.0, 180.0, 360.0),
    QuantityKind.TIME: (1.0, 2.0, 3.0, 5.0),
}
_LITTLE = re.compile(
    r"\b(bit|bits|little|small|slight|slightly|touch|tad|smidge|smidgen|hair|nudge|inch|whisker|fraction|step|steps|more)\b"
)
_LOT = re.compile(r"\b(lot|lots|far|way|much|long|plenty)\b")
_FACTORS = ((re.compile(r"\bhalf|half\b|halve"), 0.5), (re.compile(r"\b(twice|double)\b"), 2.0))
_SIDES = r"up(?:wards?)?|down(?:wards?)?|left|right|for(?:ward)?s?|back(?:wards?)?|ahead|higher|lower"
_ANY_SIDE = re.compile(rf"\b(?:{_SIDES})\b")
_ORDERS = {
    QuantityKind.LENGTH: _ANY_SIDE,
    QuantityKind.ANGLE: re.compile(rf"\b(?:{_SIDES}|turn|rotate|clockwise|anticlockwise)\b"),
    QuantityKind.TIME: re.compile(
        r"\b(?:wait|hold|hover|stay|pause|remain)(?:s|ing)?\b[^~]*~|\b(?:land|take ?off)\b in ~"
    ),
}
_NO_ORDER = re.compile(r"(?:an?|one|half an?) (?:sec|second|min|minute|hour)s?|(?!half)\S+ turns?")
"""What may be a manner of speaking, or "a second one", "step two: turn right"."""
_FACT = re.compile(
    r"\b(?:(?:there|it|he|she|that|wall|ceiling)'?s"
    r"|(?:(?<!it )is|are|'re|'m|am|has|have|hangs at|flew|went)(?: (?:about|only|just))?) $"
)
"""What stands before an amount that is told, and need not be used: "the wall is 2 m ahead, go back 1 m"."""
_TOLD_ORDER = re.compile(
    r"\b(?:plan|order|route|task|way|path|turn|move|want|need|it|next|first|second|third|last)(?: one| step| leg)?"
    r"(?:'?s| is| are)(?: (?:about|only|just))? $"
)
"""The same before an amount with a side, which is ordered: "the plan is 2 m forward, then 3 m left"."""
_EVERY = re.compile(r"\b(?:every|each) (?:other |single )?$")
_MEASURE = re.compile(r" (?:long|wide|high|tall|deep|thick|apart|away)\b")
_SAID_AGAIN = re.compile(r"\b(?:so|that's|that is|which is|it's|literally|total|will do|went|measured|other)\b")
_A_SIDE = re.compile(rf"\b{SIDE}\b")
_MINUS = re.compile(
    rf"(?:(?:^|[^\d\s]\s|[:=(])[-\u2013\u2212]|\b(?:{SIDE}|turn|rotate|wait)(?: by)? (?:minus|negative) )$"
)
_UNDONE = re.compile(r"\b(?:undo|retrace|reverse|opposite|mirror|other way|flew|went)\b")
_SIDE_ALONE = re.compile(
    r"(?<!on the )(?<!on your )(?<!from the )(?<!from your )"
    rf"(?<! ,  )(?<! ,  to the )(?<! ,  to your )\b{SIDE}\b(?!  , )"
)
"""A side that an instruction orders by no amount: "left 45 degrees, strike that, right"."""
_A_LITTLE = re.compile(
    rf"\b(?:slight(?:ly)?|inch(?:ing)?(?: it)?(?: slowly)? (?={_SIDES})"
    r"|small (?:step|turn|move|bit|amount|angle|distance)|(?<!quite )an? (?!good |fair )(?:\w+ )?"
    r"(?:bit|little|touch|tad|smidge(?:n|on)?|hair|nudge|inch|whisker|fraction|step))\b"
    r"(?! (?:of|fast|faster|slower|slowly|quicker|quickly|spin|circle|full|look)\b)"
)
_ALONE = re.compile(r"\s*(?:$|[,.;:!?](?![0-9])|(?:and|then|please)\b)")
"""What stands behind a number that counts no things."""
_SIDE_ALONE_BEHIND = re.compile(rf"{SIDE_BEHIND.pattern}{_ALONE.pattern}")
_BARE_ANGLE, _BARE_LENGTH = (1.0,), (1.0, 100.0, 30.48, 2.54, 91.44, 50.0)
"""What a number without a unit may count; a length also steps."""
_LEAST_BARE_ANGLE = 5.0  # "turn left 2" may be twice
_TOTAL = re.compile(r"\b(?:total|altogether|together|sum|half|more|less|further|back|return|home|both|all)\b")
"""Words by which amounts of different sides may be added up."""
_REPEATED = re.compile(
    r"\b(?:again|back|each|same|(?:an)?other|all|both|times?|once|twi[cs]e|thrice|second|more|also|too|always|keep"
    r"|until|till|while|return|re(?:peat|do|start|commence)\w*|square|rectang\w+|triang\w+|\w+gon|zig ?zag\w*|circ\w+"
    r"|stair\w*|do (?:it|this|that)|undo|laps?|patrol|loop|between|before and|per|ever\w+|likewise|ditto|alternat\w+"
    r"|pattern|shape|spiral|cross|sway|wiggle|shake|nod|dance|rock|swing|at .{1,60} and)\b"
)
"""Words by which a plan may use an amount more often than the instruction states it."""
_MOST_STATED = 100
"""Amounts of one instruction: to hold a plan against more takes seconds, in which no robot is served."""
_MOST_PAIRED = 24
"""Amounts of one kind of which any two may be meant together, for the same reason."""
_BETWEEN_ORDERS = re.compile(r"[,.;:!?]|\b(?:and|then|but|before|after)\b|(?=(?<!small )\bturn)")
_TURNS = r"turn|rotate|rotating|rotation|spin|pivot|yaw|swivel|twist|pan\b|swing|clockwise|face|look|left|right|around"
_UNSTATED = {
    QuantityKind.LENGTH: (
        re.compile(rf"\b(?:{_SIDES}|closer|nearer)\b"),
        re.compile(
            r"\b(?:lots?|loads|fair|well (?=back|away|clear|forward|up|down|to\b)"
            r"|far|ways?|much|long|plenty|max\w*|limit|end|until|till|as|all|away|fe[ae]t|foot|inch\w*|yards?"
            r"|(?:centi|milli)?m[e\u00e8\u00e9]t\w*|c?ms?|past|through|across|along|over|around|behind|beyond|into|near\w*|close\w*|closing|reach|be|high"
            r"|to(?:wards?)? (?!(?:the |your )?(?:left|right|front|side)))\b"
        ),
    ),
    QuantityKind.ANGLE: (
        re.compile(rf"\b(?:{_TURNS})"),
        re.compile(
            r"\b(?:a?round|about|full|fully|circ\w+|spin\w*|twirl|pirouette|w?hole|complete\w*|entire\w*|all|every\w*|laps?"
            r"|rotate\w*|rotating|rotation|sixty|once|tour|deg\w*|until|till"
            r"|to(?:wards?)? (?!(?:the |your )?(?:left|right|side)))\b"
        ),
    ),
    QuantityKind.TIME: (
        re.compile(r"\b(?:wait|hold|hover|stay|pause|remain|hang|rest)(?:s|ing)?\b"),
        re.compile(
            r"\b(?:while|moments?|long\w*|ages|until|till|as|all|se[ck]\w*|min\w*|hours?|odd"
            r"|for (?:me|us|him|her|it|them|the|my))\b"
        ),
    ),
}
"""Of each kind: words of an order, and words by which its amount may be large, or is stated but not read."""
_MOST = {QuantityKind.LENGTH: (200.0, 100.0), QuantityKind.ANGLE: (180.0, 45.0), QuantityKind.TIME: (10.0, 10.0)}
"""What a plan may make of an order without an amount, and of one for a little."""
_BARE = {QuantityKind.LENGTH: _BARE_LENGTH, QuantityKind.ANGLE: (1.0, 90.0, 360.0), QuantityKind.TIME: (1.0, 60.0)}
_VAGUE = ((_LITTLE, (20.0, 30.0, 50.0, 15.0)), (_LOT, (200.0, 300.0)))


@dataclass(frozen=True, slots=True)
class _Use:
    """An amount that a plan gives to a skill.

    Attributes:
        skill: Its name.
        kind: What the amount measures.
        value: In the unit of its kind.
        number: The same as the plan has it.
        side: To which the skill goes or turns; empty if to none.
        rounds: How often the call is made: once, and in each loop around it, the innermost first.
    """

    skill: str
    kind: QuantityKind
    value: float
    number: float
    side: str
    rounds: tuple[int, ...]

    @property
    def values(self) -> Iterator[float]:
        """What one call, and what each loop around it, makes in all."""
        return (self.value * n for n in self.rounds)


@dataclass(slots=True)
class AmountCheck(PlanCheck):
    """Follows one plan call by call.

    Args:
        model: Of the robot: which unit an argument has.
        instruction: As it came; untrusted.
    """

    model: RobotModel
    instruction: str
    _stated: tuple[Quantity, ...] = field(init=False)
    _ranges: tuple[Range, ...] = field(init=False)
    _lengths_cm: set[float] = field(init=False)
    _sides: dict[Quantity, str] = field(init=False)
    _words: str = field(init=False)
    _used: list[_Use] = field(default_factory=list, init=False)
    _limits: list[float] = field(default_factory=list, init=False)
    _texts: list[str] = field(default_factory=list, init=False)
    _is_conditional: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._stated, self._ranges = stated_amounts(self.instruction)
        by_start = {q.start: q for q in (*self._stated, *quantities(self.instruction))}
        self._words = _between(self.instruction, [by_start[start] for start in sorted(by_start)]).lower()
        self._lengths_cm = {size for kind, size in self._units() if kind is QuantityKind.LENGTH} or {1.0}
        self._sides = {q: side_of(self.instruction, q) for q in self._stated}

    def feed(self, calls: Iterable[SkillCall], text: str, /) -> Verdict:
        """Returns how the plan stands with the calls of another statement.

        Args:
            calls: Of the statement.
            text: The statement in MiniSpec; numbers in its conditions and texts count as used, too.
        """
        if len(self._stated) > _MOST_STATED:
            return self.contradicted(f"the instruction has more than {_MOST_STATED} amounts")
        for use in self.uses(text):
            self._used.append(use)
            is_explained = self._is_explained(use) or self._is_default(use) or self._is_part(use)
            if not is_explained or self._is_negative(use) or self._is_surplus(use):
                return self.contradicted(_sentence(use))
        kinds = {use.kind for use in self._unexplained()}
        is_doubtful = any(map(self._unused, kinds)) or self._swapped() or self._unlike_bare() or self._turned_round()
        return Verdict.DOUBTFUL if is_doubtful else Verdict.EXPLAINED

    def finish(self) -> Verdict:
        """Returns how the whole plan stands: an amount that it states and nothing uses contradicts it."""
        swapped, wrong = self._swapped(), self._unlike_bare() or self._turned_round()
        if wrong or len(swapped) > 1:
            return self.contradicted(_sentence((wrong or swapped)[0]))
        for use in self._unexplained():
            if unused := self._unused(use.kind):
                return self.contradicted(f"{_sentence(use)}, and says nothing of {_said(unused[0])}")
            if not (self._is_default(use) or any(use in run for _, run in self._runs(use.kind))):
                return self.contradicted(_sentence(use))
        forgotten = next(self._forgotten(), None)
        if forgotten is None:
            return Verdict.EXPLAINED
        return self.contradicted(f"the plan says nothing of {_said(forgotten)}, which contradicts the instruction")

    def restarted(self) -> "ReplanAmountCheck":
        """Returns the check of a replan: another way may need other amounts, but no longer motions."""
        return ReplanAmountCheck(self)

    @property
    def longest_cm(self) -> float:
        """How far one motion of a replan may go: as far as the instruction says, or the first plan went."""
        kind = QuantityKind.LENGTH
        own, (_, unread) = self._own(kind), _UNSTATED[kind]
        if not own and unread.search(self._words):
            return math.inf
        derived = (value for value, _ in self._derived(kind))
        bare = ((q.value, self._bare(q)[0]) for q in self._stated if q.kind is QuantityKind.COUNT)
        counted = (value * factor for value, kinds in bare for factor in kinds.get(kind, ()))
        used = (use.value for use in self._used if use.kind is kind)
        return max((_MOST[kind][0], *own, *derived, *counted, *used)) + 0.6

    def uses(self, text: str) -> Iterator[_Use]:
        """Yields the amounts that the skills of a statement get; at the opening of a block, those of its condition."""
        return self._uses(() if text == "}" else parse(text + "}" * text.endswith("{")), (1,))

    def _uses(self, nodes: Iterable[object], rounds: tuple[int, ...]) -> Iterator[_Use]:
        """Yields the amounts that skills get; notes the numbers of conditions and texts."""
        for node in nodes:
            match node:
                case Loop(count=count, body=body):
                    yield from self._uses(body, (*rounds, rounds[-1] * count))
                case If(condition=condition, body=body):
                    self._is_conditional = True
                    yield from self._uses((condition, *body), rounds)
                case Call(name=name, arguments=arguments):
                    yield from self._call_uses(name, arguments, rounds)
                case Number(value=number):
                    self._limits += (number * size for size in self._lengths_cm)
                case Text(text=said) | Fail(reason=said):
                    self._texts.append(said)
                case _:
                    yield from self._uses(_inside(node), rounds)

    def _call_uses(self, name: str, arguments: Iterable[object], rounds: tuple[int, ...]) -> Iterator[_Use]:
        skill = self.model.skill(name)
        if skill is None:
            return
        for argument, value in zip(skill.arguments, arguments, strict=False):
            unit = UNIT.get(argument.unit)
            if unit is not None and isinstance(value, Number):
                side = side_of_effect(skill.effect) or ""
                yield self._in_range(_Use(name, unit[0], value.value * unit[1], value.value, side, rounds))
            else:
                yield from self._uses((value,), rounds)

    def _in_range(self, use: _Use) -> _Use:
        """Returns the use; of an amount within a range, one of the amount that stands for it."""
        if any(
            q.kind is use.kind and self._sides[q] in ("", use.side) and _is_among(use.value, (q.value,))
            for q in self._stated
        ):
            return use
        for one in self._ranges:
            if one.stated.kind is use.kind and (not one.side or use.side in ("", one.side)):
                for rounds in (use.rounds[-1], 1):
                    if one.least - 0.6 <= use.value * rounds <= one.most + 0.6:
                        return replace(use, value=one.stated.value / rounds)
        return use

    def _units(self) -> Iterator[tuple[QuantityKind, float]]:
        """Yields the units of the robot's arguments."""
        arguments = (argument for skill in self.model.skills.values() for argument in skill.arguments)
        yield from (unit for argument in arguments if (unit := UNIT.get(argument.unit)) is not None)

    def _own(self, kind: QuantityKind) -> list[float]:
        return [q.value for q in self._stated if q.kind is kind]

    def _derived(self, kind: QuantityKind) -> Iterator[tuple[float, tuple[float, ...]]]:
        """Yields what an instruction may mean besides the amounts that it states, with the amounts that it uses up."""
        own = self._own(kind)
        for factor in (factor for words, factor in _FACTORS if words.search(self._words)):
            yield from ((factor * total, (total,)) for total in own)
        is_total = _TOTAL.search(self._words) is not None
        stated = [(q.value, self._sides[q]) for q in self._stated if q.kind is kind]
        if len(stated) > _MOST_PAIRED:
            return
        for (one, side), (two, other) in itertools.combinations(stated, 2):
            if is_total or side == other or not (side and other):
                yield one + two, (one, two)
                yield abs(one - two), ()

    def _unexplained(self) -> list[_Use]:
        """Returns the uses of a default, and of a part of what is stated."""
        return [use for use in self._used if not self._is_explained(use)]

    def _is_explained(self, use: _Use) -> bool:
        """Whether the instruction states the number, or what loops make of it, or a sum, a difference or a share."""
        own = self._own(use.kind)
        derived = (value for value, _ in self._derived(use.kind))
        is_bare = _is_among(use.number, self._own(QuantityKind.COUNT))
        return is_bare or _is_among(use.value, (*own, *derived)) or any(_is_among(v, own) for v in use.values)

    def _is_part(self, use: _Use) -> bool:
        """Whether it may be one of several calls that make up a stated amount: long pauses take more than one."""
        own = self._own(use.kind)
        if use.kind is QuantityKind.TIME:
            return any(use.value < total for total in own)
        counts = [n for n in self._own(QuantityKind.COUNT) if 1 < n <= 100]
        return _is_among(use.value, (total / n for total in own for n in counts))

    def _is_negative(self, use: _Use) -> bool:
        """Whether the instruction has its amount with a minus sign: "up -50 cm" orders no way up."""
        kinds = use.kind, QuantityKind.COUNT
        negative = (q for q in self._stated if q.kind in kinds and _MINUS.search(around(self.instruction, q)[0]))
        return any(_is_among(use.value, (q.value, 100.0 * q.value)) for q in negative)  # "up -2"

    def _is_surplus(self, use: _Use) -> bool:
        """Whether the plan makes more of the same calls than the instruction states, and no word of it says so."""
        if self._is_conditional or self._own(QuantityKind.COUNT) or _REPEATED.search(self._words):
            return False
        own = self._own(use.kind)
        if _is_among(use.value, _DEFAULTS[use.kind]) and len(_ANY_SIDE.findall(self._words)) > len(own):
            return False
        same = [one for one in self._used if one.skill == use.skill and _is_among(one.value, (use.value,))]
        num_same = sum(one.rounds[-1] for one in same)
        stated = [q for q in self._stated if q.kind is use.kind and _is_among(q.value, (use.value,))]
        num_stated = sum(use.side in ("", self._sides[q]) or not self._sides[q] for q in stated)
        return 0 < num_stated < num_same and num_same * use.value > max(own)

    def _swapped(self) -> list[_Use]:
        """Returns uses of amounts that stand by another side, for sides whose own amounts the plan does not use."""
        if TAKEN_BACK.search(self._words):
            return []
        by_side: dict[tuple[QuantityKind, str], list[float]] = {}
        for q in (q for q in self._stated if self._sides[q]):
            by_side.setdefault((q.kind, self._sides[q]), []).append(q.value)
        found = []
        for (kind, side), own in by_side.items():
            uses = [use for use in self._used if use.kind is kind and use.side == side]
            others = [value for (k, s), values in by_side.items() if k is kind and s != side for value in values]
            if not any(_is_among(use.value, own) for use in uses):
                found += [use for use in uses if _is_among(use.value, others)][:1]
        return found

    def _turned_round(self) -> list[_Use]:
        """Returns uses to the side opposite to the only one that their amount stands by, where the plan never goes."""
        is_turned = any(use.kind is QuantityKind.ANGLE and not use.value % 180 for use in self._used)
        if is_turned or TAKEN_BACK.search(self._words) or _UNDONE.search(self._words):
            return []
        ordered = {match.lastgroup for match in _SIDE_ALONE.finditer(self._words)}
        found = []
        for use in self._used:
            stated = [q for q in self._stated if q.kind is use.kind and _is_among(q.value, use.values)]
            sides = {"" if _FACT.search(around(self.instruction, q)[0]) else self._sides[q] for q in stated}
            is_way_back = any(one.kind is use.kind and one.side in sides for one in self._used)
            if sides == {OPPOSITE.get(use.side)} and not is_way_back and use.side not in ordered:
                found.append(use)
        return found

    def _unlike_bare(self) -> list[_Use]:
        """Returns uses where another number, without a unit, stands directly behind the turn or the side."""
        if TAKEN_BACK.search(self._words):
            return []
        found = []
        for q in (q for q in self._stated if q.kind is QuantityKind.COUNT):
            kinds, sides = self._bare(q)
            uses = [use for use in self._used if use.kind in kinds and (not sides or use.side in sides)]
            by_kind = [[use for use in uses if use.kind is kind] for kind in kinds]
            sums = [(same[0].kind, sum(use.value * use.rounds[-1] for use in same)) for same in by_kind if same]
            values = [*((use.kind, value) for use in uses for value in use.values), *sums]
            if not any(_is_among(value, (q.value * factor for factor in kinds[kind])) for kind, value in values):
                found += uses[:1]
        return found

    def _bare(self, q: Quantity) -> tuple[dict[QuantityKind, tuple[float, ...]], set[str]]:
        """Returns what a number without a unit may count, by kind, and the sides that it stands by."""
        before, behind = around(self.instruction, q)
        turn, side = TURN_BEFORE.search(before), SIDE_BEFORE.search(before)
        side_behind = _SIDE_ALONE_BEHIND.match(behind)
        sides = {match.lastgroup or "" for match in (turn, side, side_behind) if match} - {""}
        if not ((side_behind and q.value > 1) or ((turn or side) and _ALONE.match(behind))):
            return {}, sides
        is_turn = q.value >= _LEAST_BARE_ANGLE and (turn or (not side and sides & {"left", "right"}))
        kinds: dict[QuantityKind, tuple[float, ...]] = {QuantityKind.ANGLE: _BARE_ANGLE} if is_turn else {}
        return (kinds if turn else kinds | {QuantityKind.LENGTH: _BARE_LENGTH}), sides

    def _is_default(self, use: _Use) -> bool:
        if not self._own(use.kind):
            return use.value <= self._most(use)
        vague = (number for words, numbers in _VAGUE if words.search(self._words) for number in numbers)
        return _is_among(use.value, (*_DEFAULTS[use.kind], *vague))

    def _most(self, use: _Use) -> float:
        """Returns how much a plan may make of what the instruction orders without an amount."""
        order, unread = _UNSTATED[use.kind]
        clauses = [clause for clause in _BETWEEN_ORDERS.split(self._words) if order.search(clause)]
        by_side = [clause for clause in clauses if use.side in {m.lastgroup for m in _A_SIDE.finditer(clause)}]
        most, little = _MOST[use.kind]
        clauses = by_side or clauses
        if not clauses or (unread.search(self._words) and not all(map(_A_LITTLE.search, clauses))):
            return math.inf
        counted = (n * factor for n in self._own(QuantityKind.COUNT) for factor in _BARE[use.kind])
        return max((*(little if _A_LITTLE.search(clause) else most for clause in clauses), *counted)) + 0.6

    def _runs(self, kind: QuantityKind) -> Iterator[tuple[float, Sequence[_Use]]]:
        """Yields the stated amounts that calls of a skill, one behind the other, make together, with these calls."""
        own = self._own(kind)
        for name in dict.fromkeys(use.skill for use in self._used if use.kind is kind):
            same = [use for use in self._used if use.kind is kind and use.skill == name]
            for values in ([use.value for use in same], [use.value * use.rounds[-1] for use in same]):
                for start in range(len(same)):
                    for stop, total in enumerate(itertools.accumulate(values[start:]), start + 1):
                        if _is_among(total, own):
                            yield total, same[start:stop]

    def _unused(self, kind: QuantityKind) -> list[Quantity]:
        """Returns the amounts of a kind that the instruction states and the plan does not use so far."""
        stated = [q for q in self._stated if q.kind is kind]
        if not stated:
            return []
        found = [*self._found(kind)]
        return [q for q in stated if not _is_among(q.value, found) and not self._is_fact(q)]

    def _found(self, kind: QuantityKind) -> Iterator[float]:
        """Yields the amounts of the instruction that the plan uses so far, each as often as it does."""
        uses = [use for use in self._used if use.kind is kind]
        values = [value for use in uses for value in use.values]
        yield from values
        yield from (use.value for use in uses for _ in range(use.rounds[-1] - 1))
        derived = self._derived(kind) if uses else ()
        yield from (part for value, parts in derived if _is_among(value, values) for part in parts)
        yield from (total for total, run in self._runs(kind) if len(run) > 1)
        yield from self._limits

    def _forgotten(self) -> Iterator[Quantity]:
        """Yields the amounts that the instruction orders, as far as that is clear, and the plan does not use."""
        if TAKEN_BACK.search(self._words):
            return
        for kind in dict(self._units()):
            unused = self._unused(kind)
            if not unused and not _SAID_AGAIN.search(self._words):
                unused = _without((q for q in self._stated if q.kind is kind), self._found(kind))
            said = [q.value for text in self._texts for q in quantities(text) if q.kind is kind] if unused else []
            yield from filter(self._is_ordered, _without(unused, said))
            yield from (q for q in self._stated if q.kind is kind and self._is_every(q) and not self._is_repeated(q))

    def _is_ordered(self, q: Quantity) -> bool:
        """Whether an amount is not only talk: "hang on a sec", "one turn of 30 degrees"."""
        before, behind = around(self.instruction, q)
        if self._is_fact(q):
            return False
        said = self.instruction[q.start : q.end].lower()
        is_talk = _NO_ORDER.fullmatch(said) and not (said.startswith("half") and before.endswith(("for ", "over ")))
        if is_talk or STEPS.search(said) or behind.startswith(" of ") or behind[:1].isalpha():
            return False
        is_order = self._is_every(q) or _ORDERS[q.kind].search(f"{before[-25:]}~{behind[:25]}") is not None
        return is_order or any(use.kind is q.kind for use in self._used)

    def _is_every(self, q: Quantity) -> bool:
        """Whether something is to be done again and again, by this amount: "a picture every metre"."""
        before, behind = around(self.instruction, q)
        return _EVERY.search(before) is not None and not _MEASURE.match(behind)

    def _is_repeated(self, q: Quantity) -> bool:
        """Whether the plan uses an amount more than once, or makes it up of several calls."""
        num_uses = sum(use.rounds[-1] for use in self._used if use.kind is q.kind and _is_among(use.value, (q.value,)))
        return num_uses > 1 or any(len(run) > 1 and _is_among(total, (q.value,)) for total, run in self._runs(q.kind))

    def _is_fact(self, q: Quantity) -> bool:
        """Whether an amount is told where the instruction has another one: "the wall is 2 m ahead, go back 1 m"."""
        is_only = not any(other is not q and other.kind in (q.kind, QuantityKind.COUNT) for other in self._stated)
        before, behind = around(self.instruction, q)
        is_ordered = SIDE_BEHIND.match(behind) is not None and _TOLD_ORDER.search(before) is not None
        return not is_only and not is_ordered and _FACT.search(before) is not None


class ReplanAmountCheck(PlanCheck):
    """Bounds the motions of a plan that goes on after a failure: it may need other amounts, but no longer ones.

    Args:
        first: The check of the plan before.
    """

    def __init__(self, first: AmountCheck) -> None:
        self._first = first
        self._longest_cm = first.longest_cm
        self.problem = ""

    def feed(self, calls: Iterable[SkillCall], text: str, /) -> Verdict:
        """Returns how the plan stands with another statement."""
        for use in self._first.uses(text):
            if use.kind is QuantityKind.LENGTH and use.side and use.value > self._longest_cm:
                return self.contradicted(f"{_sentence(use)}: that is farther than it says")
        return Verdict.EXPLAINED

    def restarted(self) -> "ReplanAmountCheck":
        """Returns the same bound."""
        return self


def _sentence(use: _Use) -> str:
    return f"the plan says {use.value:g} {use.kind.value}, which contradicts the instruction"


def _between(instruction: str, stated: Iterable[Quantity]) -> str:
    """Returns the words of an instruction that state no amount: "half a metre" halves nothing."""
    ends = [0, *(place for q in stated for place in (q.start, q.end)), len(instruction)]
    return " , ".join(instruction[start:end] for start, end in zip(ends[::2], ends[1::2], strict=True))


def _inside(node: object) -> tuple[object, ...]:
    match node:
        case Or(operands=operands) | And(operands=operands):
            return operands
        case Comparison(left=left, right=right):
            return left, right
        case Assign(call=value) | Return(value=value):
            return (value,)
        case _:
            return ()


def _without(stated: Iterable[Quantity], found: Iterable[float]) -> list[Quantity]:
    """Returns the amounts that are left when each number found is taken for one of them."""
    left = list(stated)
    for value in found:
        if same := next((q for q in left if _is_among(q.value, (value,))), None):
            left.remove(same)
    return left


def _is_among(value: float, others: Iterable[float]) -> bool:
    return any(math.isclose(value, other, rel_tol=_TOLERANCE, abs_tol=0.6) for other in others)


def _said(quantity: Quantity) -> str:
    return f"{quantity.value:g} {quantity.kind.value}"
