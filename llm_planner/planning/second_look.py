# SPDX-License-Identifier: Apache-2.0
"""A second look at a plan that must not be executed as it is: what else the model may have meant by it.

The right plan of a small model is often its second likeliest: behind one that contradicts the instruction, or beside
one with which it shares its probability. Where the model could have chosen another token (``confidence.Fork``), another
plan begins. The likeliest of these beginnings is written to its end, which shows where further plans begin, and so on:
a best-first search (Meister, Vieira and Cotterell, "Best-First Beam Search", TACL 2020, section 3). Plans that
contradict the instruction, or are none, are left out; those that say the same count together (Kuhn, Gal and Farquhar,
"Semantic Uncertainty", ICLR 2023, Eq. (2)), and a plan is as sure as its share of what is left. What is begun and not
written counts as others: no plan is sure because time was short.

Deviation: a beam has as many hypotheses as its width at each length; here whole plans are counted, because a plan of
which nothing is doubtful has nothing to be looked at. Plans that are worded in two ways and do the same are two.
"""

import heapq
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.segment import Segment, SegmentReport
from llm_planner.core.step import TokenChoice
from llm_planner.planning.session import (
    CONFIRM,
    MAX_CANDIDATES,
    ContradictedError,
    PlanSession,
    Progress,
    UnsureError,
)

MAX_PLANS = 6
"""Written in all, the first one among them: two and three are too few (docs/training.md)."""
ENOUGH = 0.97
"""Once the plans that were written have this probability together, no other is looked for."""
LEAST_FORK = math.log(0.005)
"""Natural logarithm of the least probability up to and with its first other token of a plan that is looked for."""
LEAST_PLAN = 0.05
"""Probability of a plan below which it is not executed, whatever its share: else what the model nearly ruled out would
be sure as soon as all the rest is refused."""

_IS_NO_PLAN = frozenset((ErrorCode.PLAN_SYNTAX, ErrorCode.EMPTY_PLAN, ErrorCode.PLAN_TRUNCATED))
_IS_UNDECIDED = PlannerError(ErrorCode.NOT_UNDERSTOOD, "not understood: other plans are looked for")


@dataclass(frozen=True, slots=True)
class Instead:
    """What there is instead of a plan that must not be executed as it is.

    Attributes:
        token_ids: What the model has written from now on.
        progress: What comes of it, which is the end; None if the model goes on behind them and writes another plan.
    """

    token_ids: tuple[int, ...]
    progress: Progress | None = None


@dataclass(slots=True, kw_only=True)
class _Plan:
    """A plan that is being written, or has been."""

    session: PlanSession
    num_given: int = 0
    token_ids: list[int] = field(default_factory=list)
    choices: list[TokenChoice] = field(default_factory=list)
    segments: tuple[Segment, ...] = ()
    error: PlannerError | None = None

    def note(self, progress: Progress) -> Progress:
        self.segments += progress.segments
        self.error = progress.error
        return progress

    @property
    def text(self) -> str:
        return "".join(segment.text for segment in self.segments)

    @property
    def means(self) -> tuple[str, ErrorCode | None]:
        """Plans with the same say the same."""
        return (self.text, None) if self.error is None else ("", self.error.code)


@dataclass(slots=True)
class _Answer:
    """Plans that say the same, with their probability; the likeliest is written first."""

    plan: _Plan
    probability: float = 0.0


