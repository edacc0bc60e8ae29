# SPDX-License-Identifier: Apache-2.0
"""The one source of step times: what steps, segments and prompts take, learned from every step that the loop runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from llm_planner.core.execution_time import (
    ALONE,
    MOST_DECODED_TOKENS,
    CoBatch,
    DecodeLine,
    EngineTimes,
    ExecutionTime,
    WorkChunk,
)
from llm_planner.core.request import Urgency
from llm_planner.core.step import SchedulerOutput
from llm_planner.scheduling.generation import Generation
from llm_planner.scheduling.policies.interface import GenerationView
from llm_planner.scheduling.policies.pricing import SUB_QUEUE_TOKENS
from llm_planner.scheduling.step_model import DEFAULT_FREE_TOKENS, DEFAULT_STEP_S, MOST_OFF, StepModel

ENOUGH_STEPS = 8
"""Decode steps after which a learned time is believed."""
DEFAULT_SEGMENT_STEPS = 10.0
"""Before a segment of its kind was seen: the bound of TimelyLLM, section 7.1, a token per step."""
FORGETTING = 1 / 32
"""Weight of a step in a maximum that follows what steps take."""

_Kind = tuple[str, Urgency, bool]


class StepTimes:
    """Learns from each step and each segment once; answers everything that is asked about the engine's time.

    ==========================  =============================================================  =====================
    question                    answer                                                         asked by
    ==========================  =============================================================  =====================
    mean of a step              ``step_s``; ``model`` has its parts                            batch limit, pipeline
    upper bound of a step       ``decode_bound_s``, ``bound_s``                                deadlines
    segment, by kind, mean      ``generation_time_s``, ``remaining_steps``: G of TimelyLLM     ranking, batch limit
    segment, KV brought back    ``resume_lead_s``                                              when to resume
    cost of a prompt chunk      ``chunk_s``, ``free_tokens``                                   ranking, budgets
    a whole execution           ``engine``: by the profile, or what was learned                budgets
    ==========================  =============================================================  =====================

    The number of steps of a kind is on the cautious side, because a robot that waits loses more than an early segment
    costs; the step is the mean, because ranking compares generations with each other. The paper takes 90 ms and at
    most 10 tokens for every segment. Deviation: steps are modelled, and how many of them a segment takes is learned,
    apart for each robot model, urgency, and first or later segment.

    Args:
        network_latency_s: One-way delay between planner and robot.
        engine: Times by a profile; None to learn them from the steps.

    Attributes:
        model: Mean time of a step.
        engine: Times of a whole execution.
    """

    def __init__(self, network_latency_s: float = 0.0, engine: EngineTimes | None = None) -> None:
        self.network_latency_s = network_latency_s
        self.model = StepModel()
        self.engine: EngineTimes = engine or _LearnedTimes(self.model)
        if engine is not None:  # what is known before the first step
            self.model.observe(engine.expected.decode_line(1).q_s, 0, 1)
        self._bound = _StepBound()
        self._told_at_s: float | None = None  # when a step, or the time without one, was last told of
        self._kinds: dict[_Kind, SmoothedBound] = {}

    # --- What is learned

    def observe_step(
        self,
        chunks: Sequence[WorkChunk],
        duration_s: float,
        *,
        num_prompt_tokens: int = 0,
        num_prompts: int = 1,
        cycle_s: float | None = None,
        moves_kv: bool = False,
        num_moved_tokens: int = 0,
    ) -> None:
        """Learns from one step.

        Args:
            chunks: That it computed, one per sequence; a step without, or one that was given up, says nothing.
            duration_s: That it took.
            num_prompt_tokens: Of the chunks, what belongs to prompts.
            num_prompts: How many chunks belong to prompts, if any.
            cycle_s: Until each of its sequences may have its next token: in a pipeline, all micro-batches have their
                turn before; None for ``duration_s``.
            moves_kv: Whether it also moved or evicted KV: such a step says nothing of computing.
            num_moved_tokens: Tokens whose KV it also moved to host memory or back; 0 if it evicted some, too.
        """
        cycle_s = duration_s if cycle_s is None else cycle_s
        if not any(num_tokens for num_tokens, _ in chunks):
            return
        self._bound.observe(_num_prompt_tokens(num_tokens for num_tokens, _ in chunks), duration_s)
        if not moves_kv:
            self.engine.observe(chunks, cycle_s)
        if num_moved_tokens:
            computing_s = self.model.step_s(num_prompt_tokens, len(chunks), num_prompts)
            self.model.observe_move(num_moved_tokens, duration_s - computing_s)
        self.model.observe(cycle_s, num_prompt_tokens, len(chunks), num_prompts)

    def pass_time(self, now_s: float, *, ran_step: bool) -> None:
        """Notes what has been until now, since it was last told: a step, or nothing."""
        if self._told_at_s is not None and not ran_step:
            self.engine.rest(max(0.0, now_s - self._told_at_s))
        self._told_at_s = now_s

    def observe_segment(self, generation: GenerationView, num_steps: int) -> None:
        """Learns from a segment of ``num_steps`` that ``generation`` completed as its ``num_segments``-th."""
        kind = _kind(generation)
        if kind not in self._kinds:
            self._kinds[kind] = SmoothedBound(DEFAULT_SEGMENT_STEPS)
        self._kinds[kind].observe(num_steps)

    # --- A step

    @property
    def step_s(self) -> float:
        """Mean time of a decode step, or what steps took of late if that was longer."""
        return max(self.model.base_s, self.model.recent_s)

    @property
    def decode_bound_s(self) -> float:
        """Seconds of a step without prompt tokens, at most."""
        return self._bound.decode_s

    def bound_s(self, scheduled: SchedulerOutput) -> float:
        """Returns the seconds that a step may take at most."""
        return self._bound.bound_s(_num_prompt_tokens(scheduled.num_scheduled_tokens.values()))

    # --- A prompt chunk

    @property
    def free_tokens(self) -> int:
        """How many prompt tokens a step takes without becoming longer; or twice as long, if none are hidden."""
        return self.model.free_tokens

    def chunk_s(self, num_prompt_tokens: int) -> float:
        """Returns the seconds that a chunk of a prompt adds to a step."""
        return max(0.0, self.model.prompts_s(num_prompt_tokens) - self.step_s)

    def move_s(self, num_tokens: int) -> float:
        """Returns how long the batch waits while the KV of so many tokens moves to host memory and back."""
        return 2 * self.engine.expected.restore_s(num_tokens)

    # --- A segment

    def remaining_steps(self, generation: GenerationView) -> float:
        """Returns how many steps its segment still needs, on the cautious side; >= 1."""
        bound = self._kinds.get(_kind(generation))
        num_steps = (DEFAULT_SEGMENT_STEPS if bound is None else bound.bound) - generation.num_segment_steps
        return max(1.0, num_steps)

    def generation_time_s(self, generation: GenerationView) -> float:
        """Returns how long its next segment takes if it runs from now on: G(s_k) of TimelyLLM, Eq. (4)."""
        time_s = self.step_s * self.remaining_steps(generation)
        if not generation.is_decoding:
            time_s += self.chunk_s(-(-generation.num_uncomputed_tokens // SUB_QUEUE_TOKENS) * SUB_QUEUE_TOKENS)
        return time_s

    def resume_lead_s(self, generation: Generation) -> float:
        """Returns how long its next segment takes from now on, and before that bringing back what it lost of its KV."""
        time_s = self.generation_time_s(generation)  # with computing it, where it was dropped
        if generation.is_offloaded:
            time_s += self.engine.cautious.restore_s(generation.kv_len - generation.sequence.num_cached_tokens)
        return time_s


class SmoothedBound:
    """An upper estimate of a noisy quantity: smoothed mean plus twice the smoothed mean deviation.

    The estimator of TCP's retransmission timer (Jacobson 1988), with its gains of 1/8 and 1/4.

    Args:
        initial: The bound before anything was observed.

    Attributes:
        bound: The estimate.
    """

    __slots__ = ("_deviation", "_mean", "bound")

    def __init__(self, initial: float) -> None:
        self.bound = initial
        self._mean: float | None = None
        self._deviation = 0.0

    def observe(self, value: float) -> None:
        """Learns from one observation >= 0."""
        if self._mean is None:
            self._mean, self._deviation = value, value / 2
        else:
            error = value - self._mean
            self._mean += error / 8
            self._deviation += (abs(error) - self._deviation) / 4
        self.bound = self._mean + 2 * self._deviation


class _StepBound:
    """An upper estimate of a step: the longest decode step of late, and the dearest prompt token on top of it.

    A maximum that is slowly forgotten, where ``StepModel`` is a mean: a mean is exceeded by every other step. Only
    further steps make it forget, so none raises it to more than ``MOST_OFF`` times as much.
    """

    def __init__(self) -> None:
        self._decode_s: float | None = None
        self._per_token_s: float | None = None

    def observe(self, num_prompt_tokens: int, duration_s: float) -> None:
        if num_prompt_tokens == 0:
            self._decode_s = _forgetful_maximum(self._decode_s, duration_s)
        elif self._decode_s is not None:
            per_token_s = max(0.0, duration_s - self._decode_s) / num_prompt_tokens
            self._per_token_s = _forgetful_maximum(self._per_token_s, per_token_s, self._usual_per_token_s)

    @property
    def decode_s(self) -> float:
        return DEFAULT_STEP_S if self._decode_s is None else self._decode_s

    def bound_s(self, num_prompt_tokens: int) -> float:
        per_token_s = self._usual_per_token_s if self._per_token_s is None else self._per_token_s
        return self.decode_s + per_token_s * num_prompt_tokens

    @property
    def _usual_per_token_s(self) -> float:
        return self.decode_s / DEFAULT_FREE_TOKENS


@dataclass(frozen=True, slots=True)
class _LearnedTime:
    """Steps take what the step model says, times a factor. It tells batches apart, but no cache lengths."""

    model: StepModel
    factor: float

    def prefill_s(self, num_tokens: int, kv_len: int, chunk_tokens: int, co_batch: CoBatch = ALONE) -> float:
        num_full, rest = divmod(num_tokens, chunk_tokens)
        num_seqs = co_batch.num_seqs + 1
        time_s = num_full * self.model.step_s(chunk_tokens, num_seqs)
        return self.factor * (time_s + (self.model.step_s(rest, num_seqs) if rest else 0.0))

    def decode_line(self, num_seqs: int) -> DecodeLine:
        return DecodeLine(self.factor * self.model.step_s(0, num_seqs), 0.0)

    def evict_s(self, num_tokens: int) -> float:
        return 0.0  # it knows no cache lengths, so nothing is evicted

    def restore_s(self, num_tokens: int) -> float:
        return self.factor * self.model.move_s * num_tokens


class _LearnedTimes:
    """Implements ``EngineTimes`` without a profile: the step model, and how far single steps are off from it."""

    drift = None
    source = "learned from the steps"

    def __init__(self, model: StepModel) -> None:
        self._model = model
        self._num_steps = 0
        self._deviation = 0.0

    @property
    def expected(self) -> ExecutionTime:
        """As learned."""
        return _LearnedTime(self._model, 1.0)

    @property
    def cautious(self) -> ExecutionTime:
        """Longer by twice the smoothed mean deviation of single steps."""
        return _LearnedTime(self._model, 1.0 + 2.0 * self._deviation)

    @property
    def is_known(self) -> bool:
        """Whether enough decode steps were seen."""
        return self._num_steps >= ENOUGH_STEPS

    def observe(self, chunks: Sequence[WorkChunk], duration_s: float) -> None:
        """Notes how far a decode step was off."""
        if _num_prompt_tokens(num_tokens for num_tokens, _ in chunks):
            return
        self._num_steps += 1
        expected_s = self._model.step_s(0, len(chunks))
        if expected_s <= 0.0:  # of an engine whose steps take no time
            return
        off = abs(duration_s / expected_s - 1.0)
        self._deviation += (min(1.0, off) - self._deviation) / 16

    def rest(self, idle_s: float) -> None:
        """Forgets nothing: there is no profile to return to."""


def _kind(generation: GenerationView) -> _Kind:
    request = generation.request
    return (request.robot_model, request.urgency, generation.num_segments == 0)


def _num_prompt_tokens(num_tokens: Iterable[int]) -> int:
    """Returns how many tokens of a step belong to prompts, where only the chunks tell: small ones are decoded."""
    return sum(n for n in num_tokens if n > MOST_DECODED_TOKENS)


def _forgetful_maximum(maximum: float | None, value: float, least: float = 0.0) -> float:
    """Returns a maximum with one more value.

    One value raises it to ``MOST_OFF`` times as much at most, or as ``least`` if that is more: a hiccup is no bound.
    """
    if not maximum:
        return value
    value = min(value, MOST_OFF * max(maximum, least))
    return max(value, maximum + FORGETTING * (value - maximum))
