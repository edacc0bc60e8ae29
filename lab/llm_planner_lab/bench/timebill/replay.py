# SPDX-License-Identifier: Apache-2.0
"""An engine that runs every distinct generation once, and replays the steps that it measured.

A sweep asks for the same generation many times: a budget or an overrun strategy changes when it is cut off, not what it
is. So the sweep is affordable, and approaches that generate the same thing take the same time.
"""

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Backend, BackendInfo
from llm_planner.core.step import FinishReason, SchedulerOutput, Sequence, StepOutput, TokenChoice

Evicted = tuple[int, int]
"""Step in which an eviction happens, the prefill being step 0, and how many tokens it removes; (0, 0) for none."""
NOTHING: Evicted = (0, 0)
_LIVE = "measured"


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """What one step of a generation brought, and how long it took."""

    token_ids: tuple[int, ...]
    choices: tuple[TokenChoice, ...]
    finished: FinishReason | None
    duration_s: float


@dataclass(slots=True)
class _Run:
    """A generation that is replayed."""

    sequence: Sequence
    kv_len: int
    num_shared_blocks: int
    evicted: Evicted = NOTHING
    num_steps: int = 0


@dataclass(slots=True)
class ReplayedEngine:
    """Implements ``core.interfaces.Backend`` for one generation at a time, whose prompt is computed in one step.

    Args:
        engine: Runs what was not measured yet, alone, one token per step.
        max_tokens: Most tokens of a response; must not be less than any request allows.
        reference: Times the same piece of work on the engine; asked before each generation is measured.

    Attributes:
        num_measured: Distinct generations that ran on the engine.
    """

    engine: Backend
    max_tokens: int
    reference: Callable[[], float] = lambda: 0.0
    num_measured: int = 0
    _measured: dict[tuple[tuple[int, ...], str | None, Evicted], list[MeasuredStep]] = field(default_factory=dict)
    _reference_s: dict[tuple[tuple[int, ...], str | None, Evicted], float] = field(default_factory=dict)
    _runs: dict[str, _Run] = field(default_factory=dict)
    _prefixes: dict[str, int] = field(default_factory=dict)

    @property
    def info(self) -> BackendInfo:
        """That of the engine, which never has to move KV: there is one generation."""
        return replace(self.engine.info, can_offload=False)

    def load_prefix(self, prefix_id: str, token_ids: Seq[int], adapter: str | None = None) -> int:
        """Passes on."""
        self._prefixes[prefix_id] = self.engine.load_prefix(prefix_id, token_ids, adapter)
        return self._prefixes[prefix_id]

    def execute(self, scheduled: SchedulerOutput) -> StepOutput:
        """Returns what this step brought when it was measured; the first step of a kind is measured now.

        Raises:
            PlannerError: ENGINE_FAILED if more than one generation runs, or a prompt is computed in parts.
        """
        for request_id in scheduled.release:
            self._runs.pop(request_id, None)
        for sequence in scheduled.new:
            num_cached = sequence.num_cached_tokens
            self._runs[sequence.request_id] = _Run(sequence, num_cached, num_cached // self.info.block_size)
        for request_id, num_removed in scheduled.evict.items():
            run = self._runs[request_id]
            run.evicted = (run.num_steps, num_removed)
            run.kv_len -= num_removed
        if not scheduled.num_scheduled_tokens:
            return StepOutput(free_kv_blocks=self._num_free_blocks, duration_s=0.0)
        ((request_id, num_tokens), *others) = scheduled.num_scheduled_tokens.items()
        run = self._runs[request_id]
        wanted = len(run.sequence.prompt_token_ids) - run.sequence.num_cached_tokens if run.num_steps == 0 else 1
        if others or num_tokens != wanted:
            raise PlannerError(
                ErrorCode.ENGINE_FAILED,
                f"a replay has {1 + len(others)} generations and {num_tokens} tokens in a step instead of {wanted}; "
                "raise max_num_batched_tokens and keep max_num_seqs at 1",
            )
        step = self.steps(run.sequence, run.evicted)[run.num_steps]
        run.num_steps += 1
        run.kv_len += num_tokens
        return StepOutput(
            token_ids={request_id: step.token_ids},
            choices={request_id: step.choices},
            finished={} if step.finished is None else {request_id: step.finished},
            free_kv_blocks=self._num_free_blocks,
            duration_s=step.duration_s,
        )

    def steps(self, sequence: Sequence, evicted: Evicted = NOTHING) -> list[MeasuredStep]:
        """Returns all steps of a generation.

        Steps before an eviction are those of the same generation without: so what is the same takes the same time.
        """
        key = (sequence.prompt_token_ids, sequence.grammar, evicted)
        if key not in self._measured:
            before = [] if evicted == NOTHING else self.steps(sequence)[: evicted[0]]
            self._reference_s[key] = self.reference()
            measured = self._measure(sequence, evicted)
            self._measured[key] = [*before, *measured[len(before) :]]
        return self._measured[key]

    def reference_s(self, sequence: Sequence, evicted: Evicted = NOTHING) -> float:
        """Returns what the reference took right before a generation was measured."""
        return self._reference_s[sequence.prompt_token_ids, sequence.grammar, evicted]

    def forget(self) -> None:
        """Forgets what was measured: a warm-up."""
        self._measured.clear()
        self._reference_s.clear()
        self.num_measured = 0

    def _measure(self, sequence: Sequence, evicted: Evicted) -> list[MeasuredStep]:
        self.num_measured += 1
        sequence = replace(sequence, request_id=_LIVE)
        num_tokens = len(sequence.prompt_token_ids) - sequence.num_cached_tokens
        steps = [self._step(SchedulerOutput(new=(sequence,), num_scheduled_tokens={_LIVE: num_tokens}))]
        while steps[-1].finished is None and len(steps) < self.max_tokens:
            evict = {_LIVE: evicted[1]} if evicted[1] and evicted[0] == len(steps) else {}
            steps.append(self._step(SchedulerOutput(evict=evict, num_scheduled_tokens={_LIVE: 1})))
        self.engine.execute(SchedulerOutput(release=(_LIVE,)))
        return steps

    def _step(self, scheduled: SchedulerOutput) -> MeasuredStep:
        output = self.engine.execute(scheduled)
        if output.failed:
            raise PlannerError(ErrorCode.ENGINE_FAILED, f"the engine failed: {output.failed[_LIVE]}")
        return MeasuredStep(
            token_ids=output.token_ids.get(_LIVE, ()),
            choices=output.choices.get(_LIVE, ()),
            finished=output.finished.get(_LIVE),
            duration_s=output.duration_s,
        )

    @property
    def _num_free_blocks(self) -> int:
        info = self.info
        shared = sum(self._prefixes.values()) // info.block_size
        private = sum(-(-run.kv_len // info.block_size) - run.num_shared_blocks for run in self._runs.values())
        return info.num_kv_blocks - shared - private

    def close(self) -> None:
        """Closes the engine."""
        self.engine.close()
