# SPDX-License-Identifier: Apache-2.0
"""Amounts in an instruction: numbers, in digits or words, with their units, as plain numbers in the units of skills.

Deterministic on purpose: what a model makes of "two feet" is checked against what stands here (``planning.amounts``).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache


class QuantityKind(Enum):
    """What an amount measures, and the unit of its value."""

    LENGTH = "cm"
    ANGLE = "degrees"
    TIME = "s"
    COUNT = ""


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split())


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount that a text states.

    Attributes:
        kind: What it measures.
        value: In the unit of its kind.
        start: Index of its first character in the text.
        end: Index behind its last one.
    """

    kind: QuantityKind
    value: float
    start: int
    end: int


_UNITS: dict[QuantityKind, dict[float, str]] = {
    QuantityKind.LENGTH: {
        0.1: "mm millimetre millimetres millimeter millimeters mil",
        1.0: "cm cms centimetre centimetres centimeter centimeters centi centis",
        10.0: "dm decimetre decimetres decimeter decimeters",
        100.0: "m metre metres meter meters mtr mtrs",
        100_000.0: "km kilometre kilometres kilometer kilometers",
        2.54: 'in inch inches ins "',
        30.48: "ft foot feet '",
        91.44: "yd yds yard yards",
        160_934.4: "mile miles",
    },
    QuantityKind.ANGLE: {
        1.0: "deg degs degree degrees °",
        360.0: "turn turns rotation rotations revolution revolutions",
    },
    QuantityKind.TIME: {
        0.001: "ms millisecond milliseconds",
        1.0: "s sec secs second seconds",
        60.0: "min mins minute minutes",
        3600.0: "h hr hrs hour hours",
    },
}
_UNIT = {
    name: (kind, factor) for kind, units in _UNITS.items() for factor, names in units.items() for name in names.split()
}
_SMALLER = {"m": 1.0, "foot": 2.54, "feet": 2.54, "ft": 2.54, "'": 2.54}  # two foot six, 5' 10; see also _METRES
_DETERMINERS = frozenset(_split("a an the your my our this that his her its their each all total front"))
_TURNS = frozenset(_UNITS[QuantityKind.ANGLE][360.0].split())
_METRES = frozenset(_UNITS[QuantityKind.LENGTH][100.0].split())
_ONES = {
    word: float(number)
    for number, word in enumerate(
        _split(
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
            "seventeen eighteen nineteen"
        )
    )
} | {"niner": 9.0, "couple": 2.0, "few": 3.0, "dozen": 12.0}
_TENS = {
    word: 10.0 * number
    for number, word in enumerate(_split("twenty thirty forty fifty sixty seventy eighty ninety"), start=2)
} | {"fourty": 40.0}
_SCALES = {"hundred": 100.0, "thousand": 1000.0}
_PARTS = {"third": 3, "quarter": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10}
_FRACTIONS = {"half": 0.5} | {word + ending: 1 / parts for word, parts in _PARTS.items() for ending in ("", "s")}
_EMPHASIS = frozenset(("whole", "full", "good", "single", "solid", "complete", "whopping"))
_ARTICLES = frozenset(("a", "an"))
_ATTACHED_ONLY = frozenset(("in", "s", "m", "h", "mil", '"', "'"))
"""Units that are words of their own, too: taken only behind digits ("2 m", "3 in"), never behind a number word."""
_SIGNS = {"½": 0.5, "¼": 0.25, "¾": 0.75}
_THOUSANDS = re.compile(r"[1-9][0-9]{0,2},[0-9]{3}")
_WITH_THOUSANDS = frozenset(
    name for factor, names in _UNITS[QuantityKind.LENGTH].items() if factor < 100.0 for name in names.split()
)
"""Units of which nobody says thousandths: "1,500 mm" is 1.5 m; so is "1,500 m", with a decimal comma."""
_TOKEN = re.compile(r"[0-9]+/[0-9]+|[0-9]+(?:[.,][0-9]+)?|\.[0-9]+|[a-z]+|[°\"']|[^\s]")


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    end: int

    @property
    def is_digits(self) -> bool:
        return self.text[0] in "0123456789½¼¾" or (self.text[0] == "." and len(self.text) > 1)


@lru_cache(maxsize=256)  # each check of a plan asks for those of the same instruction
def quantities(text: str) -> tuple[Quantity, ...]:
    """Returns the amounts that a text states, in its order.

    Times of the day, dates and the like come out as counts. Vague words ("a bit") are no amounts; "a couple of" is 2,
    "a few" 3.

    Args:
        text: Any text; case does not matter.
    """
    tokens = [_Token(m.group(), m.start(), m.end()) for m in _TOKEN.finditer(_plain(text))]
    return tuple(_Reader(tokens).read())


