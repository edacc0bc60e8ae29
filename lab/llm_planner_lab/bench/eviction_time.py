# SPDX-License-Identifier: Apache-2.0
"""Times decode steps of the torch engine against the share of KV that was evicted."""

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from llm_planner.core.eviction import num_removed_tokens
from llm_planner.core.step import SchedulerOutput, StepOutput
from llm_planner.core.step import Sequence as Generated
from llm_planner.engine.backend import TorchBackend
from llm_planner_lab.bench.turns import rotated


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Milliseconds of a decode step behind a prompt of random tokens; medians over all rounds.

    Attributes:
        kv_tokens: Of each sequence, after the eviction.
        decode_ms: A step in which each sequence gets a token.
        evict_ms: How much longer the step is in which the eviction happens.
    """

    prompt_tokens: int
    num_seqs: int
    eviction_ratio: float
    kv_tokens: int
    decode_ms: float
    evict_ms: float


def time_steps(
    model: Path,
    method: str,
    *,
    prompt_tokens: int,
    num_seqs: int,
    ratios: Sequence[float],
    rounds: int,
    num_steps: int = 8,
) -> list[StepTime]:
    """Returns the time of a step for each ratio.

    The ratios take turns, and each round begins with another one, so that all see the same machine.
    """
    blocks = num_seqs * (-(-(prompt_tokens + num_steps + 3) // 16))
    backend = TorchBackend(model, num_kv_blocks=blocks, eviction_method=method)
    rng = random.Random(0)
    prompts = [tuple(rng.randrange(3, 250) for _ in range(prompt_tokens)) for _ in range(num_seqs)]
    sequences = [
        Generated(request_id=str(index), prompt_token_ids=prompt, evictable=((0, prompt_tokens),))
        for index, prompt in enumerate(prompts)
    ]
    removed = {ratio: num_removed_tokens(sequences[0], ratio) for ratio in ratios}
    decode_s: dict[float, list[float]] = {ratio: [] for ratio in ratios}
    evict_s: dict[float, list[float]] = {ratio: [] for ratio in ratios}
    for number in range(rounds + 1):  # the first one warms up
        for ratio in rotated(ratios, number):
            first_s, *others_s = _steps_s(backend, sequences, removed[ratio], num_steps)
            if number:
                decode_s[ratio] += others_s
                evict_s[ratio].append(first_s - statistics.median(others_s))
    backend.close()
    return [
        StepTime(
            prompt_tokens=prompt_tokens,
            num_seqs=num_seqs,
            eviction_ratio=ratio,
            kv_tokens=prompt_tokens - removed[ratio],
            decode_ms=1e3 * statistics.median(decode_s[ratio]),
            evict_ms=1e3 * statistics.median(evict_s[ratio]),
        )
        for ratio in ratios
    ]


def _steps_s(backend: TorchBackend, sequences: Sequence[Generated], num_removed: int, num_steps: int) -> list[float]:
    """Returns the seconds of decode steps behind a new prefill, the first of which evicts.

    A sequence that the model ends goes on behind another token, so that all steps have the same sequences.
    """
    ids = [sequence.request_id for sequence in sequences]
    prefill = {sequence.request_id: len(sequence.prompt_token_ids) for sequence in sequences}
    output = _execute(backend, SchedulerOutput(release=tuple(ids), new=tuple(sequences), num_scheduled_tokens=prefill))
    step = SchedulerOutput(num_scheduled_tokens=dict.fromkeys(ids, 1))
    evict = dict.fromkeys(ids, num_removed) if num_removed else {}
    seconds = []
    for number in range(num_steps + 1):
        insert = dict.fromkeys(output.finished, sequences[0].prompt_token_ids[:1])
        output = _execute(backend, replace(step, insert=insert, evict={} if number else evict))
        seconds.append(output.duration_s)
    return seconds


def _execute(backend: TorchBackend, scheduled: SchedulerOutput) -> StepOutput:
    output = backend.execute(scheduled)
    if output.failed:
        raise RuntimeError(f"the benchmark does not fit: {dict(output.failed)}")
    return output