class SecondLook:
    """Reads a plan as ``PlanSession`` does and, where that must not be executed, what else may have been meant.

    Only what nothing was done of can be looked at again: whoever sends segments asks ``instead`` no more then.

    Args:
        session: Reads the first plan.
        new_session: Returns a fresh session for another one.
        eos_token_ids: Tokens that end a plan.
        min_confidence: How sure a plan must be.
        in_words: Returns a plan in words, for people.
    """

    def __init__(
        self,
        session: PlanSession,
        new_session: Callable[[], PlanSession],
        *,
        eos_token_ids: Collection[int],
        min_confidence: float,
        in_words: Callable[[str], str] = str,
    ) -> None:
        self._new_session = new_session
        self._eos_token_ids = eos_token_ids
        self._min_confidence = min_confidence
        self._in_words = in_words
        self._first = self._plan = _Plan(session=session)
        self._forks: list[tuple[float, int, list[int], list[TokenChoice]]] = []  # the likeliest first
        self._counter = itertools.count()
        self._answers: dict[tuple[str, ErrorCode | None], _Answer] = {}
        self._num_plans, self._seen = 0, 0.0
        self._first_error: PlannerError | None = None
        self._share: float | None = None
        self._is_closed = False

    # --- As ``PlanSession``

    @property
    def is_complete(self) -> bool:
        """Whether the plan has ended: nothing is left to generate."""
        return self._plan.session.is_complete

    @property
    def is_closable(self) -> bool:
        """Whether closing the plan here would add a segment."""
        return self._plan.session.is_closable

    @property
    def confidence(self) -> float:
        """How sure the model is, 0 to 1: of the least sure statement or, after a second look, the share of the plan."""
        return self._plan.session.confidence if self._share is None else self._share

    def feed(self, token_ids: Iterable[int], choices: Sequence[TokenChoice] = ()) -> Progress:
        """Returns what the next tokens of the model brought about; of another plan, only that it has ended."""
        token_ids = tuple(token_ids)
        self._plan.token_ids += token_ids
        self._plan.choices += choices
        return self._shown(self._plan.note(self._plan.session.feed(token_ids, choices)))

    def finish(self) -> Progress:
        """Returns what the end of the generation brought about."""
        return self._shown(self._plan.note(self._plan.session.finish()))

    def close(self) -> Progress:
        """Ends the plan behind its last whole statement; returns the segment, if any, that this adds."""
        return self._plan.session.close()

    def begin_replan(self, failure: SegmentReport) -> Segment:
        """Begins to read a plan that goes on around a failure; it is not looked at again."""
        self._is_closed, self._share = True, None
        return self._plan.session.begin_replan(failure)

    def _shown(self, progress: Progress) -> Progress:
        if self._plan is self._first or self._is_closed:
            return progress
        return Progress(error=progress.error or _IS_UNDECIDED, is_complete=True) if progress.is_complete else Progress()

    # --- The second look

    def instead(self, error: PlannerError, *, may_write: bool = True) -> Instead | None:
        """Returns what there is instead of the plan that has just ended; None if it stays as it is.

        Args:
            error: Why it must not be executed.
            may_write: Whether there is time for another plan; else those that are written decide.
        """
        if self._is_closed or error.code is ErrorCode.ENGINE_FAILED:
            return None
        self._plan.error = self._plan.error or (None if error is _IS_UNDECIDED else error)
        self._first_error = self._first_error or self._plan.error
        if self._plan is self._first and not self._is_doubtful(self._plan):
            self._is_closed = True
            return None
        self._book()
        while may_write and self._begin_next():
            if not self._plan.session.is_complete:
                return Instead(tuple(self._plan.token_ids))
            self._book()
        return self._decide()

    def _is_doubtful(self, plan: _Plan) -> bool:
        """Whether something else may have been meant: not by a model that is sure that it cannot be done, or asks."""
        if isinstance(plan.error, UnsureError | ContradictedError) or _is_none(plan):
            return True
        return math.exp(plan.session.plan_logprob) < self._min_confidence

    def _book(self) -> None:
        """Counts the plan that has been written, and where others begin."""
        plan = self._plan
        self._num_plans += 1
        probability = math.exp(plan.session.plan_logprob)
        self._seen += probability
        for fork in plan.session.forks:
            if fork.num_tokens >= plan.num_given and fork.logprob >= LEAST_FORK:
                token_ids = [*plan.token_ids[: fork.num_tokens], fork.choice.token_id]
                choices = [*plan.choices[: fork.num_tokens], fork.choice]
                heapq.heappush(self._forks, (-fork.logprob, next(self._counter), token_ids, choices))
        if isinstance(plan.error, UnsureError):
            plan.segments, plan.error = (*plan.segments, *plan.session.doubted), None
        if not (isinstance(plan.error, ContradictedError) or _is_none(plan)):
            self._answers.setdefault(plan.means, _Answer(plan)).probability += probability

    def _begin_next(self) -> bool:
        """Begins to read the likeliest plan that is not written yet; returns whether there is one worth it."""
        if not self._forks or self._num_plans >= MAX_PLANS or self._seen >= ENOUGH:
            return False
        _, _, token_ids, choices = heapq.heappop(self._forks)
        is_whole = token_ids[-1] in self._eos_token_ids
        if is_whole:
            token_ids.pop()
        self._plan = _Plan(session=self._new_session(), num_given=len(choices), token_ids=token_ids, choices=choices)
        progress = self._plan.note(self._plan.session.feed(token_ids, choices))
        if is_whole and not progress.is_complete:
            self._plan.note(self._plan.session.finish())
        return True

    def _decide(self) -> Instead:
        """Returns the likeliest answer, if it is sure enough, or why there is none."""
        self._is_closed = True
        answers = sorted(self._answers.values(), key=lambda answer: answer.probability, reverse=True)
        plans = [answer for answer in answers if answer.plan.error is None]
        best = answers[0] if answers and self._is_final(answers[0]) else next(iter(plans), None)
        if best is None:
            self._plan = self._first
            return Instead(tuple(self._first.token_ids), Progress(error=self._first_error, is_complete=True))
        error = best.plan.error or self._doubt(answers, best)
        self._plan, self._share = best.plan, self._share_of(best)
        token_ids = tuple(best.plan.token_ids)
        if error is None:
            return Instead(token_ids, Progress(best.plan.segments, is_complete=True))
        candidates = tuple(answer.plan.text for answer in plans[:MAX_CANDIDATES]) if best in plans else ()
        return Instead(token_ids, Progress(error=error, is_complete=True, candidates=candidates))

    def _is_final(self, answer: _Answer) -> bool:
        """Whether the likeliest answer is that nothing is done: what the model said first, or is sure of."""
        is_sure = self._share_of(answer) >= self._min_confidence and answer.probability >= LEAST_PLAN
        return answer.plan.error is not None and (answer.plan is self._first or is_sure)

    def _share_of(self, answer: _Answer) -> float:
        """Returns how sure an answer is: its share of the answers, and of what is not written and may be one."""
        if self._num_plans == 1 or answer.probability < LEAST_PLAN:  # then the share says nothing
            return answer.probability
        begun = sum(math.exp(-rank) for rank, *_ in self._forks)
        rest = min(max(0.0, 1.0 - self._seen - begun), 1.0 - ENOUGH)  # beyond that it is mostly none
        return answer.probability / (sum(each.probability for each in self._answers.values()) + begun + rest)

    def _doubt(self, answers: Sequence[_Answer], best: _Answer) -> PlannerError | None:
        """Returns why the likeliest plan is not executed; None if it is."""
        share = self._share_of(best)
        if best is answers[0] and share >= self._min_confidence and best.probability >= LEAST_PLAN:
            return None
        if isinstance(self._first_error, ContradictedError) and best is not answers[0]:
            return self._first_error
        return UnsureError(f"only {share:.0%} sure that this is meant: {self._in_words(best.plan.text)}", CONFIRM)


def _is_none(plan: _Plan) -> bool:
    return plan.error is not None and plan.error.code in _IS_NO_PLAN
