# SPDX-License-Identifier: Apache-2.0
"""More than one token per step: tokens that the grammar forces, and drafts that the model verifies.

The text is that of one token per step, under greedy decoding and under sampling. A token that is the only one in the
mask needs no model, whichever way it is added, and a draft is kept as far as the model chooses the same
tokens behind it (speculative decoding, Leviathan et al. 2023, for the greedy choice).
"""

import math
from collections import OrderedDict
from collections.abc import Sequence as Seq

import torch

from llm_planner.core.clock import MonotonicClock, ProcessorClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.core.step import Sequence, TokenChoice
from llm_planner.engine.drafting import MAX_DRAFT_TOKENS, Drafter, PlanHabits, StepCost
from llm_planner.engine.model_runner import Chunk, ModelRunner
from llm_planner.engine.sampler import Sampler, SamplingError
from llm_planner.engine.sequence_state import SequenceState

MODES = ("auto", "always", "prompt", "forced", "off")
_MAX_FORCED_TOKENS = 64  # of a step: a grammar may force a text without end
_MAX_GRAMMARS = 64
_PROBED_KV_TOKENS = 128
_NUM_PROBES = 5
_PROBE_S = 0.5  # a slow model is measured less often


class Lookahead:
    """Decides what is added to a sequence beyond the token that a step yields.

    Args:
        mode: ``off``; ``forced``: forced tokens; ``prompt``: and drafts from the request's own prompt and plan;
            ``always``: and from earlier plans; ``auto``: as far as drafts pay on the device.

    Attributes:
        cost: What a step takes; by itself a token costs nothing, so that all drafts pay.

    Raises:
        PlannerError: INVALID_CONFIG for another mode.
    """

    def __init__(self, mode: str) -> None:
        if mode not in MODES:
            raise PlannerError(ErrorCode.INVALID_CONFIG, f"no lookahead {mode!r}; known are {', '.join(MODES)}")
        self._mode = mode
        self.cost = StepCost(1.0, 0.0)
        self._habits: OrderedDict[tuple[str | None, str | None], PlanHabits] = OrderedDict()

    @property
    def follows_device(self) -> bool:
        """Whether ``cost`` is to be what was measured on the device."""
        return self._mode == "auto"

    @property
    def adds_forced_tokens(self) -> bool:
        """Whether forced tokens are added without a step of their own."""
        return self._mode != "off"

    def drafter(self, sequence: Sequence) -> Drafter | None:
        """Returns what drafts for a new sequence; None if nothing does, as for one that samples."""
        if self._mode in {"off", "forced"} or sequence.sampling.temperature > 0:
            return None
        habits = PlanHabits() if self._mode == "prompt" else self._shared_habits(sequence)
        return Drafter(sequence.prompt_token_ids[sequence.num_cached_tokens :], habits, sequence.output_token_ids)

    def _shared_habits(self, sequence: Sequence) -> PlanHabits:
        key = sequence.adapter, sequence.grammar
        habits = self._habits.setdefault(key, PlanHabits())
        self._habits.move_to_end(key)
        while len(self._habits) > _MAX_GRAMMARS:
            self._habits.popitem(last=False)
        return habits

    def add_forced(self, state: SequenceState, max_tokens: int) -> list[int]:
        """Appends what the grammar forces behind the last token, and returns it."""
        added: list[int] = []
        while self.adds_forced_tokens and len(added) < min(max_tokens, _MAX_FORCED_TOKENS):
            if state.is_finished or (token_id := state.take_forced()) is None:
                break
            added.append(token_id)
            state.append(token_id)
        return added

    def draft(self, state: SequenceState, new_token_ids: Seq[int], max_tokens: int, num_seqs: int) -> None:
        """Puts a draft behind a sequence that has got new tokens, for a step of ``num_seqs`` generations."""
        state.draft = ()
        if state.drafter is None:
            return
        state.drafter.advance(new_token_ids)
        if not state.is_finished:
            least = self.cost.least_probability(num_seqs)
            state.draft = state.drafter.draft(state.matcher, min(max_tokens, MAX_DRAFT_TOKENS), least)


