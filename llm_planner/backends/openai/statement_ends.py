# SPDX-License-Identifier: Apache-2.0
"""Where a plan may be cut and asked for again: between two statements, because only there a grammar can restart."""

import codecs
from collections.abc import Iterable

from llm_planner.language.errors import PlanSyntaxError
from llm_planner.language.lexer import Lexer


class StatementEnds:
    """Follows the text of a plan and says whether all of its statements are complete.

    Args:
        pieces: What was written so far.
        depth: Of blocks that were open before that.
    """

    def __init__(self, pieces: Iterable[bytes] = (), depth: int = 0) -> None:
        self._lexer = Lexer()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._depth = depth
        self._is_plan = True
        self.is_at_end = True
        for piece in pieces:
            self.feed(piece)

    def feed(self, piece: bytes) -> bool:
        """Takes the next bytes; returns whether a statement of the top level ends behind them, or none has begun.

        Text that is no plan has no such places: the reader of the plan will end it.
        """
        for character in self._decoder.decode(piece):
            if self._is_plan:
                self._push(character)
        return self.is_at_end and self._is_plan

    def _push(self, character: str) -> None:
        try:
            tokens = self._lexer.push(character)
        except PlanSyntaxError:
            self._is_plan = False
            return
        if not character.isspace():
            self.is_at_end = False
        for token in tokens:
            self._depth += (token.kind == "{") - (token.kind == "}")
            if token.kind == character and character in ";}":
                self.is_at_end = self._depth == 0