def _plain(text: str) -> str:
    """Returns the text in lower case with plain marks; each character stays where it is."""
    plain = text.translate(_MARKS).lower()
    return plain if len(plain) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


_MARKS = str.maketrans(
    {
        "\u2019": "'",
        "\u2032": "'",
        "\u2033": '"',
        "\u201d": '"',
        "\u00ba": "\u00b0",
        "\u2044": "/",
        "-": " ",
        "\u2013": " ",
    }
)


class _Reader:
    """Reads amounts from left to right."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def read(self) -> Iterator[Quantity]:
        while self._at < len(self._tokens):
            start = self._at
            quantity = self._quantity()
            if quantity is None:
                self._at = start + 1
            else:
                yield quantity

    def _word(self, ahead: int = 0) -> str:
        index = self._at + ahead
        return self._tokens[index].text if index < len(self._tokens) else ""

    def _quantity(self) -> Quantity | None:
        """Reads one amount; None, with the place undefined, if none begins here."""
        start = self._at
        number = self._number()
        if number is None:
            return None
        is_digits = self._tokens[self._at - 1].is_digits
        kind, factor = QuantityKind.COUNT, 1.0
        self._skip("of", "a", "an", "the", *_EMPHASIS, only_before_unit=True)
        unit = self._word()
        is_inch = unit != "in" or self._word(1) not in _DETERMINERS
        if unit in _UNIT and (is_digits or unit not in _ATTACHED_ONLY) and is_inch:
            if unit in _TURNS and self._tokens[self._at - 1].text in _ARTICLES and self._at == start + 1:
                return None  # "make a turn": by how much is not said
            kind, factor = _UNIT[unit]
            self._at += 1
        elif self._tokens[self._at - 1].text in _ARTICLES | _EMPHASIS:
            return None  # "a chair"
        value = number * factor
        if kind is not QuantityKind.COUNT:
            value += self._rest(unit, factor)
        return Quantity(kind, value, self._tokens[start].start, self._tokens[self._at - 1].end)

    def _skip(self, *words: str, only_before_unit: bool) -> None:
        """Goes past filling words if a unit follows them."""
        ahead = 0
        while self._word(ahead) in words:
            ahead += 1
        if not only_before_unit or (ahead and self._word(ahead) in _UNIT and self._word(ahead) not in _ATTACHED_ONLY):
            self._at += ahead

    def _rest(self, unit: str, factor: float) -> float:
        """Reads what may follow a unit: "and a half", "one metre twenty", "two foot six"."""
        if (length := self._and_a_half()) and self._word(length) not in _TURNS:
            self._at += length
            return _FRACTIONS[self._word(-1)] * factor
        before = self._at
        smaller = 1.0 if unit in _METRES else _SMALLER.get(unit)
        if smaller is None:
            return 0.0
        self._at += self._word() == "and"
        number = self._cardinal() if self._word() not in _ARTICLES else None
        follows = self._word()
        is_part = number is not None and 0 < number * smaller < factor and number == int(number)
        if is_part and number is not None:
            own = _UNIT.get(follows)
            if own is not None and own[0] is QuantityKind.LENGTH and own[1] < factor:
                self._at += 1
                return number * own[1]
            is_spoken = unit not in _METRES or number >= 10
            if is_spoken and follows not in _UNIT and follows not in ("times", "more"):
                return number * smaller
        self._at = before
        return 0.0

    def _number(self) -> float | None:
        """Reads a number; None if there is none."""
        if (fraction := self._fraction()) is not None:
            return fraction
        if self._word() in _ARTICLES:
            self._at += 1 + (self._word(1) in _EMPHASIS)
            if self._word() in (*_SCALES, "couple", "few", "dozen"):
                return self._with_half(self._cardinal())
            return 1.0 if self._word() in _UNIT else None
        return self._with_half(self._cardinal())

    def _with_half(self, number: float | None) -> float | None:
        """Reads "and a half" behind a number."""
        length = self._and_a_half()
        if number is not None and length:
            self._at += length
            return number + _FRACTIONS[self._word(-1)]
        return number

    def _and_a_half(self) -> int:
        """Returns how many words "and a half" takes here; 0 if it is not said."""
        if self._word() != "and":
            return 0
        length = 3 if self._word(1) in _ARTICLES else 2
        return length if self._word(length - 1) in _FRACTIONS else 0

    def _fraction(self) -> float | None:
        """Reads "half", "a quarter", "three quarters", "half a dozen"; None if there is none."""
        before = self._at
        count = 1.0
        if self._word() in _ARTICLES or (self._word() in _ONES and self._word(1) in _FRACTIONS):
            count = _ONES.get(self._word(), 1.0)
            self._at += 1
        word = self._word()
        if word not in _FRACTIONS:
            self._at = before
            return None
        self._at += 1
        if word == "half" and [self._word(), self._word(1)] == ["a", "dozen"]:
            self._at += 2
            return 6.0
        ahead = 0
        while self._word(ahead) in ("of", "a", "an", "the"):
            ahead += 1
        if self._word(ahead) not in _UNIT:
            self._at = before
            return None
        return count * _FRACTIONS[word]

    def _cardinal(self) -> float | None:
        """Reads a whole or decimal number in digits or words; None if there is none."""
        token = self._word()
        if token and self._tokens[self._at].is_digits:
            self._at += 1
            if "/" in token:
                above, below = token.split("/")
                return float(above) / float(below) if float(below) else None
            if token in _SIGNS:
                return _SIGNS[token]
            is_thousands = self._word() in _WITH_THOUSANDS and _THOUSANDS.fullmatch(token)
            whole = float(token.replace(",", "" if is_thousands else "."))
            part = self._part() if token.isdigit() else 0.0
            return whole + part if part else whole * self._scale()
        total = self._words()
        if total is None:
            return None
        if self._word() == "point" and self._word(1) in _ONES:
            self._at += 1
            digits = ""
            while self._word() in _ONES and _ONES[self._word()] < 10:
                digits += str(int(_ONES[self._word()]))
                self._at += 1
            total += float(f"0.{digits}") if digits else 0.0
        return total

    def _part(self) -> float:
        """Reads the fraction of a mixed number, "1 1/2" or "1½"; 0 if there is none."""
        above, slash, below = self._word().partition("/")
        part = _SIGNS.get(above, float(above) / float(below) if above and slash and float(below) else 0.0)
        self._at += 0 < part < 1
        return part if part < 1 else 0.0

    def _scale(self) -> float:
        """Reads "hundred" or "thousand" behind digits."""
        scale = _SCALES.get(self._word())
        self._at += scale is not None
        return scale or 1.0

    def _words(self) -> float | None:
        """Reads a number in words: "a hundred and twenty five"; None if there is none."""
        total, part, start = 0.0, 0.0, self._at
        if num_digits := self._num_spelled_digits():
            self._at += num_digits
            return float("".join(str(int(_ONES[self._word(ahead)])) for ahead in range(-num_digits, 0)))
        previous = ""
        while True:
            word = self._word()
            if word in _SCALES:
                total, part = total + (part or 1.0) * _SCALES[word], 0.0
            elif word in _TENS and previous in _ONES and total == 0.0 and part < 10:
                part = 100.0 * part + _TENS[word]  # one fifty
            elif word in _TENS and previous not in _TENS and previous not in _ONES:
                part += _TENS[word]
            elif word in _ONES and previous not in _ONES and not (previous in _TENS and not 0 < _ONES[word] < 10):
                part += _ONES[word]
            elif not (word == "and" and previous in _SCALES and self._word(1) in (_ONES | _TENS)):
                break
            previous = word
            self._at += 1
        if self._word() == "of" and previous == "couple":
            self._at += 1
        return total + part if self._at > start else None

    def _num_spelled_digits(self) -> int:
        """Returns how many words spell a number digit by digit, as on the radio: "one five zero"; 0 if none do.

        Two digits without a zero may be two numbers ("two one metre steps").
        """
        ahead, has_zero = 0, False
        while self._word(ahead) not in _ARTICLES and _ONES.get(self._word(ahead), 10) < 10:
            has_zero |= self._word(ahead) == "zero"
            ahead += 1
        return ahead if ahead > 2 or (ahead == 2 and has_zero) else 0


def with_plain_amounts(text: str) -> str:
    """Returns the text with every amount that has a unit in digits and in the unit of skills: "two feet" -> "61 cm".

    A small model then copies a number instead of computing it. Numbers without a unit stay, but for those in words from
    two on, which become digits.
    """
    return "".join(piece for piece, _, _ in plain_pieces(text))


def plain_pieces(text: str) -> Iterator[tuple[str, int, int]]:
    """Yields the pieces of ``with_plain_amounts(text)``, each with where the part of the text is that it stands for.

    Every other one is an amount, and stands for all of the words that state it.
    """
    end = 0
    for quantity in quantities(text):
        yield text[end : quantity.start], end, quantity.start
        end = quantity.end
        yield _spelled(quantity, text[quantity.start : end]), quantity.start, end
    yield text[end:], end, len(text)


def _spelled(quantity: Quantity, said: str) -> str:
    if quantity.kind is QuantityKind.COUNT:
        return said if quantity.value < 2 or said[0] in "0123456789" else f"{quantity.value:.6g}"
    digits = 0 if quantity.value >= 10 else 2
    number = f"{quantity.value:.{digits}f}"
    number = number.rstrip("0").rstrip(".") if digits else number
    return f"{number} {quantity.kind.value}"