def verify(
    chunks: Seq[Chunk], logits: torch.Tensor, eos_token_ids: frozenset[int]
) -> list[list[TokenChoice] | SamplingError]:
    """Returns the tokens that each chunk yields, or why there are none, and appends them to its sequence.

    These are the draft as far as the model agrees, and the model's own next token. The rest of the draft is dropped.

    Args:
        chunks: All computed to their last token.
        logits: (num_rows, vocab_size); ``1 + len(chunk.draft)`` rows for each chunk: of its last token, and of each
            drafted one.
        eos_token_ids: Tokens that end a sequence.
    """
    sampler = Sampler(logits)
    rows, first = [], 0
    for chunk in chunks:
        rows.append(first)
        first += 1 + len(chunk.draft)
    yielded: list[list[TokenChoice]] = [[] for _ in chunks]
    errors: dict[int, SamplingError] = {}
    active = list(range(len(chunks)))
    while active:
        choices = sampler.choose([rows[i] + len(yielded[i]) for i in active], [chunks[i].state for i in active])
        going_on: list[int] = []
        for i, choice in zip(active, choices, strict=True):
            if isinstance(choice, SamplingError):
                errors[i] = choice
                continue
            state, draft, depth = chunks[i].state, chunks[i].draft, len(yielded[i])
            yielded[i].append(choice)
            state.append(choice.token_id, eos_token_ids)
            if not state.is_finished and depth < len(draft) and draft[depth] == choice.token_id:
                going_on.append(i)
        active = going_on
    for i, chunk in enumerate(chunks):
        chunk.state.advance(max(0, len(yielded[i]) - 1))
    return [errors.get(i, tokens) for i, tokens in enumerate(yielded)]


def measure_step_cost(runner: ModelRunner, clock: Clock | None = None) -> StepCost:
    """Returns what a step of one sequence takes on this device, from steps of one and of several tokens.

    Overwrites KV blocks: nothing may be in them yet.

    Args:
        runner: The model.
        clock: By default processor time on a CPU, for a busy machine would mislead, and the time that passes elsewhere.
    """
    clock = clock or (ProcessorClock() if runner.cache.pool.device.type == "cpu" else MonotonicClock())
    size = runner.cache.block_size
    num_blocks = min(runner.cache.num_blocks, -(-(_PROBED_KV_TOKENS + 1 + MAX_DRAFT_TOKENS) // size))
    num_tokens = min(num_blocks * size, runner.cache.config.max_model_len)  # there are no positions beyond
    num_drafted = min(MAX_DRAFT_TOKENS, num_tokens - 1)
    if num_drafted < 1:
        return StepCost(0.0, 0.0)
    kv_len, blocks = num_tokens - 1 - num_drafted, list(range(num_blocks))
    runner.cache.clear(blocks)
    one_s = all_s = math.inf
    until_s = clock.now_s() + _PROBE_S
    for index in range(_NUM_PROBES):
        one_s = min(one_s, _probe_s(runner, clock, kv_len, blocks, 0))
        all_s = min(all_s, _probe_s(runner, clock, kv_len, blocks, num_drafted))
        if index and clock.now_s() > until_s:  # the first ones warm up
            break
    row_s = max(0.0, all_s - one_s) / num_drafted
    return StepCost(max(0.0, one_s - row_s), row_s)


def _probe_s(runner: ModelRunner, clock: Clock, kv_len: int, blocks: list[int], num_drafted: int) -> float:
    state = SequenceState(request_id="probe", token_ids=[0] * (kv_len + 1), blocks=blocks)
    state.advance(kv_len)
    before_s = clock.now_s()
    _, logits = runner.run([Chunk(state, 1, (0,) * num_drafted)])
    assert logits is not None
    logits.sum().item()  # waits for the device
    return clock.now_s() - before_s
