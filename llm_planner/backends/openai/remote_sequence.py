# SPDX-License-Identifier: Apache-2.0
"""One sequence whose tokens a server makes: what the planner has of it, and the stream that brings more."""

from concurrent.futures import Future
from dataclasses import dataclass, field

from llm_planner.backends.openai.errors import ServerError
from llm_planner.backends.openai.stream import Stream, StreamEnd
from llm_planner.core.errors import ErrorCode
from llm_planner.core.step import Sequence


@dataclass(slots=True, kw_only=True, eq=False)
class RemoteSequence:
    """The backend's record of a sequence.

    Attributes:
        output_token_ids: Handed to the scheduler so far.
        num_computed_tokens: Tokens that went through the model: all but those that came last.
        stream: Open, or with tokens that are still to be taken; None if it has to be asked for.
        reading: What fills the stream.
        num_failures: Streams in a row that failed without a token.
        failing_since_s: When the first of them did.
        retry_at_s: Not asked for before.
    """

    sequence: Sequence
    output_token_ids: list[int] = field(default_factory=list)
    num_computed_tokens: int = 0
    stream: Stream | None = None
    reading: "Future[None] | None" = None
    num_failures: int = 0
    failing_since_s: float = 0.0
    retry_at_s: float = 0.0

    @property
    def num_tokens(self) -> int:
        """Prompt and output together."""
        return len(self.sequence.prompt_token_ids) + len(self.output_token_ids)

    @property
    def has_news(self) -> bool:
        """Whether something can be told without waiting."""
        return self.stream is not None and bool(self.stream.num_arrived or self.stream.end)

    def needs_stream(self, now_s: float) -> bool:
        """Returns whether it is to be asked for now."""
        if self.stream is not None and not self.is_drained(StreamEnd.LEFT):
            return False
        return now_s >= self.retry_at_s

    def is_drained(self, end: StreamEnd) -> bool:
        """Returns whether its stream ended like this and all tokens are taken."""
        return self.stream is not None and self.stream.end is end and not self.stream.num_arrived

    def take(self, max_tokens: int) -> list[int]:
        """Returns the next tokens, as far as they have come, and counts them as output."""
        taken = [] if self.stream is None else self.stream.take(max_tokens)
        self.output_token_ids += taken
        if taken:
            self.num_failures = 0
        return taken

    def leave(self) -> None:
        """Lets go of the stream at the next place where the output may be cut."""
        if self.stream is not None:
            self.stream.leave()
            if self.stream.end is StreamEnd.LEFT:
                self.close()

    def forget_stream(self) -> ServerError:
        """Returns why the stream failed; the sequence must be requested again."""
        assert self.stream is not None
        failure = self.stream.failure
        self.stream = None
        return failure or ServerError(ErrorCode.ENGINE_FAILED, "the stream failed", is_final=False)

    def close(self) -> None:
        """Ends the reading; what has arrived can still be taken."""
        if self.reading is not None:
            self.reading.cancel()
            self.reading = None
