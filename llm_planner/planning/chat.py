# SPDX-License-Identifier: Apache-2.0
"""One answer in words in the making: tokens -> text -> sentences or paragraphs, as segments with their reading time.

Nothing of it is executed, so there is no grammar and no safety gate: a robot shows or speaks the text. It is text only
(control and format characters go), and bounded: a piece by ``language.prose``, the whole by the request's tokens. A
model that is stuck is stopped there (``planning.repetition``).
"""

import codecs
from collections.abc import Iterable, Sequence

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Tokenizer
from llm_planner.core.segment import Segment
from llm_planner.core.step import TokenChoice
from llm_planner.language.prose import ProseSplitter, ProseUnit, harmless, reading_time
from llm_planner.planning.repetition import AnswerWatch
from llm_planner.planning.session import Progress


class ChatSession:
    """Turns the tokens of one answer into segments; implements ``serving.preparation.Session``.

    Args:
        tokenizer: Gives the bytes of a token.
        unit: What a segment is.
        num_delivered: Segments that the robot has from before a restart.
    """

    def __init__(self, *, tokenizer: Tokenizer, unit: ProseUnit, num_delivered: int = 0) -> None:
        self._tokenizer = tokenizer
        self._splitter = ProseSplitter(unit)
        self._watch = AnswerWatch()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._num_segments, self._num_tokens = num_delivered, 0
        self.is_complete = False

    @property
    def confidence(self) -> float:
        """1: what is said moves nothing."""
        return 1.0

    def feed(self, token_ids: Iterable[int], _: Sequence[TokenChoice] = ()) -> Progress:
        """Returns the segments that the next tokens of the model completed, and whether it is stuck."""
        segments: list[Segment] = []
        try:
            for token_id in token_ids:
                self._num_tokens += 1
                for character in filter(harmless, self._decoder.decode(self._tokenizer.token_bytes(token_id))):
                    self._watch.feed(character)
                    piece = self._splitter.feed(character)
                    if piece is not None:
                        segments.append(self._segment(piece))
        except PlannerError as error:
            self.is_complete = True
            return Progress(tuple(segments), error, is_complete=True)
        return Progress(tuple(segments))

    def finish(self) -> Progress:
        """Returns the last segment, or that there was no answer."""
        self.is_complete = True
        piece = self._splitter.finish()
        segments = () if piece is None else (self._segment(piece),)
        if self._num_segments == 0:
            error = PlannerError(ErrorCode.EMPTY_PLAN, "the model gave no answer; ask in other words")
            return Progress(error=error, is_complete=True)
        return Progress(segments, is_complete=True)

    @property
    def is_closable(self) -> bool:
        """False: what is open of an answer is half a sentence."""
        return False

    def close(self) -> Progress:
        """Ends the answer behind its last whole segment."""
        self.is_complete = True
        return Progress(is_complete=True)

    def _segment(self, text: str) -> Segment:
        index = self._num_segments
        self._num_segments += 1
        num_tokens, self._num_tokens = self._num_tokens, 0
        return Segment(index=index, text=text, calls=(), expected=reading_time(text), num_tokens=num_tokens)
