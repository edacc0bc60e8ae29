# SPDX-License-Identifier: Apache-2.0
"""Guesses what a plan will say next, for the model to verify in one step.

Names are looked up in the prompt, behind the last place where it reads like the end of the output (prompt lookup
decoding, Saxena 2023). The words between the names are what earlier plans of the same grammar said in such a place.
A guess costs time and can be wrong; what the plan says is the model's choice alone.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from llm_planner.engine.grammar import Matcher

MAX_DRAFT_TOKENS = 8
LEAST_PROBABILITY = 0.1
"""A worse guess is not worth the planner's own time."""

_PATTERN_LENGTH = 4
_TAIL_LENGTH = 2
_MAX_PATTERNS = 1 << 16
_COPIED = -1  # stands for a run of tokens that occur in the prompt: a name, whatever it is
_START = -2


class Place(NamedTuple):
    """Where an output stands.

    Attributes:
        tail: Its last tokens.
        pattern: Its last tokens, with the names taken out.
    """

    tail: tuple[int, ...] = ()
    pattern: tuple[int, ...] = (_START,)


class Guess(NamedTuple):
    """A token that may come next.

    Attributes:
        source: What kind of guess it is: those of one kind are right about equally often.
    """

    token_id: int
    probability: float
    source: tuple[int, bool] | None = None


class PlanHabits:
    """What the plans of one grammar said so far: which token followed which pattern, and which guesses were right.

    Plans of another adapter are counted apart. It forgets the patterns that were not seen for the longest time.
    """

    def __init__(self) -> None:
        self._next: OrderedDict[tuple[int, ...], dict[int, int]] = OrderedDict()
        self._odds: dict[tuple[int, bool], tuple[int, int]] = {}

    def learn(self, pattern: tuple[int, ...], token_id: int) -> None:
        """Counts one token of a plan."""
        for start in range(len(pattern)):
            counts = self._next.setdefault(pattern[start:], {})
            counts[token_id] = counts.get(token_id, 0) + 1
            self._next.move_to_end(pattern[start:])
        while len(self._next) > _MAX_PATTERNS:
            self._next.popitem(last=False)

    def guess(self, pattern: tuple[int, ...]) -> Guess | None:
        """Returns what came most often behind the longest end of ``pattern`` that was seen, or None."""
        for start in range(len(pattern)):
            counts = self._next.get(pattern[start:])
            if counts:
                token_id = max(counts, key=lambda token: counts[token])
                return Guess(token_id, counts[token_id] / (sum(counts.values()) + 0.5))
        return None

    def probability(self, source: tuple[int, bool]) -> float:
        """Returns how often guesses of a kind were right; half of them, before one was made."""
        num_right, num_made = self._odds.get(source, (0, 0))
        return (num_right + 1) / (num_made + 2)

    def score(self, source: tuple[int, bool], *, is_right: bool) -> None:
        """Counts one guess."""
        num_right, num_made = self._odds.get(source, (0, 0))
        self._odds[source] = (num_right + is_right, num_made + 1)


class Drafter:
    """Follows one output and guesses how it goes on.

    Args:
        prompt: The part of the prompt that is the request's own.
        habits: Of the request's grammar.
        output: Tokens that it brings with it.
    """

    def __init__(self, prompt: Sequence[int], habits: PlanHabits, output: Iterable[int] = ()) -> None:
        self._habits = habits
        self._words = frozenset(prompt)
        self._followers = {
            tuple(prompt[start : start + length]): prompt[start + length]
            for length in range(1, _TAIL_LENGTH + 1)
            for start in range(len(prompt) - length)
        }
        self._place = Place()
        self._draft: list[Guess] = []
        for token_id in output:
            self._place = self._step(self._place, token_id)

    def advance(self, token_ids: Iterable[int]) -> None:
        """Learns what the plan says next, and from it how good the draft was."""
        for index, token_id in enumerate(token_ids):
            if index < len(self._draft):
                guess = self._draft[index]
                is_right = guess.token_id == token_id
                if guess.source is not None:
                    self._habits.score(guess.source, is_right=is_right)
                if not is_right:
                    self._draft.clear()
            self._habits.learn(self._place.pattern, token_id)
            self._place = self._step(self._place, token_id)
        self._draft.clear()

    def draft(self, matcher: Matcher | None, max_tokens: int, least_probability: float) -> tuple[int, ...]:
        """Returns tokens that the grammar allows and that will all come with at least this probability, as guessed."""
        place, fork = self._place, None if matcher is None else matcher.fork()
        left = 1.0
        while len(self._draft) < max_tokens:
            guess = self._guess(place, fork)
            left *= 0.0 if guess is None else guess.probability
            if guess is None or left < least_probability or not (fork is None or fork.try_accept(guess.token_id)):
                break
            self._draft.append(guess)
            place = self._step(place, guess.token_id)
        return tuple(guess.token_id for guess in self._draft)

    def _guess(self, place: Place, matcher: Matcher | None) -> Guess | None:
        """Returns the forced token, or the better one of what the prompt and what earlier plans say."""
        forced = None if matcher is None else matcher.forced_token()
        if forced is not None:
            return Guess(forced, 1.0)
        habit = self._habits.guess(place.pattern)
        copy = self._look_up(place.tail, habit)
        allowed = [g for g in (copy, habit) if g is not None and (matcher is None or matcher.allows(g.token_id))]
        return max(allowed, key=lambda guess: guess.probability, default=None)

    def _look_up(self, tail: tuple[int, ...], habit: Guess | None) -> Guess | None:
        """Returns what follows the last place in the prompt that reads like the end of the output."""
        for start in range(len(tail)):
            token_id = self._followers.get(tail[start:])
            if token_id is not None:
                source = (len(tail) - start, habit is not None and habit.token_id == token_id)
                return Guess(token_id, self._habits.probability(source), source)
        return None

    def _step(self, place: Place, token_id: int) -> Place:
        tail = (*place.tail, token_id)[-_TAIL_LENGTH:]
        if token_id not in self._words:
            return Place(tail, (*place.pattern, token_id)[-_PATTERN_LENGTH:])
        is_inside = place.pattern[-1] == _COPIED
        return Place(tail, place.pattern if is_inside else (*place.pattern, _COPIED)[-_PATTERN_LENGTH:])


@dataclass(frozen=True, slots=True)
class StepCost:
    """``base + row R`` seconds for a step that computes ``R`` tokens, as far as R tells.

    Attributes:
        base_s: Reading the weights, starting kernels: once per step.
        row_s: Each token.
    """

    base_s: float
    row_s: float

    def least_probability(self, num_seqs: int) -> float:
        """Returns from which probability on a drafted token pays in a step of ``num_seqs`` generations.

        A right one saves its sequence a row of a later step and its share of that step; any one costs a row.
        """
        saved_s = self.row_s + self.base_s / max(1, num_seqs)
        return max(LEAST_PROBABILITY, self.row_s / saved_s) if saved_s > 0 else LEAST_PROBABILITY
