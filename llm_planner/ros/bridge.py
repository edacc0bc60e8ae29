# SPDX-License-Identifier: Apache-2.0
"""One way into the executor's thread: everything that touches a node happens there, so nothing needs a lock.

rclpy itself needs this: a goal or a request that is sent from another thread can be answered before rclpy has noted
that it was sent.
"""

import operator
from collections import deque
from collections.abc import Callable
from typing import Any

from rclpy.node import Node

from llm_planner.ros.guard import guarded


class Bridge:
    """A queue of calls that the node's executor makes, in order, as soon as it can.

    Args:
        node: The node of that executor.
        on_error: Called with the exception, the call and its arguments if one fails; those behind it are made all the
            same.
    """

    def __init__(self, node: Node, on_error: Callable[..., None] = lambda *_: None) -> None:
        self._node, self._on_error = node, on_error
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._make = self.guard(operator.call)
        self._guard = node.create_guard_condition(self.drain)

    def guard(self, callback: Callable[..., None]) -> Callable[..., None]:
        """Returns a callback that is made at once and handled as a posted call if it fails."""
        return guarded(self._node, callback, self._on_error)

    def post(self, call: Callable[..., None], *arguments: Any) -> None:
        """Hands over a call from any thread and returns at once."""
        self._calls.append((call, arguments))
        self._guard.trigger()

    def drain(self) -> None:
        """Makes the calls that were handed over until now; in the executor's thread."""
        while self._calls:
            call, arguments = self._calls.popleft()
            self._make(call, *arguments)
