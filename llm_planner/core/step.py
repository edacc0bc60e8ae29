# SPDX-License-Identifier: Apache-2.0
"""The seam between scheduler and backend: what to run in one step, and what came out.

    schedule(now_s) -> SchedulerOutput -> Backend.execute -> StepOutput -> Scheduler.update

Plain data: no tensors, no clocks, picklable. Words are vLLM's where vLLM has one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How the next token is chosen. ``temperature == 0`` is greedy."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """What a backend must know of a generation, handed over once, in the step that first runs it.

    Attributes:
        prompt_token_ids: The whole prompt, static prefix included.
        prefix_id: Name of the shared static prefix that the prompt starts with, or None.
        num_cached_tokens: Leading prompt tokens whose KV the prefix store already holds
            (what ``Backend.load_prefix`` returned); always less than the prompt length.
        output_token_ids: Tokens that it generated before it was preempted: their KV is computed again together with
            the prompt's, and the grammar continues behind them.
        grammar: llguidance Lark grammar that the output must match, or None; also what is written behind an insertion.
        first_grammar: What the output behind this very prompt must match instead: that ends within a plan, perhaps in
            blocks that are open; None if ``grammar`` holds from the beginning.
        num_open_blocks: How many these are.
        adapter: Directory of the LoRA adapter that computes all of it, one of those that the backend has loaded; None
            for the model alone.
        evictable: Half-open ranges of prompt positions whose KV may be removed, as far as ``core.eviction`` allows;
            everything else is protected. Empty for a sequence that is never evicted.
        droppable: Half-open ranges of prompt positions, apart from each other and behind the shared prefix, that the
            prompt can do without before it is computed, the least needed first (``core.shortening``). Nothing to a
            backend.
    """

    request_id: str
    prompt_token_ids: tuple[int, ...]
    prefix_id: str | None = None
    num_cached_tokens: int = 0
    output_token_ids: tuple[int, ...] = ()
    grammar: str | None = None
    first_grammar: str | None = None
    num_open_blocks: int = 0
    adapter: str | None = None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    evictable: tuple[tuple[int, int], ...] = ()
    droppable: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOutput:
    """One step. A backend applies the fields in this order: release, offload, evict, restore, new, insert, run.

    Attributes:
        release: Requests that ended: free all they hold (unknown ids are ignored).
        offload: Suspended requests whose KV moves to host memory.
        evict: Per request, from how many of its removable tokens the KV is removed (``core.eviction``), once its prompt
            is computed. One that is also restored in this step is evicted right after its own restore.
        restore: Offloaded requests whose KV comes back to the accelerator, one after the other.
        new: Sequences that run for the first time in this step.
        insert: Per request that runs in this step, tokens that are appended to its context behind all that it wrote.
            Prompt, written tokens (without one that ended the sequence) and these are its prompt from now on, and it
            generates again: grammar and random numbers begin again, and one that had finished goes on. Its KV is kept.
            Only for a backend that can (``BackendInfo.can_insert``); any other gets such a request in ``release``, and
            in ``new`` with the whole prompt.
        num_scheduled_tokens: Per request that runs in this step, how many tokens are computed: a chunk of the
            prompt (and of ``output_token_ids``); when decoding the last token, those that the grammar forced behind
            it, and any number of the draft that the backend offered (``StepOutput.num_draft_tokens``). A request that
            is not named stays as it is: that is suspension.
        suspended: Suspended requests whose robots are busy, the one that resumes last first. Only for an engine that
            keeps its KV itself (``BackendInfo.keeps_kv``): it takes memory from them in this order, and holds back what
            its steps in flight still bring of them.
        urgent: Running requests that lose more than the others by being held back (``scheduling.pipeline.urgency``).
            Only for an engine with several stages (``BackendInfo.num_stages``), which divides a step among them.
    """

    release: tuple[str, ...] = ()
    offload: tuple[str, ...] = ()
    evict: Mapping[str, int] = field(default_factory=dict)
    restore: tuple[str, ...] = ()
    new: tuple[Sequence, ...] = ()
    insert: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    num_scheduled_tokens: Mapping[str, int] = field(default_factory=dict)
    suspended: tuple[str, ...] = ()
    urgent: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if there is nothing at all for the backend to do."""
        return not (self.release or self.offload or self.restore or self.num_scheduled_tokens)


