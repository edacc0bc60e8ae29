# SPDX-License-Identifier: Apache-2.0
"""Measures an engine: which steps, within how many seconds, and the engine profile that is fitted to them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from llm_planner.core.interfaces import Backend, Clock
from llm_planner.prediction.fit import fit_costs, fit_first_steps, fit_move, measured, noise_ratio
from llm_planner.prediction.prober import PROBE, ROUNDS, Prober
from llm_planner.prediction.profile import EngineProfile
from llm_planner.prediction.samples import StepKind, StepSample

PROBED_TOKENS = 32
"""Of the prompt that says roughly how quick an engine is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """What is measured; sizes that an engine cannot hold are left out.

    Attributes:
        decodes: Sequences that decode, and tokens of each.
        prompts: Tokens that are computed, and tokens cached before them.
        moves: Tokens whose KV is offloaded and restored.
        evictions: Tokens of a prompt of which half is evicted.
        alongside: Prompts alongside decoding sequences: tokens of the prompt, sequences, tokens of each.
    """

    decodes: tuple[tuple[int, int], ...]
    prompts: tuple[tuple[int, int], ...]
    moves: tuple[int, ...]
    evictions: tuple[int, ...]
    alongside: tuple[tuple[int, int, int], ...]


QUICK = Grid(
    decodes=((1, 32), (1, 1024), (8, 64), (1, 256), (16, 64), (4, 256), (1, 2048)),
    prompts=((64, 0), (256, 0), (1024, 0), (128, 0), (512, 0), (64, 512), (2048, 0), (256, 512)),
    moves=(128, 1024),
    evictions=(512, 128, 1024),
    alongside=((128, 4, 64),),
)
"""Seconds. Those of each kind come first that tell most of its coefficients: there may be no time for the others."""
QUICK_WARM_STEPS = 4
QUICK_DECODE_STEPS = 4
"""That are noted of one visit."""


class Visit(NamedTuple):
    """One size to measure.

    Attributes:
        rank: Place among the sizes of its kind.
        num_tokens: Of prompts that it computes.
        num_steps: Decode steps.
        num_rows: Sequences of such a step.
        run: Measures it.
    """

    rank: int
    num_tokens: int
    num_steps: int
    num_rows: int
    run: Callable[[], None]

    def expected_s(self, token_s: float, step_s: float) -> float:
        """Returns the seconds it takes, by those of a prompt's token and of a decode step with one sequence."""
        return self.num_tokens * token_s + self.num_steps * max(step_s, self.num_rows * token_s)


