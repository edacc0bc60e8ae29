# SPDX-License-Identifier: Apache-2.0
"""What came back from vLLM's steps, until it is handed on."""

from collections.abc import Collection
from dataclasses import dataclass, field

from llm_planner.core.step import TokenChoice


@dataclass(slots=True)
class Arrival:
    """What steps brought of one request.

    Attributes:
        num_scheduled_tokens: Computed in them.
        num_rejected_tokens: Of these, drafted ones that were wrong.
        token_ids: New ones, without an end-of-sequence token.
        choices: How sure the model was of each of them, and last of the end token.
        is_finished: Whether the model stopped.
        failure: Why it cannot go on; None if it can.
    """

    num_scheduled_tokens: int = 0
    num_rejected_tokens: int = 0
    token_ids: list[int] = field(default_factory=list)
    choices: list[TokenChoice] = field(default_factory=list)
    is_finished: bool = False
    failure: str | None = None


class Arrivals:
    """Keeps what arrives; of suspended requests, until they run again.

    With steps in flight, a token or two come after the end of a segment. They belong to the next one.
    """

    def __init__(self) -> None:
        self._arrivals: dict[str, Arrival] = {}

    def of(self, request_id: str) -> Arrival:
        """Returns what arrived of a request, to be added to."""
        arrival = self._arrivals.get(request_id)
        if arrival is None:
            arrival = self._arrivals[request_id] = Arrival()
        return arrival

    def forget(self, request_id: str) -> None:
        """Drops what is held back of a request that has ended."""
        self._arrivals.pop(request_id, None)

    def take(self, suspended: Collection[str]) -> dict[str, Arrival]:
        """Returns, once, what arrived of all requests that are not suspended."""
        taken = {name: a for name, a in self._arrivals.items() if name not in suspended}
        for name in taken:
            del self._arrivals[name]
        return taken
