# SPDX-License-Identifier: Apache-2.0
"""Raw measurements of an engine's steps, kept with the profile that is fitted to them."""

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from enum import Enum
from pathlib import Path

from llm_planner.core.errors import ErrorCode, PlannerError

MAX_TOKENS = 10**12


class StepKind(Enum):
    """What a measured step did, and nothing else."""

    PREFILL = "prefill"
    DECODE = "decode"
    FIRST_DECODE = "first_decode"  # shortly behind a prompt; its point says how many steps
    OFFLOAD = "offload"
    RESTORE = "restore"
    EVICT = "evict"


@dataclass(frozen=True, slots=True)
class StepSample:
    """One measured step.

    Attributes:
        point: Steps of the same point repeat each other.
        num_seqs: Sequences in it, all alike.
        num_tokens: Tokens that it computed (or moved, or evicted), all sequences together.
        kv_tokens: Tokens in the caches before it, all sequences together.
        duration_s: How long it took; for an eviction, how much longer than the same step without it.
    """

    kind: StepKind
    point: int
    num_seqs: int
    num_tokens: int
    kv_tokens: int
    duration_s: float


def write_samples(samples: Iterable[StepSample], path: Path) -> None:
    """Writes samples as CSV, a header first."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(StepSample))
        for sample in samples:
            kind, *numbers, duration_s = astuple(sample)
            writer.writerow([kind.value, *numbers, f"{duration_s:.6g}"])


def read_samples(path: Path) -> Sequence[StepSample]:
    """Returns the samples of a CSV file.

    Raises:
        PlannerError: INVALID_FILE, with the file and the line that cannot be read.
    """
    names = [field.name for field in fields(StepSample)]
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PlannerError(ErrorCode.INVALID_FILE, f"samples {path} cannot be read: {error}") from error
    if not lines or lines[0].split(",") != names:
        raise PlannerError(ErrorCode.INVALID_FILE, f"samples {path}: the first line must be {','.join(names)}")
    try:
        rows = list(csv.reader(lines[1:]))
    except csv.Error as error:
        raise PlannerError(ErrorCode.INVALID_FILE, f"samples {path} cannot be read as CSV: {error}") from error
    return [_sample(path, number, row) for number, row in enumerate(rows, start=2)]


def _sample(path: Path, number: int, row: list[str]) -> StepSample:
    try:
        kind, point, num_seqs, num_tokens, kv_tokens, duration_s = row
        sample = StepSample(
            StepKind(kind), int(point), int(num_seqs), int(num_tokens), int(kv_tokens), float(duration_s)
        )
    except ValueError as error:
        raise PlannerError(ErrorCode.INVALID_FILE, f"samples {path}, line {number}: {error}") from error
    numbers = (sample.num_seqs, sample.num_tokens, sample.kv_tokens)
    is_valid = sample.num_seqs > 0 and sample.num_tokens > 0 and sample.kv_tokens >= 0 and max(numbers) <= MAX_TOKENS
    if not (is_valid and 0.0 < sample.duration_s < math.inf):
        raise PlannerError(ErrorCode.INVALID_FILE, f"samples {path}, line {number}: a number is out of range")
    return sample