def measure_within(prober: Prober, limit_s: float, clock: Clock) -> tuple[Sequence[StepSample], bool]:
    """Returns the samples that can be had within ``limit_s``, and whether prompts are hidden (``hides_prompts``).

    The quick grid, those sizes first that tell most. A size that would not be done in time at the speed of the longest
    prompt so far is left out, so that a slow engine is measured at fewer sizes; of one that is slower still nothing is
    returned. Further rounds repeat the sizes, as far as there is time for that.

    Args:
        prober: Of an engine that does nothing else meanwhile; ``ROUNDS`` repeats.
        limit_s: Seconds.
        clock: Tells how long it has taken so far.
    """
    until_s = clock.now_s() + limit_s
    num_tokens = min(PROBED_TOKENS, _room_tokens(prober) // 2)
    prober.probe(num_tokens)
    prober.samples.clear()  # of a cold engine
    if clock.now_s() > until_s - limit_s / 2:
        return [], False
    prompt_s, step_s = prober.probe(num_tokens)
    token_s = prompt_s / num_tokens
    grid = held(QUICK, prober)
    visits = visits_of(grid, prober, QUICK_DECODE_STEPS)
    visited: list[Visit] = []
    for visit in sorted(visits, key=lambda v: v.rank):
        if clock.now_s() + visit.expected_s(token_s, step_s) > until_s:
            continue
        visit.run()
        visited.append(visit)
        longest = max((s for s in prober.samples if s.kind is StepKind.PREFILL), key=lambda s: s.num_tokens)
        token_s = longest.duration_s / longest.num_tokens
    for visit in visited * (ROUNDS - 1):
        if clock.now_s() + visit.expected_s(token_s, step_s) <= until_s:
            visit.run()
    if any(s.kind is StepKind.DECODE and s.point != PROBE for s in prober.samples):
        prober.samples[:] = [s for s in prober.samples if (s.kind, s.point) != (StepKind.DECODE, PROBE)]
    alongside_s = prober.num_repeats * token_s * sum(2 * n + b * k for n, b, k in grid.alongside)
    has_time = bool(grid.alongside) and clock.now_s() + alongside_s <= until_s
    return prober.samples, has_time and hides_prompts(prober, grid.alongside)


def is_enough(samples: Collection[StepSample]) -> bool:
    """Returns whether a profile can be fitted to samples: a decode step, and prompts of two lengths."""
    lengths = {kind: {s.num_tokens for s in samples if s.kind is kind} for kind in (StepKind.DECODE, StepKind.PREFILL)}
    return len(lengths[StepKind.DECODE]) >= 1 and len(lengths[StepKind.PREFILL]) >= 2


def _room_tokens(prober: Prober) -> int:
    info = prober.backend.info
    return min(info.max_model_len, info.num_kv_blocks * info.block_size)


def held(grid: Grid, prober: Prober) -> Grid:
    """Returns the part of a grid that fits into an engine, and that it can do."""
    info, room_tokens = prober.backend.info, _room_tokens(prober)
    host_tokens = info.num_host_blocks * info.block_size
    grown = 4 * prober.warm_steps + prober.repeats_per_round
    return Grid(
        decodes=tuple(
            (b, k)
            for b, k in grid.decodes
            if k + grown < room_tokens and b * ((k + grown) // info.block_size + 1) <= info.num_kv_blocks
        ),
        prompts=tuple((n, k) for n, k in grid.prompts if n + k < room_tokens),
        moves=tuple(n for n in grid.moves if n < room_tokens and n <= host_tokens) if info.can_offload else (),
        evictions=tuple(n for n in grid.evictions if n + 1 < room_tokens) if info.can_evict else (),
        alongside=tuple(
            (n, b, k)
            for n, b, k in grid.alongside
            if n + b * (k + info.block_size) < info.num_kv_blocks * info.block_size
        ),
    )


def visits_of(grid: Grid, prober: Prober, num_steps: int) -> list[Visit]:
    """Returns one visit for each size of a grid.

    Args:
        grid: Of sizes that the engine can hold.
        prober: Measures them.
        num_steps: Decode steps of one visit that are noted.
    """
    repeats = prober.repeats_per_round
    all_steps = prober.warm_steps + num_steps
    return [
        *(
            Visit(rank, repeats * (n + k), 0, 0, partial(prober.prefill, rank, n, k))
            for rank, (n, k) in enumerate(grid.prompts)
        ),
        *(
            Visit(rank, b * k, all_steps, b, partial(prober.decode, rank, b, k, num_steps))
            for rank, (b, k) in enumerate(grid.decodes)
        ),
        *(Visit(rank, repeats * n, 0, 0, partial(prober.move, rank, n)) for rank, n in enumerate(grid.moves)),
        *(
            Visit(rank, 2 * repeats * n, 2 * repeats, 1, partial(prober.evict, rank, n))
            for rank, n in enumerate(grid.evictions)
        ),
    ]


def hides_prompts(prober: Prober, sizes: Sequence[tuple[int, int, int]]) -> bool:
    """Returns whether a prompt with decoding sequences takes as long as the longer of the two, not as their sum.

    Args:
        prober: Of the engine.
        sizes: As ``Grid.alongside`` has them, that the engine can hold.
    """
    steps = [prober.alongside(*size) for size in sizes]
    return sum(
        both_s < (max(prompt_s, decode_s) + prompt_s + decode_s) / 2 for prompt_s, decode_s, both_s in steps
    ) * 2 > len(steps)


def make_profile(
    samples: Sequence[StepSample],
    backend: Backend,
    name: str,
    description: str,
    *,
    hides_prompts: bool = True,
    measured_at: str = "",
) -> EngineProfile:
    """Returns the profile that fits the samples of an engine."""
    info = backend.info
    by_kind: Mapping[StepKind, list[StepSample]] = {kind: [s for s in samples if s.kind is kind] for kind in StepKind}
    costs = fit_costs(samples)
    return EngineProfile(
        name=name,
        description=description,
        model=info.model,
        device=info.device,
        num_kv_blocks=info.num_kv_blocks,
        block_size=info.block_size,
        max_model_len=info.max_model_len,
        prefill=costs.prefill,
        decode=costs.decode,
        first_steps=fit_first_steps(costs, samples),
        resume=fit_move(by_kind[StepKind.RESTORE]),
        offload=fit_move(by_kind[StepKind.OFFLOAD]),
        evict=fit_move(by_kind[StepKind.EVICT]),
        noise_ratio=measured(noise_ratio(costs, samples)),
        hides_prompts=hides_prompts,
        measured_at=measured_at,
    )
