# SPDX-License-Identifier: Apache-2.0
"""One completion that runs on the server: read on one thread, taken from on another."""

import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from enum import Enum

from llm_planner.backends.openai.errors import ServerError
from llm_planner.backends.openai.output_tokens import OutputTokens
from llm_planner.backends.openai.server import Chunk
from llm_planner.backends.openai.statement_ends import StatementEnds
from llm_planner.core.errors import ErrorCode


class StreamEnd(Enum):
    """Why a stream brings nothing any more."""

    STOPPED = "stopped"  # the model ended
    LEFT = "left"  # we left it where a plan may be cut: asked again, the model goes on
    FAILED = "failed"


class Stream:
    """Collects the tokens of a completion, and leaves it when it is no longer needed.

    A server that is bound to a grammar cannot begin in the midst of a statement. So a stream that is to be left goes
    on to the next end of a statement, to its first one at least, and what follows that is not read.

    Args:
        chunks: From the server.
        tokens: Turns text into token ids.
        ends: Where the output stands; None if it may be cut anywhere.
        has_grammar: Whether the server keeps it to the grammar. If not although ``ends`` matter, the stream only
            completes a statement that was torn, and is left behind it.
        notify: Called on the reading thread whenever there is something new.

    Attributes:
        end: Why nothing follows what can be taken; None while more may come.
        failure: With ``StreamEnd.FAILED``.
    """

    def __init__(
        self,
        chunks: AsyncIterator[Chunk],
        *,
        tokens: OutputTokens,
        ends: StatementEnds | None,
        has_grammar: bool,
        notify: Callable[[], None],
    ) -> None:
        self._chunks = chunks
        self._tokens = tokens
        self._ends = ends
        self._notify = notify
        self._lock = threading.Lock()
        self._arrived: deque[tuple[int, bool]] = deque()  # token, and whether the plan may be cut behind it
        self._is_cut_here = False  # behind what was taken; what was asked for brings something, or none ever might
        self._is_torn = ends is not None and not has_grammar
        self._is_leaving = self._is_torn
        self.end: StreamEnd | None = None
        self.failure: ServerError | None = None

    async def read(self) -> None:
        """Reads until the model ends, the stream is left, or something fails."""
        failure = ServerError(ErrorCode.ENGINE_FAILED, "the stream was closed", is_final=False)
        try:
            async for chunk in self._chunks:
                if self._add(chunk):
                    return
        except ServerError as error:
            failure = error
        except Exception as error:  # noqa: BLE001 -- whatever it is, the goal ends with its words
            message = f"the stream could not be read: {error!r:.200}"
            failure = ServerError(ErrorCode.ENGINE_FAILED, message, is_final=False)
        finally:
            await self._chunks.aclose()  # type: ignore[attr-defined] # an async generator: frees the connection
            with self._lock:
                if self.end is None:
                    self.end, self.failure = StreamEnd.FAILED, failure
            self._notify()

    def take(self, max_tokens: int) -> list[int]:
        """Returns the next tokens, as far as they have come."""
        with self._lock:
            taken = [self._arrived.popleft() for _ in range(min(max_tokens, len(self._arrived)))]
            if taken:
                self._is_cut_here = taken[-1][1]
            return [token_id for token_id, _ in taken]

    @property
    def num_arrived(self) -> int:
        """Tokens that can be taken now."""
        return len(self._arrived)

    def leave(self) -> None:
        """Lets go of it where the plan may be cut next."""
        with self._lock:
            self._is_leaving = True
            if self.end is not None:
                return
            if self._is_cut_here:
                self._arrived.clear()
                self.end = StreamEnd.LEFT
                return
            for place, (_, is_cut_behind) in enumerate(self._arrived):
                if is_cut_behind:
                    while len(self._arrived) > place + 1:
                        self._arrived.pop()
                    self.end = StreamEnd.LEFT
                    return

    def stay(self) -> None:
        """Goes on, if it was not left yet."""
        with self._lock:
            self._is_leaving = self._is_torn

    def _add(self, chunk: Chunk) -> bool:
        """Takes a chunk in; returns whether it was the last."""
        ids = self._tokens.of_text(chunk.text) if chunk.token_ids is None and chunk.text else chunk.token_ids or ()
        with self._lock:
            for token_id in ids:
                if self.end is not None:
                    break
                if token_id in self._tokens.eos_token_ids:
                    continue
                is_cut_behind = self._ends is None or self._ends.feed(self._tokens.token_bytes(token_id))
                self._arrived.append((token_id, is_cut_behind))
                if is_cut_behind and self._is_leaving:
                    self.end = StreamEnd.LEFT
            if self.end is None and chunk.finish_reason is not None:
                self._finish(chunk.finish_reason)
        self._notify()
        return self.end is not None

    def _finish(self, reason: str) -> None:
        if reason == "stop":
            self.end = StreamEnd.STOPPED
            return
        message = f"the model server ended the answer: {reason[:80]}"
        self.end = StreamEnd.FAILED
        self.failure = ServerError(ErrorCode.ENGINE_FAILED, message, is_final=reason == "length")
