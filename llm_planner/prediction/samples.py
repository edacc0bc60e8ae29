# SPDX-License-Identifier: Apache-2.0
"""Raw measurements of an engine's steps, to which a profile is fitted."""

from dataclasses import dataclass
from enum import Enum


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
        num_seqs: Sequences in it, all alike; further tokens of one count as sequences. Of an average, no whole number.
        num_tokens: Tokens that it computed (or moved, or evicted), all sequences together.
        kv_tokens: Tokens in the caches before it, all sequences together; likewise.
        duration_s: How long it took; for an eviction, how much longer than the same step without it.
    """

    kind: StepKind
    point: int
    num_seqs: float
    num_tokens: int
    kv_tokens: float
    duration_s: float
