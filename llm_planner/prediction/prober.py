# SPDX-License-Identifier: Apache-2.0
"""Drives an engine through single steps, and notes what each took."""

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.execution_time import MOST_DECODED_TOKENS
from llm_planner.core.interfaces import Backend
from llm_planner.core.step import SamplingParams, SchedulerOutput, StepOutput
from llm_planner.core.step import Sequence as TokenSequence
from llm_planner.prediction.samples import StepKind, StepSample

EVICTED_SHARE = 0.5
"""How much of a prompt is evicted to be timed. Most of the time goes into looking at all of it, whatever the share."""
LEAST_EVICTION_S = 1e-5
"""A shorter difference between two steps is noise."""
EMPTY: Mapping[str, int] = {}
WARM_STEPS = 8
"""Decode steps behind a prompt that are noted by themselves. The prompt has emptied the processor's caches of what a
step reads: on a CPU the first takes 1.6 times as long as the later ones, the second 1.2 times, the eighth 1.0 times."""
ROUNDS = 3
"""Each round measures every point once: a drift of the machine meets all points alike."""
PROBE = -1
"""Point of the samples of a probe."""
_MAX_STARTS = 20  # of sequences that end at once


@dataclass(slots=True)
class Prober:
    """Drives a backend through single steps and notes what each took.

    Args:
        backend: The engine.
        num_repeats: Steps per point, at least one in each round.
        seed: Of the random prompts: timing does not depend on what they say.
        vocabulary: Token ids are drawn below this.
        grammar: Constrains what is decoded, as it does in service; None for free text.
        sampling: How the next token is chosen.
        warm_steps: Decode steps behind a prompt that are noted by themselves, not with the later ones.
    """

    backend: Backend
    num_repeats: int = 9
    seed: int = 0
    vocabulary: int = 100
    grammar: str | None = None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    warm_steps: int = WARM_STEPS
    samples: list[StepSample] = field(default_factory=list)
    _num_requests: int = 0
    _rng: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self._rng.seed(self.seed)

    @property
    def repeats_per_round(self) -> int:
        """Steps of a point in one round."""
        return -(-self.num_repeats // ROUNDS)

    def probe(self, num_tokens: int) -> tuple[float, float]:
        """Measures a prompt and the decode step behind it, once; returns the seconds of both."""
        (name,), output = self._start(1, num_tokens)
        step_s = output.duration_s
        self._note(StepKind.PREFILL, PROBE, 1, num_tokens, 0, output.duration_s)
        if name not in output.finished:
            step_s = self._execute(SchedulerOutput(num_scheduled_tokens={name: 1})).duration_s
            self._note(StepKind.DECODE, PROBE, 1, 1, num_tokens, step_s)
        self._release([name])
        return output.duration_s, step_s

    def prefill(self, point: int, num_tokens: int, num_cached: int = 0) -> None:
        """Measures a prompt's last ``num_tokens``, behind ``num_cached`` that are computed already, alone."""
        for _ in range(self.repeats_per_round):
            (name,), output = self._start(1, num_cached + num_tokens, first_chunk=num_cached or num_tokens)
            if num_cached:
                output = self._execute(SchedulerOutput(num_scheduled_tokens={name: num_tokens}))
            self._note(StepKind.PREFILL, point, 1, num_tokens, num_cached, output.duration_s)
            self._release([name])

    def decode(self, point: int, num_seqs: int, kv_len: int, num_steps: int = 0) -> None:
        """Measures steps that decode ``num_seqs`` sequences with ``kv_len`` tokens each, a few more as they grow.

        A sequence that the model ends is replaced by another of the first length. Steps right behind a prompt are
        noted by themselves (``warm_steps``), unless sequences end so soon that there are no others. Tokens that the
        grammar forces are computed as in service: as further rows of the step, as if each came from a sequence of its
        own.

        Args:
            point: Number of the point.
            num_seqs: Sequences.
            kv_len: Tokens of each.
            num_steps: That are noted; 0 for ``repeats_per_round``.
        """
        names, output = self._start(num_seqs, kv_len)
        lengths = dict.fromkeys(names, kv_len)
        uncomputed = {name: len(output.token_ids.get(name, ())) for name in names}
        num_left, num_cold, num_first = num_steps or self.repeats_per_round, self.warm_steps, 0
        while num_left:
            ended = [name for name in lengths if name in output.finished]
            for _ in range(_MAX_STARTS):
                if not ended:
                    break
                self._release(ended)
                for name in ended:
                    lengths.pop(name, None)
                started, first = self._start(len(ended), kv_len)
                lengths |= dict.fromkeys(started, kv_len)
                uncomputed |= {name: len(first.token_ids.get(name, ())) for name in started}
                ended = [name for name in started if name in first.finished]
                num_cold = self.warm_steps
            if ended:
                message = f"the model ends its answers with their first token, {_MAX_STARTS} times over"
                raise PlannerError(ErrorCode.ENGINE_FAILED, message)
            counts = {name: max(1, min(uncomputed[name], MOST_DECODED_TOKENS)) for name in lengths}
            output = self._execute(SchedulerOutput(num_scheduled_tokens=counts))
            rows, kv_tokens = sum(counts.values()), sum(lengths.values())
            if num_cold and num_first < 4 * self.warm_steps:
                place = self.warm_steps - num_cold + 1
                self._note(StepKind.FIRST_DECODE, place, rows, rows, kv_tokens, output.duration_s)
                num_cold, num_first = num_cold - 1, num_first + 1
            else:
                self._note(StepKind.DECODE, point, rows, rows, kv_tokens, output.duration_s)
                num_left -= 1
            for name, count in counts.items():
                lengths[name] += count
                uncomputed[name] += len(output.token_ids.get(name, ())) - count
        self._release(list(lengths))

    def move(self, point: int, num_tokens: int) -> None:
        """Measures offloading and restoring the KV of ``num_tokens``."""
        for _ in range(self.repeats_per_round):
            (name,), _ = self._start(1, num_tokens)
            for kind, step in (
                (StepKind.OFFLOAD, SchedulerOutput(offload=(name,))),
                (StepKind.RESTORE, SchedulerOutput(restore=(name,))),
            ):
                self._note(kind, point, 1, num_tokens, num_tokens, self._execute(step).duration_s)
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
                    output = self._execute(SchedulerOutput(evict=evict, num_scheduled_tokens={name: 1}))
                    durations_s.append(output.duration_s)
                self._release([name])
            if len(durations_s) == 2:
                evict_s = max(LEAST_EVICTION_S, durations_s[1] - durations_s[0])
                self._note(StepKind.EVICT, point, 1, num_removed, num_tokens, evict_s)

    def behind(self, wait: Callable[[], None], num_tokens: int, num_steps: int) -> list[float]:
        """Returns the seconds of what an engine that was busy does after ``wait``: fewer steps if a sequence ends.

        Args:
            wait: Called while the engine does nothing.
            num_tokens: Of the prompts.
            num_steps: Decode steps that follow; 0 for one prompt instead.
        """
        (name,), output = self._start(1, num_tokens)
        step = SchedulerOutput(num_scheduled_tokens={name: 1})
        for _ in range(self.warm_steps):
            output = output if name in output.finished else self._execute(step)
        wait()
        durations_s: list[float] = []
        while len(durations_s) < num_steps and name not in output.finished:
            output = self._execute(step)
            durations_s.append(output.duration_s)
        if not num_steps:
            (other,), prompt = self._start(1, num_tokens)
            durations_s.append(prompt.duration_s)
            self._release([other])
        self._release([name])
        return durations_s

    def alongside(self, num_tokens: int, num_seqs: int, kv_len: int) -> tuple[float, float, float]:
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
            steps = dict.fromkeys(names, 1)
            for _ in range(self.warm_steps + 1):  # the first ones take longer
                steps = {name: 1 for name in steps if name not in output.finished}
                output = self._execute(SchedulerOutput(num_scheduled_tokens=steps)) if steps else output
            decode_s.append(output.duration_s)
            (prompt,), alone = self._start(1, num_tokens)
            prompt_s.append(alone.duration_s)
            self._release([prompt, *output.finished])
            steps = {name: 1 for name in steps if name not in output.finished}
            both_s.append(self._start(1, num_tokens, decoding=steps)[1].duration_s)
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
        decoding: Mapping[str, int] = EMPTY,
        evictable: tuple[tuple[int, int], ...] = (),
    ) -> tuple[list[str], StepOutput]:
        names = [f"probe-{self._num_requests + index}" for index in range(num_seqs)]
        self._num_requests += num_seqs
        new = tuple(
            TokenSequence(
                request_id=name,
                prompt_token_ids=self._prompt(num_tokens),
                grammar=self.grammar,
                sampling=self.sampling,
                evictable=evictable,
            )
            for name in names
        )
        counts = {**decoding, **dict.fromkeys(names, first_chunk or num_tokens)}
        scheduled = SchedulerOutput(new=new, num_scheduled_tokens=counts)
        return names, self._execute(scheduled)

    def _execute(self, scheduled: SchedulerOutput) -> StepOutput:
        try:
            output = self.backend.execute(scheduled)
        except PlannerError:
            self._give_up()
            raise
        if output.failed:
            reason = next(iter(output.failed.values()))
            self._give_up()
            raise PlannerError(ErrorCode.ENGINE_FAILED, f"a step that was to be measured failed: {reason}")
        return output

    def _give_up(self) -> None:
        """Releases all that was ever started."""
        self.backend.execute(SchedulerOutput(release=tuple(f"probe-{n}" for n in range(self._num_requests))))

    def _prompt(self, num_tokens: int) -> tuple[int, ...]:
        return tuple(self._rng.randrange(3, self.vocabulary) for _ in range(num_tokens))

    def _release(self, names: Sequence[str]) -> None:
        if names:
            self._execute(SchedulerOutput(release=tuple(names)))
