# SPDX-License-Identifier: Apache-2.0
"""One request for more of a sequence: what is sent, and how what comes back is read."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from llm_planner.backends.openai.remote_sequence import RemoteSequence
from llm_planner.backends.openai.server import Chunk
from llm_planner.backends.openai.statement_ends import StatementEnds


def unchanged(chunks: AsyncIterator[Chunk]) -> AsyncIterator[Chunk]:
    """Returns chunks as they come."""
    return chunks


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRequest:
    """What is asked for.

    Attributes:
        path: Below ``/v1``.
        body: JSON.
        ends: Where the output stands (``Stream``); None if it may be cut anywhere.
        has_grammar: Whether the server keeps it to the grammar.
        read: Turns what the server streams into what goes on behind the output so far; closing it closes the stream.
    """

    path: str
    body: Mapping[str, Any]
    ends: StatementEnds | None
    has_grammar: bool
    read: Callable[[AsyncIterator[Chunk]], AsyncIterator[Chunk]] = unchanged


class Requests(Protocol):
    """One API of a server: how a sequence is asked for."""

    def of(self, state: RemoteSequence) -> StreamRequest:
        """Returns the request that goes on behind what a sequence has written.

        Raises:
            ServerError: If it cannot be asked for.
        """
