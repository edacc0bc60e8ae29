# SPDX-License-Identifier: Apache-2.0
"""Tables of measured throughput: CSV files in the format of LLM-Inference-Bench."""

import csv
import difflib
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from llm_planner.core.errors import ErrorCode, PlannerError

COLUMNS = (
    "Hardware",
    "Num of Hardware",
    "Framework",
    "Model",
    "Input Output Length",
    "Batch Size",
    "Latency",
    "Throughput",
)
MAX_COUNT = 10**9
MOST_OFF = 0.05
"""Throughput is tokens over latency, up to rounding; more than this apart, one of them is in another unit."""


class Combination(NamedTuple):
    """What serves what: the unit that is either seen in training or not."""

    hardware: str
    num_devices: int
    framework: str
    model: str

    def __str__(self) -> str:
        return f"{self.model} on {self.num_devices} x {self.hardware} with {self.framework}"


def require_names(
    combination: Combination, hardware: Collection[str], frameworks: Collection[str], models: Collection[str]
) -> None:
    """Makes sure that the parts of a combination exist.

    Raises:
        PlannerError: INVALID_CONFIG with the nearest known names of every part that does not.
    """
    problems = [
        f"no {what} {name!r} is known; {_nearest(name, known)}"
        for what, name, known in (
            ("hardware", combination.hardware, hardware),
            ("framework", combination.framework, frameworks),
            ("model", combination.model, models),
        )
        if name not in known
    ]
    if problems:
        raise PlannerError(ErrorCode.INVALID_CONFIG, "; ".join(problems))


def _nearest(name: str, known: Collection[str]) -> str:
    by_lower = {other.lower(): other for other in sorted(known)}
    nearest = [by_lower[found] for found in difflib.get_close_matches(name.lower(), by_lower, 3, 0.4)]
    return f"the nearest are {', '.join(nearest)}" if nearest else f"known are {', '.join(by_lower.values())}"


class Workload(NamedTuple):
    """The load: sequences at once, each with a prompt and a response of given lengths in tokens."""

    input_tokens: int
    output_tokens: int
    batch_size: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured run.

    Attributes:
        combination: What ran.
        length_tokens: Of each prompt and of each response: the format knows one number for both.
        batch_size: As the source reports it. llama.cpp's is how many prompt tokens it computes at once; its rows are of
            one sequence.
        latency_s: From the first prompt to the last token.
        throughput_tokens_per_s: Prompt and response tokens over latency, as the source reports it.
    """

    combination: Combination
    length_tokens: int
    batch_size: int
    latency_s: float
    throughput_tokens_per_s: float

    @property
    def workload(self) -> Workload:
        """What was asked."""
        return Workload(self.length_tokens, self.length_tokens, self.batch_size)


def read_table(path: Path) -> Sequence[Measurement]:
    """Returns the measurements of a CSV file.

    Raises:
        PlannerError: INVALID_FILE with the file and the line that cannot be used: a missing column, something that is
            no number (units belong into no cell), a value that is negative, zero or not finite, or a throughput that
            does not agree with the latency.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _invalid(path, f"cannot be read: {error}") from error
    rows = csv.DictReader(lines)
    missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
    if missing:
        raise _invalid(path, f"line 1: columns {', '.join(missing)} are missing; the header is {','.join(COLUMNS)}")
    try:
        measurements = [_measurement(path, rows.line_num, row) for row in rows]
    except csv.Error as error:
        raise _invalid(path, f"cannot be read as CSV: {error}") from error
    if not measurements:
        raise _invalid(path, "holds no measurement; add rows, for example with llm-planner profile --table")
    return measurements


def write_table(measurements: Iterable[Measurement], path: Path) -> None:
    """Adds measurements to a CSV file, with a header if it is new."""
    is_new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow(COLUMNS)
        for m in measurements:
            numbers = (f"{m.latency_s:.6g}", f"{m.throughput_tokens_per_s:.6g}")
            writer.writerow([*m.combination, m.length_tokens, m.batch_size, *numbers])


def _measurement(path: Path, number: int, row: dict[str, str | None]) -> Measurement:
    def text(name: str) -> str:
        value = (row[name] or "").strip()
        if not value:
            raise _invalid(path, f"line {number}: {name} is empty")
        return value

    def amount(name: str) -> float:
        try:
            value = float(text(name))
        except ValueError as error:
            problem = f"line {number}: {name} is {text(name)!r}; it must be a plain number, in s or tokens/s"
            raise _invalid(path, problem) from error
        if not 0.0 < value < math.inf:
            raise _invalid(path, f"line {number}: {name} is {text(name)}; it must be a finite number above 0")
        return value

    def count(name: str) -> int:
        value = amount(name)
        if value != int(value) or value > MAX_COUNT:
            raise _invalid(
                path, f"line {number}: {name} is {text(name)}; it must be a whole number, not over {MAX_COUNT}"
            )
        return int(value)

    measurement = Measurement(
        Combination(text("Hardware"), count("Num of Hardware"), text("Framework"), text("Model")),
        count("Input Output Length"),
        count("Batch Size"),
        amount("Latency"),
        amount("Throughput"),
    )
    _check_units(path, number, measurement)
    return measurement


def _check_units(path: Path, number: int, m: Measurement) -> None:
    """Checks that throughput is tokens over latency, of the whole batch or of one sequence."""
    one = 2 * m.length_tokens / m.latency_s
    if min(abs(m.throughput_tokens_per_s / (one * count) - 1.0) for count in (1, m.batch_size)) > MOST_OFF:
        raise _invalid(
            path,
            f"line {number}: a throughput of {m.throughput_tokens_per_s:g} does not agree with a latency of "
            f"{m.latency_s:g}, which makes {one * m.batch_size:g} tokens/s; give seconds and tokens per second",
        )


def _invalid(path: Path, problem: str) -> PlannerError:
    return PlannerError(ErrorCode.INVALID_FILE, f"throughput table {path}: {problem}")
