# SPDX-License-Identifier: Apache-2.0
"""Characters to tokens, one character at a time."""

from collections.abc import Callable
from dataclasses import dataclass

from llm_planner.language.errors import PlanSyntaxError

NAME = "a name"
VARIABLE = "a variable"
NUMBER = "a number"
BOOLEAN = "a boolean"
TEXT = "a text"
END = "the end of the plan"

_SPACE = " \t\r\n"
_PUNCTUATION = "(){},;?&|<>"
QUOTES = "'\""
_DIGITS = "0123456789"
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}


@dataclass(frozen=True, slots=True)
class Token:
    """One word of the language.

    Attributes:
        kind: One of the constants above, or the punctuation itself (``->``).
        text: As written; of a text, what it means.
        position: Index of its first character.
    """

    kind: str
    text: str
    position: int

    def __str__(self) -> str:
        if self.kind in (TEXT, END):
            return self.kind
        return repr(self.kind) if self.kind == self.text else f"{self.kind} {self.text[:40]!r}"


class Lexer:
    """A state machine; every state is a method that says whether it ate the character."""

    def __init__(self) -> None:
        self.position = 0
        self._state: Callable[[str], bool] = self._between
        self._start = 0
        self._pending: list[str] = []  # of the token that is being read
        self._quote = ""
        self._tokens: list[Token] = []

    def push(self, character: str) -> list[Token]:
        """Eats one character and returns the tokens that are now complete: none, one or two.

        Raises:
            PlanSyntaxError: No token can go on like this.
        """
        self._tokens = []
        while not self._state(character):
            pass
        self.position += 1
        return self._tokens

    def finish(self) -> list[Token]:
        """Returns the token that the end of the text completes, if any, and the end itself."""
        if self._state in (self._in_text, self._in_escape):
            raise PlanSyntaxError(self._start, "the quoted text has no end")
        tokens = self.push(" ")
        self.position -= 1
        return [*tokens, Token(END, "", self.position)]

    def _begin(self, state: Callable[[str], bool], character: str) -> bool:
        self._start = self.position
        self._pending = [character]
        self._state = state
        return True

    def _emit(self, kind: str, text: str) -> None:
        self._tokens.append(Token(kind, text, self._start))
        self._state = self._between

    def _between(self, character: str) -> bool:
        if character in _PUNCTUATION:
            self._start = self.position
            self._emit(character, character)
        elif character in QUOTES:
            self._quote = character
            self._begin(self._in_text, "")
        elif character in _LETTERS:
            self._begin(self._in_word, character)
        elif character in _DIGITS:
            self._begin(self._in_number, character)
        elif character in "-=!":
            self._begin(self._in_operator, character)
        elif character not in _SPACE:
            raise PlanSyntaxError(self.position, f"unexpected character {character!r}")
        return True

    def _in_word(self, character: str) -> bool:
        if character in _LETTERS or character in _DIGITS:
            self._pending.append(character)
            return True
        word = "".join(self._pending)
        is_variable = word[0] == "_" and word[1:].isdigit()
        if is_variable and word[1] == "0":
            raise PlanSyntaxError(self._start, f"variables are _1, _2, ..., not {word[:40]!r}")
        is_boolean = word in ("True", "False")
        self._emit(VARIABLE if is_variable else BOOLEAN if is_boolean else NAME, word)
        return False

    def _in_number(self, character: str) -> bool:
        if character in _DIGITS or (character == "." and "." not in self._pending):
            self._pending.append(character)
            return True
        if self._pending[-1] == "." or character in _LETTERS or character == ".":
            raise PlanSyntaxError(self.position, f"a number cannot go on with {character!r}")
        self._emit(NUMBER, "".join(self._pending))
        return False

    def _in_text(self, character: str) -> bool:
        if character == self._quote:
            self._emit(TEXT, "".join(self._pending))
        elif character == "\\":
            self._state = self._in_escape
        else:
            self._pending.append(character)
        return True

    def _in_escape(self, character: str) -> bool:
        if character not in _ESCAPES:
            raise PlanSyntaxError(self.position, f"unknown escape \\{character}; a backslash is written \\\\")
        self._pending.append(_ESCAPES[character])
        self._state = self._in_text
        return True

    def _in_operator(self, character: str) -> bool:
        """After ``-``, ``=`` or ``!``: a second character decides."""
        first = self._pending[0]
        if first == "-" and character in _DIGITS:
            self._pending.append(character)
            self._state = self._in_number
            return True
        if first + character in ("->", "==", "!="):
            self._emit(first + character, first + character)
            return True
        if first != "=":
            raise PlanSyntaxError(self._start, f"{first!r} cannot be followed by {character!r}")
        self._emit("=", "=")
        return False
