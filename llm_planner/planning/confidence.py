# SPDX-License-Identifier: Apache-2.0
"""How sure a model is of its plan: the probability of the tokens that decide, statement by statement.

Those are skills, objects, numbers, signs and what is to be said: why a robot cannot, or what it asks its camera, may be
worded in many ways.
The probability of a sequence as a measure of confidence: Malinin and Gales, "Uncertainty Estimation in Autoregressive
Structured Prediction" (ICLR 2021), Eq. (6). Deviation: not normalised by length, because one wrong token makes a wrong
statement; a plan is as sure as its least sure statement, so that long plans are not suspect for their length.
Tokens that amount to the same are added up, as Kuhn, Gal and Farquhar, "Semantic Uncertainty" (ICLR 2023), Eq. (2), do
with whole answers: where a name is divided into words (``instruction.spelling`` decides that), and, in an emergency,
which way out of a danger is taken.
"""

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from llm_planner.core.step import TokenChoice

_FREE = re.compile(r"(?<![A-Za-z0-9_])(?:fail|unclear|p|log|probe)\('(?:[^'\\]|\\.)*\\?$")
_ASK = "unclear"
_WITHIN_NAME = re.compile(r"[(,'][A-Za-z0-9_]*[A-Za-z0-9]$")


@dataclass(frozen=True, slots=True)
class Fork:
    """Where another plan begins: at a token that could have been another one.

    Attributes:
        num_tokens: Before it.
        choice: The other one.
        logprob: Natural logarithm of the probability of all that decides, up to and with the other one.
    """

    num_tokens: int
    choice: TokenChoice
    logprob: float


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    choice: TokenChoice
    logprob: float
    """Of all choices that amount to the same; 0 if it does not decide."""


class Confidence:
    """Follows one plan token by token.

    Args:
        spelled: Returns the text of a token.
        equivalent_skills: Names of skills that are as good as each other.
        can_ask: Whether the plan may be ``unclear``; else what the model gives that counts for nothing.

    Attributes:
        plan_logprob: Natural logarithm of the probability of all that decides, of the whole plan so far.
        forks: Where other plans begin, in the order of their tokens.
    """

    def __init__(
        self, spelled: Callable[[int], str], equivalent_skills: Collection[str] = (), *, can_ask: bool = True
    ) -> None:
        self._spelled = spelled
        self._equivalent_skills = equivalent_skills
        self._can_ask = can_ask
        self._tokens: list[_Token] = []  # of the statement that is being written
        self._text = ""
        self._lowest_logprob = self._begun_logprob = 0.0
        self.plan_logprob, self._num_tokens = 0.0, 0
        self.forks: list[Fork] = []

    @property
    def probability(self) -> float:
        """Of the least sure statement so far, 0 to 1."""
        return math.exp(self._lowest_logprob)

    def feed(self, text: str, choice: TokenChoice) -> None:
        """Takes the next token and the text that it adds."""
        token = _Token(text, choice, 0.0)
        if not self._is_free():
            token = _Token(text, choice, self._logprob(text, choice))
            self.forks += self._forks_at(token)
        self._tokens.append(token)
        self._text += text
        self.plan_logprob += token.logprob
        self._num_tokens += 1

    def _forks_at(self, token: _Token) -> list[Fork]:
        others = (other for other in token.choice.alternatives if other.is_allowed)
        return [
            Fork(self._num_tokens, other, self.plan_logprob + other.logprob)
            for other in others
            if not self._is_same(token.text, self._spelled(other.token_id))
        ]

    def end_statement(self, *, goes_on: bool = False) -> float:
        """Returns the probability of the statement that ends with the last token; the next token begins another.

        Args:
            goes_on: Whether it is only a part of a top-level statement, which counts from its beginning: a condition
                that comes in parts is as sure as one that comes as a whole.
        """
        logprob = self._begun_logprob + sum(token.logprob for token in self._tokens)
        self._lowest_logprob = min(self._lowest_logprob, logprob)
        self._begun_logprob = logprob if goes_on else 0.0
        self._tokens, self._text = [], ""
        return math.exp(logprob)

    def variants(self) -> list[str]:
        """Returns the statement that is being written, and those with another token in place of the least sure one."""
        weakest = min(range(len(self._tokens)), key=lambda index: self._tokens[index].logprob, default=0)
        before = "".join(token.text for token in self._tokens[:weakest])
        behind = "".join(token.text for token in self._tokens[weakest + 1 :])
        others = self._tokens[weakest].choice.alternatives if self._tokens else ()
        return [self._text, *(before + self._spelled(other.token_id) + behind for other in others)]

    def _logprob(self, text: str, choice: TokenChoice) -> float:
        if not choice.alternatives:
            return choice.logprob
        others = [(self._spelled(other.token_id), math.exp(other.logprob)) for other in choice.alternatives]
        same = sum(share for other, share in others if self._is_same(text, other))
        asks = sum(share for other, share in others if self._is_no_plan(other))
        if not (same or asks):
            return choice.logprob
        chosen = math.exp(choice.logprob) + same
        return min(0.0, math.log(chosen / max(1.0 - asks, chosen)))

    def _is_no_plan(self, token: str) -> bool:
        """Whether a token would begin to ask back where nothing is unclear."""
        return not (self._can_ask or self._text) and token.startswith(_ASK)

    def _is_same(self, text: str, other: str) -> bool:
        """Whether another token in place of the next one would not change what the statement means."""
        if _WITHIN_NAME.search(self._text):
            return (text == "_" and other.isalnum()) or (other == "_" and text.isalnum())
        names = ((self._text + token).removesuffix("(") for token in (text, other))
        return all(name in self._equivalent_skills for name in names)

    def _is_free(self) -> bool:
        """Whether the next token is within a text that is free to be worded."""
        return _FREE.search(self._text) is not None
