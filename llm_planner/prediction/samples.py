# SPDX-License-Identifier: Apache-2.0
"""Raw measurements of an engine's steps, kept with the profile that is fitted to them."""

import csv
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from enum import Enum
from pathlib import Path


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
