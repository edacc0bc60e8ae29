# SPDX-License-Identifier: Apache-2.0
"""An incremental parser of MiniSpec: any pieces of text in, executable statements out as early as possible.

A call is executable at its ``)``, before its ``;``. Published MiniSpec runs a block from its ``{`` on. So does a
condition here, if it is asked to come in parts (``opens_blocks``).
Deviation: a loop becomes executable at its ``}``, because the safety gate judges all its rounds before the first one
moves; so does a condition that is not asked to come in parts.
"""

from llm_planner.language.descent import Descent
from llm_planner.language.errors import PlanSyntaxError
from llm_planner.language.lexer import Lexer
from llm_planner.language.syntax import Closing, If, Opening, Part, Plan

MAX_STATEMENT_LENGTH = 4096  # characters between two executable statements: bounds memory


def parse(text: str) -> Plan:
    """Returns the plan that ``text`` is.

    Raises:
        PlanSyntaxError: It is none.
    """
    parser = IncrementalParser()
    parts = (*parser.feed(text), *parser.finish())
    return tuple(part for part in parts if not isinstance(part, Opening | Closing))  # there are none of these


class IncrementalParser:
    """Eats a plan in pieces of any size, a token's text or a character at a time.

    What it returns and the error, if any, do not depend on how the text was cut: an error waits for the next call
    when parts before it are still to be returned. After an error every call raises it again.

    Args:
        opens_blocks: Whether a condition that is in no loop comes in parts: its opening at the ``{``, each statement of
            its block, its end at the ``}``. Else a part is a whole top-level statement.
    """

    def __init__(self, *, opens_blocks: bool = False) -> None:
        self._opens_blocks = opens_blocks
        self.restart()

    def restart(self) -> None:
        """Forgets all that it has read: what comes next is the beginning of a plan."""
        self._lexer = Lexer()
        self._grammar = Descent(opens_blocks=self._opens_blocks)
        self._error: PlanSyntaxError | None = None
        self._statement_start = 0

    @property
    def position(self) -> int:
        """Characters eaten so far."""
        return self._lexer.position

    @property
    def num_open_blocks(self) -> int:
        """Openings that were returned and whose ends were not."""
        return self._grammar.num_open_blocks

    def feed(self, text: str) -> list[Part]:
        """Eats ``text`` and returns the parts of the plan that have become executable.

        Raises:
            PlanSyntaxError: No plan goes on like this.
        """
        ready: list[Part] = []
        try:
            self._raise_again()
            for character in text:
                ready += self._push(character)
        except PlanSyntaxError as error:
            self._error = error
            if not ready:
                raise
        return ready

    def finish(self) -> list[Part]:
        """Returns the statement that the end of the plan completes, if any; call it once.

        Raises:
            PlanSyntaxError: The plan ends in the middle of a statement.
        """
        self._raise_again()
        return [part for token in self._lexer.finish() for part in self._grammar.push(token)]

    def closed(self) -> If | None:
        """Returns what closing its open conditions here would add to the plan: a condition, or nothing.

        The statements before it and this one are a plan that does what the whole one does, up to some place. It stays
        open: this changes nothing. A condition that comes in parts adds nothing, as all that is whole in it was
        returned.
        """
        return None if self._error is not None else self._grammar.closed()

    def _push(self, character: str) -> list[Part]:
        ready: list[Part] = []
        for token in self._lexer.push(character):  # mostly none
            ready += self._grammar.push(token)
        if ready and not self.num_open_blocks:
            self._statement_start = self.position
        elif self.position - self._statement_start > MAX_STATEMENT_LENGTH:
            raise PlanSyntaxError(self.position, f"a statement is longer than {MAX_STATEMENT_LENGTH} characters")
        return ready

    def _raise_again(self) -> None:
        if self._error is not None:
            raise self._error
