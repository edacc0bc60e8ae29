# SPDX-License-Identifier: Apache-2.0
"""Notices a model that is stuck: ``g(stoolstoolstoolstool``, ``say('to mymymymymy``, ``I am fine. I am fine. I am``.

Models fall into such loops where they do not know what to write, and stay there until a limit of characters or tokens
stops them (Holtzman et al., ICLR 2020). What they wrote names nothing, so no limit of the sampler makes a plan of it:
it is refused as soon as it is beyond doubt. Of a plan, words are looked at, and steps that do to things what was done
to them before, in whatever order. Other steps (a square is four times the same) and numbers in a list may repeat as
often as a plan needs, spoken words (``beep beep beep``) more often than a listener wants them.
"""

import re
from collections.abc import Sequence

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.language.lexer import QUOTES

MAX_GROUP = 16
"""Longest group of characters whose repetition is noticed."""
MAX_REPETITION = 24
"""Most characters of a word that may repeat a group; of a group longer than 8, three times the group."""
MAX_GROUP_WORDS = 40
"""Longest group of words of an answer whose repetition is noticed: a long sentence or two."""
MAX_REPETITION_WORDS = 48
"""Most words of an answer that may repeat a group; of a group longer than 16, three times the group."""
MAX_REPETITION_SPOKEN = 24
"""The same of the words that a robot says at a time; those of a group longer than 8, three times the group."""
MAX_REPEATED_STEPS = 12
"""Most statements of a plan that may repeat an earlier one, word for word, if they name something."""

_LONGEST = max(MAX_REPETITION, 3 * MAX_GROUP) + 1
_MOST_WORDS = max(MAX_REPETITION_WORDS, 3 * MAX_GROUP_WORDS) + 1
_NAMES = re.compile(r"[(,][A-Za-z]")  # an argument that is neither number nor text


class WordWatch:
    """Follows a plan character by character; what it remembers is the word at its end."""

    def __init__(self) -> None:
        self._word = ""

    def feed(self, character: str) -> None:
        """Takes the next character.

        Raises:
            PlannerError: PLAN_SYNTAX if the word that it belongs to repeats a group of characters for too long.
        """
        if not (character.isalnum() or character == "_"):
            self._word = ""
            return
        self._word = (self._word + character)[-_LONGEST:]
        group = "".join(repeated_group(self._word))
        if group:
            problem = f"the model is stuck: it writes {group!r} again and again in one word"
            raise PlannerError(ErrorCode.PLAN_SYNTAX, f"{problem}; rephrase the task")


class StepWatch:
    """Follows a plan statement by statement: one that picks and places the same things over and over gets nowhere."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._num_repeated = 0

    def feed(self, step: str) -> None:
        """Takes the next statement.

        Raises:
            PlannerError: PLAN_SYNTAX if it names something and was said before, as too many of this plan were.
        """
        if not _NAMES.search(step):
            return
        self._num_repeated += step in self._said
        self._said.add(step)
        if self._num_repeated > MAX_REPEATED_STEPS:
            problem = f"the model is stuck: it plans {step!r} and other steps again and again"
            raise PlannerError(ErrorCode.PLAN_SYNTAX, f"{problem}; rephrase the task")


class AnswerWatch:
    """Follows an answer in words character by character; what it remembers is its last words.

    Args:
        max_repetition: Most words that may repeat a group.
    """

    def __init__(self, max_repetition: int = MAX_REPETITION_WORDS) -> None:
        self._max_repetition = max_repetition
        self._word = WordWatch()
        self._letters: list[str] = []
        self._words: list[str] = []

    def feed(self, character: str) -> None:
        """Takes the next character.

        Raises:
            PlannerError: PLAN_SYNTAX if the answer repeats a group of characters in a word, or of words, for too long.
        """
        self._word.feed(character if character.isalnum() else " ")  # a line to write on is no word
        if character.isalnum():
            self._letters.append(character)
        elif self._letters:
            self._words = [*self._words, "".join(self._letters)][-_MOST_WORDS:]
            self._letters = []
            group = " ".join(repeated_group(self._words, MAX_GROUP_WORDS, self._max_repetition))
            if group:
                problem = f"the model is stuck: it says {group!r} again and again"
                raise PlannerError(ErrorCode.PLAN_SYNTAX, f"{problem}; ask in other words")


class TextWatch:
    """Follows the texts in a plan character by character: what a robot says is watched as an answer is."""

    def __init__(self) -> None:
        self._text: AnswerWatch | None = None
        self._quote = ""  # with which it began
        self._is_escaped = False

    def feed(self, character: str) -> None:
        """Takes the next character of the plan.

        Raises:
            PlannerError: PLAN_SYNTAX if the text that it belongs to repeats a group of words for too long.
        """
        if self._text is None:
            if character in QUOTES:
                self._text, self._quote = AnswerWatch(MAX_REPETITION_SPOKEN), character
        elif character == self._quote and not self._is_escaped:
            self._text = None
        else:
            self._is_escaped = character == "\\" and not self._is_escaped
            self._text.feed(character)


def repeated_group(
    items: Sequence[str], max_group: int = MAX_GROUP, max_repetition: int = MAX_REPETITION
) -> Sequence[str]:
    """Returns the shortest group that the end of ``items`` repeats for too long; empty if there is none."""
    for size in range(1, max_group + 1):
        length = max(max_repetition, 3 * size) + 1
        if len(items) < length:
            break
        end = items[-length:]
        if end[size:] == end[:-size]:
            return end[:size]
    return ()
