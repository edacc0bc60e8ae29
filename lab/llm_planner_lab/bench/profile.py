# SPDX-License-Identifier: Apache-2.0
"""``llm-planner profile``: measures an engine, step by step, and writes its profile and the raw measurements."""

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from llm_planner.core.interfaces import Backend
from llm_planner.core.step import SchedulerOutput, StepOutput
from llm_planner.core.step import Sequence as TokenSequence
from llm_planner.prediction.fit import fit_costs, fit_move
from llm_planner.prediction.profile import EngineProfile
from llm_planner.prediction.samples import StepKind, StepSample
from llm_planner.robots.timing import Source

BATCH_SIZES = (1, 2, 4, 8, 16)
KV_LENGTHS = (32, 128, 256, 512, 1024)
PROMPT_LENGTHS = (32, 64, 128, 192, 256, 384, 512, 768, 1024)
MAX_BATCH_KV_TOKENS = 8192
"""Caches of a batch are no longer, all sequences together: they take long to fill on a CPU."""
CACHED_LENGTHS = (0, 512)
MOVED_LENGTHS = (32, 128, 512, 1024)
EVICTED_LENGTHS = (128, 256, 512, 1024)
EVICTED_SHARE = 0.5
"""How much of a prompt is evicted to be timed. Most of the time goes into looking at all of it, whatever the share."""
LEAST_EVICTION_S = 1e-5
"""A shorter difference between two steps is noise."""
BESIDE = ((32, 8, 64), (128, 8, 64), (128, 4, 64))
"""Prompts alongside decoding sequences: tokens of the prompt, sequences, tokens of each."""
EMPTY: Mapping[str, int] = {}
WARM_STEPS = 8
"""Decode steps behind a prompt that are not noted. The prompt has emptied the processor's caches of what a step reads:
on a CPU the first takes 1.6 times as long as the later ones, the second 1.2 times, the eighth 1.0 times."""
ROUNDS = 3
"""Each round measures every point once: a drift of the machine meets all points alike."""


