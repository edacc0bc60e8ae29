"""Notices a model that is stuck in a word: ``g(stoolstoolstoolstool``, ``say('to mymymymymy``.

Small models fall into such loops where they do not know what to write, and stay there until a limit of characters or
tokens stops them (Holtzman et al., ICLR 2020). What they wrote names nothing, so no limit of the sampler makes a plan
of it: it is refused as soon as it is beyond doubt. Only words are looked at. Steps, numbers in a list and spoken
words (``beep beep beep``) may repeat as often as a plan needs.
"""

from llm_planner.core.errors import ErrorCode, PlannerError

MAX_GROUP = 16
"""Longest group of characters whose repetition is noticed."""
MAX_REPETITION = 24
"""So many characters of a word may repeat a group; those of a group longer than 8, three times the group."""

_LONGEST = max(MAX_REPETITION, 3 * MAX_GROUP) + 1


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
        group = repeated_group(self._word)
        if group:
            problem = f"the model is stuck: it writes {group!r} again and again in one word; rephrase the task"
            raise PlannerError(ErrorCode.PLAN_SYNTAX, problem)


def repeated_group(word: str) -> str:
    """Returns the shortest group of characters that the end of ``word`` repeats for too long; empty if none."""
    for size in range(1, MAX_GROUP + 1):
        length = max(MAX_REPETITION, 3 * size) + 1
        if len(word) < length:
            break
        end = word[-length:]
        if end[size:] == end[:-size]:
            return end[:size]
    return ""
