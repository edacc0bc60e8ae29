# SPDX-License-Identifier: Apache-2.0
"""Numbers of an instruction against those of its plan: code checks what a model may get wrong.

"Fly 100 m forward" must not become ``mf(100)``, one metre, and "two feet" not two metres. A number of a plan is
explained by an amount that the instruction states, or by a documented default where the instruction states none
(docs/language.md). A plan that contradicts its instruction is never executed.
"""

import itertools
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from llm_planner.core.skill import SkillCall
from llm_planner.planning.quantities import Quantity, QuantityKind, quantities
from llm_planner.planning.verdict import Verdict
from llm_planner.robots.model import RobotModel

_TOLERANCE = 0.02
_KIND_OF_UNIT = {"cm": QuantityKind.LENGTH, "degrees": QuantityKind.ANGLE, "s": QuantityKind.TIME}
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
_VAGUE = ((_LITTLE, (20.0, 30.0, 50.0, 15.0)), (_LOT, (200.0, 300.0)))


@dataclass(slots=True)
class AmountCheck:
    """Follows one plan call by call.

    Args:
        model: Of the robot: which unit an argument has.
        instruction: As it came; untrusted.
    """

    model: RobotModel
    instruction: str
    problem: str = field(default="", init=False)
    _stated: tuple[Quantity, ...] = field(init=False)
    _used: list[tuple[QuantityKind, float]] = field(default_factory=list, init=False)
    _texts: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._stated = quantities(self.instruction)

    def feed(self, calls: Iterable[SkillCall], text: str, /) -> Verdict:
        """Returns how the plan stands with the calls of another statement.

        Args:
            calls: Of the statement.
            text: The statement in MiniSpec; its numbers in conditions and loops count as used, too.
        """
        self._texts.append(text)
        for kind, value in self._arguments(calls):
            self._used.append((kind, value))
            if not self._is_explained(kind, value) and not self._is_default(kind, value):
                self.problem = self._sentence(kind, value)
                return Verdict.CONTRADICTED
        return Verdict.DOUBTFUL if any(map(self._unused, self._unexplained())) else Verdict.EXPLAINED

    def finish(self) -> Verdict:
        """Returns how the whole plan stands: an amount that it states and nothing uses contradicts it."""
        for kind, value in self._unexplained().items():
            if unused := self._unused(kind):
                self.problem = f"{self._sentence(kind, value)}, and says nothing of {_said(unused[0])}"
                return Verdict.CONTRADICTED
        return Verdict.EXPLAINED

    def restarted(self) -> None:
        """Returns no check: another way may need other amounts."""

    def _unexplained(self) -> dict[QuantityKind, float]:
        """Returns the kinds of amounts for which the plan uses a default, with the last one."""
        return {kind: value for kind, value in self._used if not self._is_explained(kind, value)}

    def _arguments(self, calls: Iterable[SkillCall]) -> Iterable[tuple[QuantityKind, float]]:
        for call in calls:
            skill = self.model.skill(call.name)
            for argument, value in zip(skill.arguments if skill else (), call.arguments, strict=False):
                kind = _KIND_OF_UNIT.get(argument.unit)
                if kind is not None and isinstance(value, float | int) and not isinstance(value, bool):
                    yield kind, float(value)

    def _is_explained(self, kind: QuantityKind, value: float) -> bool:
        """Whether the instruction states the number, or a total that it is an equal part of, or a sum or share."""
        stated = [q.value for q in self._stated if q.kind in (kind, QuantityKind.COUNT)]
        own = [q.value for q in self._stated if q.kind is kind]
        counts = [q.value for q in self._stated if q.kind is QuantityKind.COUNT and 1 < q.value <= 100]
        factors = [factor for words, factor in _FACTORS if words.search(self.instruction.lower())]
        shares = (share * total for total in own for share in (*factors, *(1 / n for n in counts)))
        sums = (a + b for a, b in itertools.combinations(own, 2))
        differences = (abs(a - b) for a, b in itertools.combinations(own, 2))
        is_part = kind is QuantityKind.TIME and any(value < total for total in own)  # long pauses take several calls
        return is_part or any(_equal(value, candidate) for candidate in (*stated, *shares, *sums, *differences))

    def _is_default(self, kind: QuantityKind, value: float) -> bool:
        said = self.instruction.lower()
        vague = (number for words, numbers in _VAGUE if words.search(said) for number in numbers)
        known = (*_DEFAULTS[kind], *vague)
        return any(_equal(value, number) for number in known) or not any(q.kind is kind for q in self._stated)

    def _unused(self, kind: QuantityKind) -> list[Quantity]:
        """Returns the amounts of a kind that the instruction states and the plan does not use so far."""
        numbers = [float(number) for text in self._texts for number in _NUMBER.findall(text)]
        return [
            q
            for q in self._stated
            if q.kind is kind and not any(_equal(q.value, n) for n in (*numbers, *_totals(numbers)))
        ]

    def _sentence(self, kind: QuantityKind, value: float) -> str:
        return f"the plan says {value:g} {kind.value}, which contradicts the instruction"


_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")


def _totals(numbers: list[float]) -> Iterable[float]:
    """Yields what two numbers make together: parts of a way, rounds of a loop."""
    for one, two in itertools.combinations(numbers, 2):
        yield one + two
        yield one * two


def _equal(one: float, two: float) -> bool:
    return math.isclose(one, two, rel_tol=_TOLERANCE, abs_tol=0.6)


def _said(quantity: Quantity) -> str:
    return f"{quantity.value:g} {quantity.kind.value}"