@dataclass(slots=True)
class Prober:
    """Drives a backend through single steps and notes what each took.

    Args:
        backend: The engine.
        num_repeats: Steps per point, at least one in each round.
        seed: Of the random prompts: timing does not depend on what they say.
        vocabulary: Token ids are drawn below this.
        grammar: Constrains what is decoded, as it does in service; None for free text.
    """

    backend: Backend
    num_repeats: int = 9
    seed: int = 0
    vocabulary: int = 100
    grammar: str | None = None
    samples: list[StepSample] = field(default_factory=list)
    _num_requests: int = 0
    _rng: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self._rng.seed(self.seed)

    @property
    def repeats_per_round(self) -> int:
        """Steps of a point in one round."""
        return -(-self.num_repeats // ROUNDS)

    def prefill(self, point: int, num_tokens: int, num_cached: int = 0) -> None:
        """Measures a prompt's last ``num_tokens``, behind ``num_cached`` that are computed already, alone."""
        for _ in range(self.repeats_per_round):
            (name,), output = self._start(1, num_cached + num_tokens, first_chunk=num_cached or num_tokens)
            if num_cached:
                output = self.backend.execute(SchedulerOutput(num_scheduled_tokens={name: num_tokens}))
            self._note(StepKind.PREFILL, point, 1, num_tokens, num_cached, output.duration_s)
            self._release([name])

    def decode(self, point: int, num_seqs: int, kv_len: int, num_steps: int = 0) -> None:
        """Measures steps that decode ``num_seqs`` sequences with ``kv_len`` tokens each, a few more as they grow.

        A sequence that the model ends is replaced by another of the first length. Steps right behind a prompt are not
        noted (``WARM_STEPS``), unless sequences end so soon that there are no others.

        Args:
            point: Number of the point.
            num_seqs: Sequences.
            kv_len: Tokens of each.
            num_steps: That are noted; 0 for ``repeats_per_round``.
        """
        names, output = self._start(num_seqs, kv_len)
        lengths = dict.fromkeys(names, kv_len)
        num_left, num_cold, num_unnoted = num_steps or self.repeats_per_round, WARM_STEPS, 0
        while num_left:
            ended = [name for name in lengths if name in output.finished]
            self._release(ended)
            for name in ended:
                del lengths[name]
            if ended:
                lengths |= dict.fromkeys(self._start(len(ended), kv_len)[0], kv_len)
                num_cold = WARM_STEPS
            output = self.backend.execute(SchedulerOutput(num_scheduled_tokens=dict.fromkeys(lengths, 1)))
            if num_cold and num_unnoted < 4 * WARM_STEPS:
                num_cold, num_unnoted = num_cold - 1, num_unnoted + 1
            else:
                self._note(StepKind.DECODE, point, num_seqs, num_seqs, sum(lengths.values()), output.duration_s)
                num_left -= 1
            lengths = {name: length + 1 for name, length in lengths.items()}
        self._release(list(lengths))

    def move(self, point: int, num_tokens: int) -> None:
        """Measures offloading and restoring the KV of ``num_tokens``."""
        for _ in range(self.repeats_per_round):
            (name,), _ = self._start(1, num_tokens)
            for kind, step in (
                (StepKind.OFFLOAD, SchedulerOutput(offload=(name,))),
                (StepKind.RESTORE, SchedulerOutput(restore=(name,))),
            ):
                self._note(kind, point, 1, num_tokens, num_tokens, self.backend.execute(step).duration_s)
            self._release([name])

    def evict(self, point: int, num_tokens: int) -> None:
        """Measures how much longer the first decode step behind a prompt is if half of the prompt is evicted in it."""
        num_removed = int(EVICTED_SHARE * num_tokens)
        for _ in range(self.repeats_per_round):
            durations_s = []
            for evicted in (0, num_removed):
                (name,), output = self._start(1, num_tokens, evictable=((0, num_tokens),))
                if name not in output.finished:
                    evict = {name: evicted} if evicted else {}
                    output = self.backend.execute(SchedulerOutput(evict=evict, num_scheduled_tokens={name: 1}))
                    durations_s.append(output.duration_s)
                self._release([name])
            if len(durations_s) == 2:
                evict_s = max(LEAST_EVICTION_S, durations_s[1] - durations_s[0])
                self._note(StepKind.EVICT, point, 1, num_removed, num_tokens, evict_s)

    def beside(self, num_tokens: int, num_seqs: int, kv_len: int) -> tuple[float, float, float]:
        """Returns the median seconds of a step that computes a prompt, one that decodes, and one that does both.

        Args:
            num_tokens: Of the prompt.
            num_seqs: Sequences that decode.
            kv_len: Tokens of each of them.
        """
        prompt_s: list[float] = []
        decode_s: list[float] = []
        both_s: list[float] = []
        for _ in range(self.num_repeats):
            names, output = self._start(num_seqs, kv_len)
            steps = {name: 1 for name in names if name not in output.finished}
            output = self.backend.execute(SchedulerOutput(num_scheduled_tokens=steps))
            decode_s.append(output.duration_s)
            (prompt,), alone = self._start(1, num_tokens)
            prompt_s.append(alone.duration_s)
            self._release([prompt, *output.finished])
            steps = {name: 1 for name in steps if name not in output.finished}
            both_s.append(self._start(1, num_tokens, beside=steps)[1].duration_s)
            self._release([*names, f"probe-{self._num_requests - 1}"])
        return statistics.median(prompt_s), statistics.median(decode_s), statistics.median(both_s)

    def _note(
        self, kind: StepKind, point: int, num_seqs: int, num_tokens: int, kv_tokens: int, duration_s: float
    ) -> None:
        duration_s = max(duration_s, 1e-9)  # a move of a scripted engine may take no time
        self.samples.append(StepSample(kind, point, num_seqs, num_tokens, kv_tokens, duration_s))

    def _start(
        self,
        num_seqs: int,
        num_tokens: int,
        first_chunk: int = 0,
        beside: Mapping[str, int] = EMPTY,
        evictable: tuple[tuple[int, int], ...] = (),
    ) -> tuple[list[str], StepOutput]:
        names = [f"probe-{self._num_requests + index}" for index in range(num_seqs)]
        self._num_requests += num_seqs
        new = tuple(
            TokenSequence(
                request_id=name,
                prompt_token_ids=self._prompt(num_tokens),
                grammar=self.grammar,
                evictable=evictable,
            )
            for name in names
        )
        counts = {**beside, **dict.fromkeys(names, first_chunk or num_tokens)}
        scheduled = SchedulerOutput(new=new, num_scheduled_tokens=counts)
        return names, self.backend.execute(scheduled)

    def _prompt(self, num_tokens: int) -> tuple[int, ...]:
        return tuple(self._rng.randrange(3, self.vocabulary) for _ in range(num_tokens))

    def _release(self, names: Sequence[str]) -> None:
        if names:
            self.backend.execute(SchedulerOutput(release=tuple(names)))


def measure(prober: Prober, note: Callable[[str], None] = lambda _: None) -> Sequence[StepSample]:
    """Returns the samples of the prober's engine; sizes that do not fit into it are left out."""
    info, grown = prober.backend.info, 4 * WARM_STEPS + prober.repeats_per_round
    room_tokens = min(info.max_model_len, info.num_kv_blocks * info.block_size)
    evictions = [n for n in EVICTED_LENGTHS if n + 1 < room_tokens] if info.can_evict else []
    decodes = [
        (b, k)
        for b in BATCH_SIZES
        for k in KV_LENGTHS
        if k + grown < room_tokens
        and b * k <= MAX_BATCH_KV_TOKENS
        and b * ((k + grown) // info.block_size + 1) <= info.num_kv_blocks
    ]
    prompts = [(n, k) for k in CACHED_LENGTHS for n in PROMPT_LENGTHS if n + k < room_tokens]
    moves = [n for n in MOVED_LENGTHS if n < room_tokens] if info.can_offload else []
    prober.decode(0, *decodes[0])  # warm
    prober.prefill(0, *prompts[-1])
    prober.samples.clear()
    for number in range(ROUNDS):
        for point, (num_seqs, kv_len) in enumerate(decodes):
            prober.decode(point, num_seqs, kv_len)
        for point, (num_tokens, num_cached) in enumerate(prompts):
            prober.prefill(point, num_tokens, num_cached)
        for point, num_tokens in enumerate(moves):
            prober.move(point, num_tokens)
        for point, num_tokens in enumerate(evictions):
            prober.evict(point, num_tokens)
        note(f"round {number + 1} of {ROUNDS}: {len(prober.samples)} steps")
    return prober.samples


def hides_prompts(prober: Prober) -> bool:
    """Returns whether a prompt with decoding sequences takes as long as the longer of the two, not as their sum."""
    info = prober.backend.info
    points = [p for p in BESIDE if p[0] + p[1] * (p[2] + info.block_size) < info.num_kv_blocks * info.block_size]
    steps = [prober.beside(*point) for point in points]
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
        resume=fit_move(by_kind[StepKind.RESTORE]),
        offload=fit_move(by_kind[StepKind.OFFLOAD]),
        evict=fit_move(by_kind[StepKind.EVICT]),
        hides_prompts=hides_prompts,
    )


def write_profile(profile: EngineProfile, path: Path) -> None:
    """Writes a profile as YAML."""
    document: dict[str, Any] = _plain(asdict(profile))
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


def _plain(value: Any) -> Any:  # noqa: ANN401 (YAML)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value.value if isinstance(value, Source) else value
