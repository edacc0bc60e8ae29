# SPDX-License-Identifier: Apache-2.0
"""Jobs of an experiment: prompt and output lengths of a table, and the intervals that are predicted for them."""

import csv
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.length import LengthInterval

MAX_TOKENS = 10**9
COLUMNS = (("ContextTokens", "GeneratedTokens"), ("prompt_tokens", "output_tokens"))
"""Names of the two lengths: as in the Azure trace, and ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueJob:
    """A request with its true output length.

    Attributes:
        prompt_tokens: s.
        output_tokens: o, >= 1.
        arrival_s: When it comes.
    """

    prompt_tokens: int
    output_tokens: int
    arrival_s: float = 0.0

    @property
    def peak_tokens(self) -> int:
        """The memory that it needs alone."""
        return self.prompt_tokens + self.output_tokens


def read_jobs(path: Path) -> list[TrueJob]:
    """Returns the jobs of a CSV file with one of ``COLUMNS``.

    Raises:
        PlannerError: INVALID_FILE, naming the columns that are missing, or the line that holds no lengths.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return _parse(csv.DictReader(file), path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PlannerError(ErrorCode.INVALID_FILE, f"{path} cannot be read as CSV: {error}") from error


def _parse(reader: "csv.DictReader[str]", path: Path) -> list[TrueJob]:
    header = reader.fieldnames or []
    names = next((pair for pair in COLUMNS if set(pair) <= set(header)), None)
    if names is None:
        known = " or ".join(", ".join(pair) for pair in COLUMNS)
        raise PlannerError(ErrorCode.INVALID_FILE, f"{path} has the columns {', '.join(header)}; it takes {known}")
    jobs = []
    for row in reader:
        where = f"{path}, line {reader.line_num}"
        prompt = _whole(row[names[0]], names[0], 0, where)
        jobs.append(TrueJob(prompt_tokens=prompt, output_tokens=_whole(row[names[1]], names[1], 1, where)))
    if not jobs:
        raise PlannerError(ErrorCode.INVALID_FILE, f"{path} holds no jobs")
    return jobs


def _whole(text: str | None, column: str, least: int, where: str) -> int:
    try:
        number = float(text or "")
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and least <= number <= MAX_TOKENS and number == int(number)):
        problem = f"{where}: {column} is {text!r}; it takes a whole number of at least {least} and at most {MAX_TOKENS}"
        raise PlannerError(ErrorCode.INVALID_FILE, problem)
    return int(number)


def draw(jobs: Sequence[TrueJob], num_jobs: int, rng: random.Random) -> list[TrueJob]:
    """Returns a random subset.

    Raises:
        PlannerError: INVALID_CONFIG if there are not as many.
    """
    if num_jobs > len(jobs):
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"{num_jobs} jobs asked for, the trace has {len(jobs)} that fit")
    return rng.sample(list(jobs), num_jobs)


Prediction = Callable[[int], LengthInterval]
"""From a true output length to the interval that is predicted for it."""


def parse_interval(text: str) -> Prediction:
    """Returns what predicts: ``1:1000`` the same for all, ``bins:100`` classes, ``relative:0.1`` around the truth.

    Section 6 of the paper: experiments 1, 2 and 3.

    Raises:
        PlannerError: INVALID_CONFIG if it is none of these, or an interval that cannot be.
    """
    kind, _, value = text.partition(":")
    number = _number(value)
    if kind == "bins" and number >= 1 and number == int(number):
        return lambda output: _bin(output, int(number))
    if kind == "relative" and 0 <= number < 1:
        return lambda output: _around(output, number)
    lower = _number(kind)
    if lower >= 1 and number >= lower and lower == int(lower) and number == int(number):
        interval = LengthInterval(int(lower), int(number))
        return lambda _: interval
    raise PlannerError(
        ErrorCode.INVALID_CONFIG,
        f"interval {text!r}: it takes LOWER:UPPER with 1 <= LOWER <= UPPER, bins:WIDTH with a whole WIDTH >= 1, or "
        "relative:X with 0 <= X < 1",
    )


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return -1.0
    return number if math.isfinite(number) else -1.0


def _bin(output: int, width: int) -> LengthInterval:
    first = (output - 1) // width * width
    return LengthInterval(first + 1, first + width)


def _around(output: int, share: float) -> LengthInterval:
    """Returns ``[(1 - x) o, (1 + x) o]``, in whole tokens that hold it."""
    lower, upper = (1.0 - share) * output, (1.0 + share) * output
    return LengthInterval(max(1, math.floor(lower + 1e-9)), math.ceil(upper - 1e-9))
