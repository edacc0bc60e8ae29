# SPDX-License-Identifier: Apache-2.0
"""Amounts in an instruction: numbers, in digits or words, with their units, as plain numbers in the units of skills.

Deterministic on purpose: what a model makes of "two feet" is checked against what stands here (``amounts``).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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
UNIT = {
    name: (kind, factor) for kind, units in _UNITS.items() for factor, names in units.items() for name in names.split()
}
"""What a unit measures, and its size in the unit of that kind, by each of its names."""
_SMALLER = {"foot": 2.54, "feet": 2.54, "ft": 2.54, "'": 2.54}  # two foot six, 5' 10; see also _METRES
_DETERMINERS = frozenset(_split("a an the your my our this that his her its their each all total front"))
_TURNS = frozenset(_UNITS[QuantityKind.ANGLE][360.0].split())
_METRES = frozenset(_UNITS[QuantityKind.LENGTH][100.0].split())
_ONES = (
    {"nought": 0.0}
    | {
        word: float(number)
        for number, word in enumerate(
            _split(
                "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
                "seventeen eighteen nineteen"
            )
        )
    }
    | {"niner": 9.0, "couple": 2.0, "few": 3.0, "dozen": 12.0}
)
_TENS = {
    word: 10.0 * number
    for number, word in enumerate(_split("twenty thirty forty fifty sixty seventy eighty ninety"), start=2)
} | {"fourty": 40.0}
_SCALES = {"hundred": 100.0, "thousand": 1000.0}
_PARTS = {
    word: parts for parts, word in enumerate(_split("third quarter fifth sixth seventh eighth ninth tenth"), start=3)
} | {"twelfth": 12}
NUMBER_WORDS = frozenset((*_ONES, *_TENS, *_SCALES, *_PARTS, "half"))
_FRACTIONS = {"half": 0.5} | {word + ending: 1 / parts for word, parts in _PARTS.items() for ending in ("", "s")}
_DECIMALS = {word: f"{number:g}" for word, number in _ONES.items()} | {word: f"{n / 10:g}" for word, n in _TENS.items()}
"""How words behind a decimal point are written: "point two five", "point twenty five"."""
_EMPHASIS = frozenset(("whole", "full", "good", "single", "solid", "complete", "whopping"))
_ARTICLES = frozenset(("a", "an"))
_EACH = frozenset(("each", "every", "another"))  # one: "another one five seconds later"
_BEHIND_EACH = frozenset(
    (
        "",
        *",.;:!?",
        *_split("and or then but so until till while for from as on along up down left right back take snap"),
    )
)
"""What stands behind "every metre", and not behind "every second chair", "every inch of it", "every minute counts"."""
_OF_A = frozenset(("of", "the")) | _ARTICLES | _EMPHASIS
_BEHIND_INCHES = frozenset(
    (
        *("", *",.;:!?)"),
        *_split("forward forwards back backward backwards up upward upwards higher down downward downwards lower left"),
        *_split("right ahead away apart off further and then of or to by long wide high tall deep thick please more n"),
        *_split("from past above below over under toward towards closer nearer"),
    )
)
_MORE = frozenset(("more", "further", "extra", "additional"))
_SMALLEST_ANGLE = 30.0  # degrees: nobody asks for thirty turns, but for "a 180 turn"
_ATTACHED_ONLY = frozenset(("in", "s", "m", "h", "mil", '"', "'"))
"""Units that are words of their own, too: taken only behind digits ("2 m", "3 in"), never behind a number word."""
_SPOKEN_UNITS = UNIT.keys() - _ATTACHED_ONLY
_MISHEARD = {"to": 2.0, "too": 2.0, "for": 4.0}
_BEHIND_MISHEARD = frozenset(_split("metres meters yards inches centimetres centimeters degrees"))
"""Speech recognition writes "for metres" and "too feet"; but something may be "for feet"."""
_MOST_BORROWED = 1000.0  # cm, degrees or seconds
_POINTED_BY = frozenset(("", *_UNITS[QuantityKind.ANGLE][1.0].split()))
"""What makes no decimal of "point": "point 45 degrees to the left", "point two: land"."""
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
    plain = _plain(text)
    tokens = [_Token(m.group(), m.start(), m.end()) for m in _TOKEN.finditer(plain)]
    return tuple(_with_borrowed_units(plain, _Reader(tokens).read()))


def _plain(text: str) -> str:
    """Returns the text in lower case with plain marks; each character stays where it is."""
    plain = _QUOTED.sub(lambda match: f"{match[0][:-1]},", text.translate(_MARKS)).lower()
    return plain if len(plain) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


_QUOTED = re.compile(r'(?<![\w"])"[^"]*"')
"""In quotes: the mark at the end of "shelf 4" is none of inches."""
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


SIDE = (
    r"(?:straight )?(?:(?P<forward>forwards?|fwd|ahead)|(?P<back>back(?:wards?)?)|(?P<up>up(?:wards?)?|higher)"
    r"|(?P<down>down(?:wards?)?|lower)|(?P<left>left|(?:anti|counter)[- ]?clockwise)|(?P<right>right|clockwise))"
)
"""Pattern of a side, as a group of its name."""
TURN_BEFORE = re.compile(
    r"\b(?:(?:turn|rotate|spin|pivot|yaw|swivel|twist|pan|swing)(?:ing)?"
    rf"(?: (?:to (?:the|your) )?{SIDE})?|(?:(?:anti|counter)[- ]?)?clockwise),? (?:by )?$"
)
"""What stands before an amount by which to turn; the last group is the side, if it is said."""
_CLAUSE_ENDS = r"\s*(?:$|[,.;:!?]|(?:and|then|or|please|to|again|(?:of )?(?:them|those)|will do|is enough|it is)\b)"
_WAY_BEFORE = re.compile(
    rf"(?:^|\b(?!(?:the|its?|my|your|one|which|that)\b)\w+ |[^\w\s] ?){SIDE},? (?:by |for )?(?:another )?$"
)
_WAY_BEHIND = re.compile(rf" (?:to (?:the|your) )?{SIDE}(?={_CLAUSE_ENDS})")
_MENDED = re.compile(
    r"\b(?:make (?:it|that)|(?:(?:no|or)(?:,? rather)?|actually|i mean|sorry|nope|rather|correction),?|wait,)"
    r"(?: only| just)? $"
)
_NO_NOUN = re.compile(_CLAUSE_ENDS)
_ANOTHER = re.compile(
    r"\b(?:(?P<TIME>wait|hold(?: it| on)?|hover|pause|stay|rest|(?:give|leave) it)|(?P<LENGTH>go|fly|move|come)"
    r"|(?P<ANGLE>turn|rotate|spin))(?: for| by)? another $"
)
"""What stands before a number that has the unit of the last amount of a kind: "wait another five"."""
_COUNT_OF = re.compile(r"(?<!\bthe )\bcount of $")
_ANGLES = (45.0, 90.0, 180.0, 270.0, 360.0)
_DO_A = re.compile(
    r"\b(?:do|doing|make|making|pull|turn|spin|take|(?:give|hang)(?: me| us)?) (?:an?|one|another) (?:\w+ )?$"
)
_SPIN = re.compile(rf"(?:{_CLAUSE_ENDS}| (?:with|while|spin|at the end|n)\b| (?:to (?:the|your) )?{SIDE})")


def _with_borrowed_units(text: str, read: Iterable[tuple[Quantity, float]]) -> Iterator[Quantity]:
    """Yields the amounts, those without a unit in that of the one before where they have it from there.

    So do a number with a side ("one metre up, two forward"), one that takes another one back ("two metres, no, make
    it three"), and one that is added ("wait five seconds, then wait another ten").

    Args:
        text: In lower case.
        read: Each amount with the size of its unit.
    """
    units: dict[str, tuple[QuantityKind, float]] = {}  # the last one of each kind
    last, end = (QuantityKind.COUNT, 1.0), 0
    for said, factor in read:
        unit = said.kind, factor
        if said.kind is QuantityKind.COUNT and said.value > 0 and text[end : said.start].strip():
            before, behind = text[max(0, said.start - 40) : said.start], text[said.end : said.end + 40]
            stands_alone = _NO_NOUN.match(behind) is not None
            has_side = stands_alone and _WAY_BEFORE.search(before) is not None
            has_side |= _WAY_BEHIND.match(behind) is not None and not before.endswith("the ")
            has_side &= TURN_BEFORE.search(before) is None
            another = _ANOTHER.search(before) if stands_alone and not has_side else None
            kind = "LENGTH" if has_side else another and another.lastgroup
            lent = units.get(kind or "")
            if lent and said.value * lent[1] <= _MOST_BORROWED:
                unit = lent
            elif stands_alone and _MENDED.search(before):
                unit = last
            elif stands_alone and _COUNT_OF.search(before):
                unit = (QuantityKind.TIME, 1.0)
            elif said.value in _ANGLES and _DO_A.search(before) and _SPIN.match(behind):
                unit = (QuantityKind.ANGLE, 1.0)
        yield said if unit[0] is said.kind else replace(said, kind=unit[0], value=said.value * unit[1])
        last, end = unit, said.end
        units[unit[0].name] = unit


class _Reader:
    """Reads amounts from left to right."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def read(self) -> Iterator[tuple[Quantity, float]]:
        """Yields each amount, with the size of its unit in that of its kind."""
        while self._at < len(self._tokens):
            start = self._at
            quantity = self._quantity()
            if quantity is None:
                self._at = start + 1
            else:
                yield quantity

    def _word(self, ahead: int = 0) -> str:
        index = self._at + ahead
        return self._tokens[index].text if 0 <= index < len(self._tokens) else ""

    def _quantity(self) -> tuple[Quantity, float] | None:
        """Reads one amount and the size of its unit; None, with the place undefined, if none begins here."""
        start = self._at
        number = 1.0 if self._is_another() else self._number()
        if number is None:
            return None
        is_digits = self._tokens[self._at - 1].is_digits
        kind, factor = QuantityKind.COUNT, 1.0
        self._skip(_MORE)
        self._skip(_OF_A)
        unit = self._word()
        if unit in UNIT and self._word(1) in ("/", "per"):
            return None  # a speed
        is_word = self._is_in_front() or self._is_size()
        if unit in (UNIT if is_digits else _SPOKEN_UNITS) and not is_word:
            if unit in _TURNS and self._tokens[self._at - 1].text in _ARTICLES and self._at == start + 1:
                return None  # "make a turn": by how much is not said
            kind, factor = UNIT[unit]
            if unit in _TURNS and number >= _SMALLEST_ANGLE:
                factor = 1.0
            self._at += 1
        elif self._tokens[self._at - 1].text in _ARTICLES | _EMPHASIS:
            return None  # "a chair"
        value = number * factor
        if kind is not QuantityKind.COUNT:
            value += self._rest(unit, factor)
        return Quantity(kind, value, self._tokens[start].start, self._tokens[self._at - 1].end), factor

    def _is_size(self) -> bool:
        """Whether a unit is the beginning of a word: "4 M8 bolts"."""
        if self._at + 1 >= len(self._tokens):
            return False
        number, unit, behind = self._tokens[self._at - 1 : self._at + 2]
        return behind.is_digits and behind.start == unit.end and number.end < unit.start

    def _is_another(self) -> bool:
        """Whether a unit begins here of which one is meant: "another metre", "an extra foot", "every metre"."""
        is_more = self._word(-1) in _MORE and self._word(-2) in _ARTICLES
        is_each = self._word(-1) in _EACH and (self._word(-1) == "another" or self._word(1) in _BEHIND_EACH)
        return (is_more or is_each) and self._word() in _SPOKEN_UNITS - _TURNS

    def _is_in_front(self) -> bool:
        """Whether "in" is no inch here: "1 m 80 in front", "shelf 4 in aisle 3"."""
        return self._word() == "in" and self._word(1) not in _BEHIND_INCHES

    def _unit(self, ahead: int = 0) -> str:
        """Returns the unit that follows, maybe behind "of a"; empty if none does."""
        while self._word(ahead) in _OF_A:
            ahead += 1
        return self._word(ahead) if self._word(ahead) in UNIT else ""

    def _skip(self, words: frozenset[str]) -> None:
        """Goes past filling words if a unit follows them."""
        ahead = 0
        while self._word(ahead) in words:
            ahead += 1
        if self._word(ahead) in _SPOKEN_UNITS:
            self._at += ahead

    def _rest(self, unit: str, factor: float) -> float:
        """Reads what may follow a unit: "and a half", "one metre twenty", "two foot six"."""
        length, part = self._and_a_part()
        if length and self._unit(length) not in _SPOKEN_UNITS:  # not "and a half turn", "and a third of a full turn"
            self._at += length
            return part * factor
        before = self._at
        smaller = 1.0 if unit in _METRES else _SMALLER.get(unit)
        if smaller is None:
            return 0.0
        self._at += self._word() == "and"
        number = self._cardinal() if self._word() not in _ARTICLES else None
        follows = self._word()
        if number is not None and 0 < number * smaller < factor and number == int(number):
            own = UNIT.get(follows) if not self._is_in_front() else None
            if own is not None and own[0] is QuantityKind.LENGTH and own[1] < factor:
                self._at += 1
                return number * own[1]
            is_spoken = unit not in _METRES or number >= 10
            is_counted = follows == "times" or (follows == "more" and self._word(1) == "times")
            if is_spoken and not is_counted and (own is None or follows == "turn"):
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
            return 1.0 if self._word() in UNIT else None
        is_feet = self._word() == "too" and self._word(1) in ("foot", "feet")
        if self._word() in _MISHEARD and (is_feet or self._word(1) in _BEHIND_MISHEARD):
            self._at += 1
            return _MISHEARD[self._word(-1)]
        return self._with_half(self._cardinal())

    def _with_half(self, number: float | None) -> float | None:
        """Reads "and a half" behind a number."""
        length, part = self._and_a_part()
        if number is None or not length or (number > 2 and self._word(length) == "turn"):
            return number  # "forward sixty five and a half turn"
        self._at += length
        return number + part

    def _and_a_part(self) -> tuple[int, float]:
        """Returns how many words "and a half", "and three quarters" takes here, and what it adds; 0 if none."""
        if self._word() != "and":
            return 0, 0.0
        is_counted = self._word(1) in _ARTICLES or self._word(1) in _ONES
        part = _FRACTIONS.get(self._word(1 + is_counted))
        return (2 + is_counted, part * _ONES.get(self._word(1), 1.0)) if part else (0, 0.0)

    def _fraction(self) -> float | None:
        """Reads "half", "a quarter", "three quarters", "half a dozen", "point five"; None if there is none."""
        before = self._at
        if self._word(-1) not in _DETERMINERS and (part := self._decimals()) and self._unit() not in _POINTED_BY:
            return part
        self._at = before
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
        if not self._unit():
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
            part = (self._part() or self._decimals()) if token.isdigit() else 0.0
            return whole + part if part else whole * self._scale()
        total = self._words()
        if total is None:
            return None
        return total + self._decimals()

    def _part(self) -> float:
        """Reads the fraction of a mixed number, "1 1/2" or "1½"; 0 if there is none."""
        above, slash, below = self._word().partition("/")
        part = _SIGNS.get(above, float(above) / float(below) if above and slash and float(below) else 0.0)
        self._at += 0 < part < 1
        return part if part < 1 else 0.0

    def _decimals(self) -> float:
        """Reads "point two five", "point 25"; 0 if there is none."""
        digits, ahead = "", 1
        while self._word() == "point" and (more := _as_decimals(self._word(ahead))):
            digits, ahead = digits + more, ahead + 1
        self._at += ahead if digits else 0
        return float(f"0.{digits}") if digits else 0.0

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

        Two digits without a zero may be two numbers ("two one metre steps"), but not before a plural ("two five
        degrees"), unless one follows the other ("two, three seconds").
        """
        digits: list[float] = []
        while self._word(len(digits)) not in _ARTICLES and _ONES.get(self._word(len(digits)), 10) < 10:
            digits.append(_ONES[self._word(len(digits))])
        if len(digits) != 2:
            return len(digits) if len(digits) > 2 else 0
        is_plural = self._word(2) in UNIT and len(self._word(2)) > 2 and self._word(2).endswith("s")
        is_one = is_plural and digits[1] != digits[0] + 1 and self._word(-1) not in _EACH
        return 2 if 0 in digits or is_one else 0


def _as_decimals(word: str) -> str:
    """Returns how a word behind a decimal point is written: "five", "twenty", "25"; empty if it is no number."""
    return word if word.isdecimal() else _DECIMALS.get(word, "")


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
