# SPDX-License-Identifier: Apache-2.0
"""Which names a plan may use: those that the scene or the task mentions, in whatever number or spelling."""

import re
from collections.abc import Iterable

_WORD = re.compile(r"[^\W\d_]+")
_THING = re.compile(r"\b(?:the|an?) ([^\W\d_]+)", re.IGNORECASE)
_STEM = 3  # letters of a word that must be the same at least; endings ("boxes", "tomatoes") may differ by two


class Mentioned:
    """The words of some texts.

    Args:
        texts: Scene, task, and what a robot saw where a plan failed.
        seen: All that the robot sees, whether or not the model was shown it.
        said: The task.
    """

    def __init__(self, texts: Iterable[str], *, seen: str = "", said: str = "") -> None:
        self._words = {word for text in texts for word in _words(text)}
        self._seen, self._said = set(_words(seen)), set(_words(said))

    def add(self, text: str) -> None:
        """Takes what a robot sees where its plan has failed."""
        self._words.update(_words(text))
        self._seen.update(_words(text))

    def knows(self, name: str) -> bool:
        """Returns whether every word of a name, without numbers, is mentioned."""
        return all(_has(self._words, word) for word in _words(name))

    def missing(self, reason: str) -> str:
        """Returns the thing of the task that a model speaks of where it gives up, and that the robot does not see.

        Args:
            reason: Why the task cannot be achieved, in words of the model.

        Returns:
            The first such word; empty if there is none.
        """
        things = (thing.lower() for thing in _THING.findall(reason))
        return next((thing for thing in things if thing in self._said and not _has(self._seen, thing)), "")


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _has(words: set[str], word: str) -> bool:
    stem = word[: max(_STEM, len(word) - 2)]
    return any(known.startswith(stem) for known in words)