class FinishReason(Enum):
    """Why the model itself stopped (everything else is decided above the backend)."""

    STOP = "stop"  # end-of-sequence token, or the grammar is complete


class TokenChoice(NamedTuple):
    """A token that a model chose.

    Attributes:
        token_id: Which one; an end-of-sequence token, too.
        logprob: Natural logarithm of its probability among all tokens, those that a grammar rules out included (by
            vLLM: among those that it allows); 0 for one that the grammar forced.
        alternatives: The likeliest other tokens, the likeliest first; only where the choice was not clear.
        is_allowed: Of an alternative: whether the grammar would have taken it.
    """

    token_id: int
    logprob: float = 0.0
    alternatives: "tuple[TokenChoice, ...]" = ()
    is_allowed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutput:
    """What one step produced.

    Attributes:
        token_ids: New tokens per request; none while a prompt is only partly prefilled. More than one if drafts were
            accepted, which are computed, or if the grammar forced some, which are not. The end-of-sequence token is
            not among them.
        choices: Per request, how sure the model was of each of these tokens, and last of the end token if it chose one.
            Empty for a backend that does not say.
        finished: Requests for which the model stopped in this step.
        failed: Requests that cannot go on, with the reason; the others are unharmed.
        lost: Requests whose KV could not be moved and is gone; they go on as if they had been preempted.
        unanswered: Those of ``failed`` whose model server does not answer: another engine may go on with them.
        free_kv_blocks: Blocks that no request holds after this step.
        duration_s: Time that the step took.
        num_draft_tokens: Per request, how many guessed tokens the backend would verify in its next step, if they are
            scheduled with those that have to be computed. Preemption drops them.
        num_rejected_tokens: Per request, how many of the scheduled tokens were guessed wrong and are not kept.
        step: What really ran, where an engine may run less than it was handed, or has several steps in flight and
            returns an earlier one; None for what it was handed.
        is_given_up: Whether the backend was told to give the step up when it had begun (``InterruptibleBackend``). Then
            ``step`` has the same requests without any tokens.
        num_computed_tokens: Per request, how many tokens have their KV, where the engine keeps it itself and may find
            some in its own prefix cache, or lose some.
    """

    token_ids: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    choices: Mapping[str, tuple[TokenChoice, ...]] = field(default_factory=dict)
    finished: Mapping[str, FinishReason] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    unanswered: frozenset[str] = frozenset()
    free_kv_blocks: int = 0
    duration_s: float = 0.0
    num_draft_tokens: Mapping[str, int] = field(default_factory=dict)
    num_rejected_tokens: Mapping[str, int] = field(default_factory=dict)
    step: SchedulerOutput | None = None
    is_given_up: bool = False
    num_computed_tokens: Mapping[str, int] = field(default_factory=dict)

    def limited(self, max_tokens: Mapping[str, int]) -> "StepOutput":
        """Returns the output without tokens beyond a limit per request, for a step may bring several at once.

        A request that is cut has not finished.
        """
        cut = {
            name: ids[: max_tokens[name]]
            for name, ids in self.token_ids.items()
            if len(ids) > max_tokens.get(name, len(ids))
        }
        if not cut:
            return self
        choices = {
            name: choices[: len(cut[name])] if name in cut else choices for name, choices in self.choices.items()
        }
        finished = {name: reason for name, reason in self.finished.items() if name not in cut}
        return replace(self, token_ids={**self.token_ids, **cut}, choices=choices, finished=finished)
