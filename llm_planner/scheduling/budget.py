# SPDX-License-Identifier: Apache-2.0
"""Time budgets: what must be done within one, how long that takes, and the closed form of TimeBill for one measure."""

import math
from dataclasses import dataclass
from enum import Enum

from llm_planner.core.execution_time import ALONE, CoBatch, ExecutionTime

PESSIMISM = 5.0
"""k of TimeBill, section 4.2: its default, usual in hard real-time systems."""
MAX_EVICTION_RATIO = 0.95
"""alpha_max of TimeBill, section 6.1."""


class Measure(Enum):
    """What can be done to keep a budget, the least harmful first."""

    RESERVED_SLOT = "reserved_slot"  # it runs at once; others yield and keep their KV
    BATCH_CAP = "batch_cap"  # fewer others run along
    SCENE_PRUNING = "scene_pruning"  # what the task needs least of the scene is left out before the prefill
    EVICTION = "eviction"  # part of the prompt's KV is removed after the prefill
    TOKEN_CAP = "token_cap"  # noqa: S105 (no password); the plan is closed in time, perhaps before its end
    GRACEFUL_TRUNCATION = "graceful_truncation"  # it was, in the block of a condition, which its language closed


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How many tokens are still to come until the budget's goal is reached.

    Attributes:
        lower: Fewest that make sense: a plan, or segment, is not complete before; >= 1.
        expected: N-hat, >= 1.
        upper: Most, as sure as a bound should be; None if nothing is known.
    """

    lower: int = 1
    expected: float
    upper: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What must be done within a budget.

    Attributes:
        num_uncomputed_tokens: Prompt tokens to compute before the next token comes out, >= 1; 1 when decoding.
        kv_len: Tokens in its cache, shared prefix included.
        num_removable_tokens: Of the tokens that will be in its cache after the prefill, how many may be evicted; 0 if
            the backend cannot evict, or has done so already.
        droppable_tokens: How many prompt tokens go with the one, two, ... least needed parts of the scene;
            never falls. Empty if nothing can be, or the prefill has begun.
        lengths: Of what is still to be generated.
        max_tokens: N_max: most tokens that it may still generate, >= 1.
        is_evicted: Whether some of its KV is gone already.
        tokens_per_step: As many come out of a step; only for the memory, as all other tokens stand for steps.
    """

    num_uncomputed_tokens: int
    kv_len: int
    num_removable_tokens: int = 0
    droppable_tokens: tuple[int, ...] = ()
    lengths: Lengths
    max_tokens: int
    is_evicted: bool = False
    tokens_per_step: float = 1.0

    @property
    def num_prefilled_tokens(self) -> int:
        """N_x: tokens in its cache after the prefill."""
        return self.kv_len + self.num_uncomputed_tokens

    def pessimistic_tokens(self, k: float = PESSIMISM) -> int:
        """Returns ``N_W = min(k N-hat, N_max)``, section 4.2 of TimeBill; >= 1.

        Deviation: where an upper bound of the length is known, ``N_W = min(upper, N_max)``, also if ``k N-hat`` is
        less. The factor stands in for what one number does not tell, and a distribution tells it. Where KV was evicted
        it is ``N_max``: lengths are predicted of plans whose model sees all of its prompt, and one that does not may
        write a plan of any length.
        """
        if self.is_evicted:
            return self.max_tokens
        if self.lengths.upper is not None:
            return max(1, min(self.lengths.upper, self.max_tokens))
        return max(1, math.ceil(min(k * self.lengths.expected, float(self.max_tokens))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How a task would be run.

    Attributes:
        wait_s: Before it runs.
        chunk_tokens: Most prompt tokens of one step.
        co_batch: The co-batched sequences that decode along.
        num_omitted_tokens: Of the prompt, left out before the prefill.
        num_removed_tokens: Evicted after the prefill.
    """

    wait_s: float = 0.0
    chunk_tokens: int = 1_000_000
    co_batch: CoBatch = ALONE
    num_omitted_tokens: int = 0
    num_removed_tokens: int = 0


def prefill_phase_s(task: Task, setup: Setup, time: ExecutionTime) -> float:
    """Returns the seconds until the first token is out: ``t_prefill-phase`` of TimeBill, Eq. (10b).

    ``t_Predict`` is no part of it. A prediction that the prefill hides delays no request; any other ends before
    the decision, with its time already deducted from the budget (``serving.budgets``).
    """
    num_tokens = max(1, task.num_uncomputed_tokens - setup.num_omitted_tokens)
    return setup.wait_s + time.prefill_s(num_tokens, task.kv_len, setup.chunk_tokens, setup.co_batch)


def decode_phase_s(task: Task, num_tokens: int, setup: Setup, time: ExecutionTime) -> float:
    """Returns the seconds of the decode steps for ``num_tokens``, the first of which the prefill brings; Eq. (7).

    Deviation: every sequence's cache grows by a token per step, not only its own; an eviction takes time itself.
    """
    num_steps, num_seqs = num_tokens - 1, setup.co_batch.num_seqs + 1
    line = time.decode_line(num_seqs)
    kv_tokens = _kv_tokens(task, setup)
    evict_s = time.evict_s(task.num_prefilled_tokens) if setup.num_removed_tokens > 0 else 0.0
    return evict_s + num_steps * (line.q_s + line.p_s * (kv_tokens + num_seqs * (num_steps - 1) / 2))


def execution_s(task: Task, num_tokens: int, setup: Setup, time: ExecutionTime) -> float:
    """Returns the seconds until ``num_tokens`` are out: Eq. (8) of TimeBill, and Eq. (9) for ``N_W`` tokens."""
    return prefill_phase_s(task, setup, time) + decode_phase_s(task, num_tokens, setup, time)


def alpha_star(
    budget_s: float, task: Task, time: ExecutionTime, *, k: float = PESSIMISM, alpha_max: float = MAX_EVICTION_RATIO
) -> float:
    """Returns the eviction ratio of TimeBill for a request that runs alone: Eq. (11), clipped to [0, alpha_max].

    Deviation: Eq. (11) as printed has ``(N_W - 2) / (2 p N_x)``. Solving Eq. (10b) for alpha gives
    ``(N_W - 2) / (2 N_x)``: the ``p`` cancels, as the units require. Where eviction does not shorten a step
    (``p = 0``), or there is no decode step, the ratio is 0 if the budget is kept and ``alpha_max`` if not. What an
    eviction takes itself is gone from the budget of one that is needed.
    """
    num_tokens = task.pessimistic_tokens(k)
    left_s = budget_s - prefill_phase_s(task, Setup(), time)
    (q_s, p_s), n_x = time.decode_line(1), task.num_prefilled_tokens
    if decode_phase_s(task, num_tokens, Setup(), time) > left_s:
        left_s -= time.evict_s(n_x)
    if p_s == 0.0 or num_tokens == 1:
        return 0.0 if left_s >= q_s * (num_tokens - 1) else alpha_max
    alpha = 1.0 - left_s / (p_s * n_x * (num_tokens - 1)) + (num_tokens - 2) / (2 * n_x) + q_s / (p_s * n_x)
    return min(alpha_max, max(0.0, alpha))


def _kv_tokens(task: Task, setup: Setup) -> int:
    """Returns the tokens in all caches that the first decode step reads."""
    left_out = setup.num_omitted_tokens + setup.num_removed_tokens
    return task.num_prefilled_tokens - left_out + setup.co_batch.kv_tokens


def removal_needed(left_s: float, task: Task, num_tokens: int, setup: Setup, time: ExecutionTime) -> float:
    """Returns how many tokens must be evicted so that the decode steps for ``num_tokens`` take ``left_s``.

    Eq. (11) for a batch; ``setup`` evicts nothing yet. At most 0 if none need be; infinite if no eviction is enough.
    """
    steps_s = decode_phase_s(task, num_tokens, setup, time)
    saved_s = (num_tokens - 1) * time.decode_line(setup.co_batch.num_seqs + 1).p_s  # per token
    if steps_s <= left_s:
        return 0.0
    evict_s = time.evict_s(task.num_prefilled_tokens)
    return (evict_s + steps_s - left_s) / saved_s if saved_s > 0.0 else math.inf


def tokens_within(left_s: float, task: Task, setup: Setup, time: ExecutionTime) -> int:
    """Returns how many tokens the decode steps of ``left_s`` bring, the first one, of the prefill, included.

    An eviction is paid for first; 0 if ``left_s`` is not enough for that.

    The positive root of ``g n^2 / 2 + (s - g / 2) n = left_s`` for ``n`` steps, the first of ``s`` seconds, each
    ``g`` longer than the one before.
    """
    steps_s = left_s - (time.evict_s(task.num_prefilled_tokens) if setup.num_removed_tokens > 0 else 0.0)
    if steps_s < 0.0:
        return 0
    num_seqs = setup.co_batch.num_seqs + 1
    line = time.decode_line(num_seqs)
    first_s = line.q_s + line.p_s * _kv_tokens(task, setup)
    growth_s = line.p_s * num_seqs
    middle_s = first_s - growth_s / 2
    root = 2.0 * steps_s / (middle_s + math.sqrt(middle_s * middle_s + 2.0 * growth_s * steps_s))
    num_tokens = int(root) + 1
    is_over = decode_phase_s(task, num_tokens, setup, time) > left_s  # by rounding
    return min(task.max_tokens, num_tokens - is_over)
