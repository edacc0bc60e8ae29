# SPDX-License-Identifier: Apache-2.0
"""The scheduler's mutable record of one request, and the only place where its state changes."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from llm_planner.core.eviction import Eviction
from llm_planner.core.request import PlanRequest
from llm_planner.core.shortening import shortened
from llm_planner.core.step import Sequence, StepOutput
from llm_planner.scheduling.execution_tracker import ExecutionTracker


class GenerationState(Enum):
    """Where a generation stands.

        add                 admit                 segment boundary
    ---------> WAITING ------------> RUNNING <=====================> SUSPENDED
                  ^                     |            resume              |
                  +------ preempt ------+----------- preempt -----------+        any of them: end -> FINISHED
    """

    WAITING = "waiting"  # holds no KV
    RUNNING = "running"
    SUSPENDED = "suspended"  # KV kept, on the accelerator or offloaded
    FINISHED = "finished"


@dataclass(slots=True, kw_only=True, eq=False)
class Generation:
    """One request as the scheduler sees it.

    Attributes:
        request: What was asked.
        sequence: What the backend was, or will be, handed.
        arrival_s: When the request arrived.
        execution: The picture of the robot that carries the plan out.
        max_output_tokens: Most tokens that it may generate.
        output_interval: Shortest and longest output that were predicted for it; None if nothing was.
        order: Rank of arrival among equals, given by the scheduler.
        num_computed_tokens: Tokens that went through the model, shared prefix included.
        eviction: Decided for it, if any (``scheduling.eviction``): due after ``after_tokens`` computed tokens.
        num_evicted_tokens: Computed tokens whose KV was removed.
        eviction_ratio: Share of the prompt's KV that an eviction removed; it stays if the KV is lost.
        is_eviction_final: Whether it was carried out; it stays true if the KV is lost and computed again.
        num_segments: Complete segments so far.
        num_draft_tokens: Guessed tokens that the backend offers to verify in its next step.
        num_segment_steps: Steps that yielded tokens since the last segment boundary.
        segment_started_at_s: When the generation of the present segment began.
        robot_idle_at_s: When the robot will have carried out what it was sent, by the last estimate; ``arrival_s``
            before the first segment.
        resume_at_s: When a suspended one must run again.
        is_offloaded: Whether its KV is in host memory.
        num_inserted_tokens: Tokens that were inserted behind what it wrote.
        num_earlier_tokens: Tokens that it wrote before it was inserted into, or restarted, for the last time.
        num_own_prompt_tokens: Of these, how many are part of its prompt now.
    """

    request: PlanRequest
    sequence: Sequence
    arrival_s: float
    execution: ExecutionTracker
    max_output_tokens: int
    output_interval: tuple[int, int] | None = None
    order: int = 0
    num_computed_tokens: int = 0
    eviction: Eviction | None = None
    num_evicted_tokens: int = 0
    eviction_ratio: float = 0.0
    is_eviction_final: bool = False
    output_token_ids: list[int] = field(default_factory=list)
    num_segments: int = 0
    num_draft_tokens: int = 0
    num_segment_steps: int = 0
    segment_started_at_s: float = 0.0
    num_suspensions: int = 0
    num_preemptions: int = 0
    robot_idle_at_s: float = 0.0
    resume_at_s: float = 0.0
    is_offloaded: bool = False
    num_inserted_tokens: int = 0
    num_earlier_tokens: int = 0
    num_own_prompt_tokens: int = 0
    _insertion: tuple[int, ...] = ()
    _num_prefill_tokens: int = 0
    _state: GenerationState = GenerationState.WAITING

    def __post_init__(self) -> None:
        self._num_prefill_tokens = self.num_prompt_tokens
        self.num_computed_tokens = self.sequence.num_cached_tokens
        self.robot_idle_at_s = self.arrival_s

    @property
    def request_id(self) -> str:
        """Name of the request."""
        return self.request.request_id

    @property
    def state(self) -> GenerationState:
        """Where it stands."""
        return self._state

    @property
    def has_started(self) -> bool:
        """Whether the engine has computed anything for it, here or in a process before this one."""
        has_computed = self.num_computed_tokens > self.sequence.num_cached_tokens or self.num_preemptions > 0
        return has_computed or self.execution.num_delivered > 0

    @property
    def num_prompt_tokens(self) -> int:
        """Prompt length, cached tokens included."""
        return len(self.sequence.prompt_token_ids)

    @property
    def num_output_tokens(self) -> int:
        """Tokens generated so far, since the last insertion if there was one."""
        return len(self.output_token_ids)

    @property
    def num_tokens_left(self) -> int:
        """Tokens that it may still generate."""
        return self.max_output_tokens - len(self.output_token_ids)

    @property
    def predicted_bounds(self) -> tuple[int, int]:
        """Shortest and longest output that were predicted; without a prediction, one token and the most allowed."""
        return self.output_interval or (1, self.max_output_tokens)

    @property
    def output_bounds(self) -> tuple[int, int]:
        """Shortest and longest output that are still possible: as predicted, refined by what was generated."""
        lower, upper = self.predicted_bounds
        certified = min(max(lower, len(self.output_token_ids) + 1), self.max_output_tokens)
        return certified, max(certified, min(upper, self.max_output_tokens))

    @property
    def num_tokens(self) -> int:
        """Prompt and output together."""
        return len(self.sequence.prompt_token_ids) + len(self.output_token_ids)

    @property
    def num_uncomputed_tokens(self) -> int:
        """Tokens that must be computed before the next one comes out; see ``is_decoding``."""
        return len(self.sequence.prompt_token_ids) + len(self.output_token_ids) - self.num_computed_tokens

    @property
    def is_decoding(self) -> bool:
        """Whether it has no prompt to compute, but its last token, and those that the grammar forced behind it."""
        return self.num_computed_tokens >= self._num_prefill_tokens or self.num_uncomputed_tokens == 1

    def take(self, num_scheduled_tokens: int, output: StepOutput) -> None:
        """Counts what a step that computed ``num_scheduled_tokens`` of it brought."""
        token_ids = output.token_ids.get(self.request_id, ())
        self.num_computed_tokens += num_scheduled_tokens - output.num_rejected_tokens.get(self.request_id, 0)
        self.num_draft_tokens = output.num_draft_tokens.get(self.request_id, 0)
        self.output_token_ids.extend(token_ids)
        self.num_segment_steps += bool(token_ids)

    def recount(self, num_computed_tokens: int) -> None:
        """Takes over the count of an engine that keeps its KV itself; fewer than before: it lost its KV, or some."""
        if num_computed_tokens < self.num_computed_tokens:
            self._num_prefill_tokens = self.num_tokens
            self.num_preemptions += 1
            self.num_draft_tokens = 0
        self.num_computed_tokens = num_computed_tokens

    @property
    def kv_len(self) -> int:
        """Tokens in the KV cache, shared prefix included."""
        return self.num_computed_tokens - self.num_evicted_tokens

    @property
    def peak_kv_len(self) -> int:
        """Tokens in the KV cache at its fullest until the next token comes out."""
        if self.eviction is None or self.num_evicted_tokens:
            return self.num_tokens - self.num_evicted_tokens
        return max(self.eviction.after_tokens, self.num_tokens - self.eviction.num_removed_tokens)

    @property
    def num_tokens_to_eviction(self) -> int | None:
        """Tokens to compute before its eviction is due: 0 if it is; None if none is ahead."""
        if self.eviction is None or self.num_evicted_tokens:
            return None
        return max(0, self.eviction.after_tokens - self.num_computed_tokens)

    def evict(self) -> int:
        """Counts the eviction that is due as done; returns how many tokens lose their KV."""
        if self.eviction is None or self.num_tokens_to_eviction != 0:
            raise ValueError(f"{self.request_id} is due for no eviction")
        self.num_evicted_tokens = self.eviction.num_removed_tokens
        self.eviction_ratio = self.num_evicted_tokens / self.num_prompt_tokens
        self.is_eviction_final = True
        return self.num_evicted_tokens

    def shorten(self, num_tokens: int) -> None:
        """Leaves parts of the prompt out that make up ``num_tokens`` (``core.shortening``); nothing is computed yet."""
        if self._state is not GenerationState.WAITING or self.num_preemptions or self.eviction is not None:
            raise ValueError(f"{self.request_id} has begun; its prompt cannot change any more")
        self.sequence = shortened(self.sequence, num_tokens)
        self._num_prefill_tokens = self.num_prompt_tokens

    def insert(self, token_ids: Iterable[int], max_output_tokens: int) -> None:
        """Appends tokens to its context behind all that it wrote; it writes again behind them.

        What it wrote and the new tokens are prompt from now on, and only they are computed if its KV is there. What was
        ordered of evictions is forgotten, as it counted on another prompt; what was evicted stays so.

        Args:
            token_ids: Appended.
            max_output_tokens: Most tokens that it may generate behind them.
        """
        if self._state not in (GenerationState.WAITING, GenerationState.SUSPENDED):
            raise ValueError(f"{self.request_id} is {self._state.value}; nothing can be inserted into it")
        inserted = tuple(token_ids)
        self.num_inserted_tokens += len(inserted)
        self.num_own_prompt_tokens += len(self.output_token_ids)
        self._read((*self.sequence.prompt_token_ids, *self.output_token_ids, *inserted), max_output_tokens)
        if self._state is GenerationState.SUSPENDED:
            self._insertion += inserted

    def restart(self, prompt_token_ids: Iterable[int], max_output_tokens: int) -> None:
        """Forgets what it read and wrote behind its shared prefix, and writes again behind another prompt.

        Args:
            prompt_token_ids: Begins with the shared prefix.
            max_output_tokens: Most tokens that it may generate.
        """
        if self._state is not GenerationState.WAITING:
            raise ValueError(f"{self.request_id} is {self._state.value}; it holds KV of its old prompt")
        self.num_own_prompt_tokens = 0
        self._read(tuple(prompt_token_ids), max_output_tokens)

    def rewrite(self, token_ids: Iterable[int]) -> None:
        """Has it written ``token_ids`` instead of what it wrote behind its prompt; it goes on behind them.

        What was generated so far is counted once, whatever of it is kept.
        """
        if self._state is not GenerationState.WAITING:
            raise ValueError(f"{self.request_id} is {self._state.value}; it holds KV of what it wrote")
        num_generated = self.num_earlier_tokens + len(self.output_token_ids)
        self.output_token_ids = list(token_ids)
        self.num_earlier_tokens = max(0, num_generated - len(self.output_token_ids))
        self.num_segment_steps = 0
        self._num_prefill_tokens = self.num_tokens

    def _read(self, prompt: tuple[int, ...], max_output_tokens: int) -> None:
        """Makes ``prompt`` all that it has read, with nothing written behind it yet."""
        self.num_earlier_tokens += len(self.output_token_ids)
        self.sequence = replace(
            self.sequence, prompt_token_ids=prompt, first_grammar=None, num_open_blocks=0, evictable=(), droppable=()
        )
        self.output_token_ids.clear()
        self.max_output_tokens, self.output_interval = max_output_tokens, None
        self.num_draft_tokens = self.num_segment_steps = 0
        self._num_prefill_tokens = self.num_prompt_tokens
        if not self.num_evicted_tokens:
            self.eviction = None

    def take_insertion(self) -> tuple[int, ...]:
        """Returns, once, what the backend must insert now that it runs again."""
        inserted, self._insertion = self._insertion, ()
        return inserted

    def admit(self) -> Sequence:
        """WAITING -> RUNNING; returns what the backend must be handed."""
        self._move(GenerationState.RUNNING, GenerationState.WAITING)
        return replace(self.sequence, output_token_ids=tuple(self.output_token_ids))

    def suspend(self) -> None:
        """RUNNING -> SUSPENDED at a segment boundary."""
        self._move(GenerationState.SUSPENDED, GenerationState.RUNNING)
        self.num_suspensions += 1

    def resume(self) -> None:
        """SUSPENDED -> RUNNING, its KV being on the accelerator."""
        if self.is_offloaded:
            raise ValueError(f"{self.request_id} cannot resume while its KV is offloaded")
        self._move(GenerationState.RUNNING, GenerationState.SUSPENDED)

    def pause(self) -> None:
        """RUNNING -> SUSPENDED inside a segment: a more pressing one gets its slot, the KV stays."""
        self._move(GenerationState.SUSPENDED, GenerationState.RUNNING)

    def preempt(self) -> None:
        """RUNNING or SUSPENDED -> WAITING: the KV is lost, wherever it was; the tokens are kept."""
        self._move(GenerationState.WAITING, GenerationState.RUNNING, GenerationState.SUSPENDED)
        self.is_offloaded = False
        self.num_computed_tokens = self.sequence.num_cached_tokens
        self.num_evicted_tokens = 0
        self.num_draft_tokens = 0
        self._insertion = ()
        if self.num_inserted_tokens:
            self.eviction = None
        self._num_prefill_tokens = self.num_tokens
        self.num_preemptions += 1

    def finish(self) -> None:
        """Ends it, whatever it was doing."""
        self._move(
            GenerationState.FINISHED, GenerationState.WAITING, GenerationState.RUNNING, GenerationState.SUSPENDED
        )

    def _move(self, to: GenerationState, *allowed_from: GenerationState) -> None:
        """Changes the state: the only place that does."""
        if self._state not in allowed_from:
            raise ValueError(f"{self.request_id} cannot go from {self._state.name} to {to.name}")
        self._state = to
