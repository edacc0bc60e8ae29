# SPDX-License-Identifier: Apache-2.0
"""An incremental parser of MiniSpec: any pieces of text in, executable statements out as early as possible.

A call is executable at its ``)``, before its ``;``. Published MiniSpec runs a block from its ``{`` on.
Deviation: here a loop or conditional becomes executable at its ``}``, because the safety gate judges a block by its
worst case before anything of it moves.
"""

from llm_planner.language.descent import Descent
from llm_planner.language.errors import PlanSyntaxError
from llm_planner.language.lexer import Lexer
from llm_planner.language.syntax import If, Plan, Statement

MAX_STATEMENT_LENGTH = 4096  # characters between two executable statements: bounds memory


def parse(text: str) -> Plan:
    """Returns the plan that ``text`` is.

    Raises:
        PlanSyntaxError: It is none.
    """
    parser = IncrementalParser()
    return (*parser.feed(text), *parser.finish())


class IncrementalParser:
    """Eats a plan in pieces of any size, a token's text or a character at a time.

    The statements and the error, if any, do not depend on how the text was cut: an error waits for the next call
    when statements before it are still to be returned. After an error every call raises it again.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forgets all that it has read: what comes next is the beginning of a plan."""
        self._lexer = Lexer()
        self._grammar = Descent()
        self._error: PlanSyntaxError | None = None
        self._statement_start = 0

    @property
    def position(self) -> int:
        """Characters eaten so far."""
        return self._lexer.position

    def feed(self, text: str) -> list[Statement]:
        """Eats ``text`` and returns the top-level statements that have become executable.

        Raises:
            PlanSyntaxError: No plan goes on like this.
        """
        ready: list[Statement] = []
        try:
            self._raise_again()
            for character in text:
                ready += self._push(character)
        except PlanSyntaxError as error:
            self._error = error
            if not ready:
                raise
        return ready

    def finish(self) -> list[Statement]:
        """Returns the statement that the end of the plan completes, if any; call it once.

        Raises:
            PlanSyntaxError: The plan ends in the middle of a statement.
        """
        self._raise_again()
        return [statement for token in self._lexer.finish() for statement in self._grammar.push(token)]

    def closed(self) -> If | None:
        """Returns what closing its open conditions here would add to the plan: a condition, or nothing.

        The statements before it and this one are a plan that does what the whole one does, up to some place. It stays
        open: this changes nothing.
        """
        return None if self._error is not None else self._grammar.closed()

    def _push(self, character: str) -> list[Statement]:
        ready: list[Statement] = []
        for token in self._lexer.push(character):  # mostly none
            ready += self._grammar.push(token)
        if ready:
            self._statement_start = self.position
        elif self.position - self._statement_start > MAX_STATEMENT_LENGTH:
            raise PlanSyntaxError(self.position, f"a statement is longer than {MAX_STATEMENT_LENGTH} characters")
        return ready

    def _raise_again(self) -> None:
        if self._error is not None:
            raise self._error
