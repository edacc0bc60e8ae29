# SPDX-License-Identifier: Apache-2.0
"""Names of requests inside vLLM: never used twice, for a step in flight may still speak of one that has ended."""


class Names:
    """Maps names of requests to those that vLLM knows them by."""

    def __init__(self) -> None:
        self._num_given = 0
        self._inner: dict[str, str] = {}
        self._outer: dict[str, str] = {}

    def give(self, request_id: str) -> str:
        """Returns a new name for a request; what it was called before is forgotten."""
        self.forget(request_id)
        self._num_given += 1
        name = f"{request_id}#{self._num_given}"
        self._inner[request_id], self._outer[name] = name, request_id
        return name

    def inner(self, request_id: str) -> str:
        """Returns what vLLM calls a request; one that it does not know keeps its name."""
        return self._inner.get(request_id, request_id)

    def outer(self, name: str) -> str | None:
        """Returns which request vLLM speaks of; None if it has ended."""
        return self._outer.get(name)

    def forget(self, request_id: str) -> None:
        """Takes the name back of a request that has ended."""
        name = self._inner.pop(request_id, None)
        if name is not None:
            del self._outer[name]
