# SPDX-License-Identifier: Apache-2.0
"""How sure a model is of its plan: the probability of the tokens that decide, statement by statement.

Those are skills, objects, numbers, signs and what is to be said: why a robot cannot, or what it asks its camera, may be
worded in many ways.
The probability of a sequence as a measure of confidence: Malinin and Gales, "Uncertainty Estimation in Autoregressive
Structured Prediction" (ICLR 2021), Eq. (6). Deviation: not normalised by length, because one wrong token makes a wrong
statement; a plan is as sure as its least sure statement, so that long plans are not suspect for their length.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from llm_planner.core.step import TokenChoice

_FREE = ("fail('", "unclear('", "p('", "log('", "probe('")


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    choice: TokenChoice
    decides: bool


class Confidence:
    """Follows one plan token by token."""

    def __init__(self) -> None:
        self._tokens: list[_Token] = []  # of the statement that is being written
        self._text = ""
        self._lowest_logprob = self._begun_logprob = 0.0

    @property
    def probability(self) -> float:
        """Of the least sure statement so far, 0 to 1."""
        return math.exp(self._lowest_logprob)

    def feed(self, text: str, choice: TokenChoice) -> None:
        """Takes the next token and the text that it adds."""
        self._tokens.append(_Token(text, choice, decides=not self._is_free()))
        self._text += text

    def end_statement(self, *, goes_on: bool = False) -> float:
        """Returns the probability of the statement that ends with the last token; the next token begins another.

        Args:
            goes_on: Whether it is only a part of a top-level statement, which counts from its beginning: a condition
                that comes in parts is as sure as one that comes as a whole.
        """
        logprob = self._begun_logprob + sum(token.choice.logprob for token in self._tokens if token.decides)
        self._lowest_logprob = min(self._lowest_logprob, logprob)
        self._begun_logprob = logprob if goes_on else 0.0
        self._tokens, self._text = [], ""
        return math.exp(logprob)

    def variants(self, spelled: Callable[[int], str]) -> list[str]:
        """Returns the statement that is being written, and what it would be with another token where it is least sure.

        Args:
            spelled: Returns the text of a token.
        """
        deciding = [index for index, token in enumerate(self._tokens) if token.decides]
        if not deciding:
            return [self._text]
        weakest = min(deciding, key=lambda index: self._tokens[index].choice.logprob)
        before = "".join(token.text for token in self._tokens[:weakest])
        behind = "".join(token.text for token in self._tokens[weakest + 1 :])
        others = map(spelled, self._tokens[weakest].choice.alternatives)
        return [self._text, *(before + other + behind for other in others)]

    def _is_free(self) -> bool:
        """Whether the next token is within a text that is free to be worded."""
        start = max(
            (self._text.rfind(opening) + len(opening) for opening in _FREE if opening in self._text), default=-1
        )
        return start >= 0 and "')" not in self._text[start:]
