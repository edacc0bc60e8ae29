# SPDX-License-Identifier: Apache-2.0
"""Which names a plan may use: those that the scene or the task mentions, in whatever number or spelling."""

import re
from collections.abc import Iterable

_WORD = re.compile(r"[^\W\d_]+")
_STEM = 3  # letters of a word that must be the same at least; endings ("boxes", "tomatoes") may differ by two


class Mentioned:
    """The words of some texts.

    Args:
        texts: Scene, task, and what a robot saw where a plan failed.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._words = {word for text in texts for word in _WORD.findall(text.lower())}

    def add(self, text: str) -> None:
        """Takes what a robot sees where its plan has failed."""
        self._words.update(_WORD.findall(text.lower()))

    def knows(self, name: str) -> bool:
        """Returns whether every word of a name, without numbers, is mentioned."""
        return all(self._has(word) for word in _WORD.findall(name.lower()))

    def _has(self, word: str) -> bool:
        stem = word[: max(_STEM, len(word) - 2)]
        return any(known.startswith(stem) for known in self._words)
