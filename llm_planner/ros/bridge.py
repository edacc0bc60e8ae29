"""One way into the executor's thread: everything that touches a node happens there, so nothing needs a lock.

rclpy itself needs this: a goal or a request that is sent from another thread can be answered before rclpy has noted
that it was sent.
"""

from collections import deque
from collections.abc import Callable

from rclpy.node import Node

from llm_planner.ros.guard import guarded


class Bridge:
    """A queue of calls that the node's executor makes, in order, as soon as it can.

    Args:
        node: Whose executor that is.
        on_error: Called with the exception, and the call, if one fails; the calls behind it are made all the same.
    """

    def __init__(self, node: Node, on_error: Callable[..., None] = lambda *_: None) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self._make = guarded(node, self._call, on_error)
        self._guard = node.create_guard_condition(self._drain)

    def post(self, call: Callable[[], None]) -> None:
        """Hands over a call from any thread and returns at once."""
        self._calls.append(call)
        self._guard.trigger()

    def _drain(self) -> None:
        while self._calls:
            self._make(self._calls.popleft())

    @staticmethod
    def _call(call: Callable[[], None]) -> None:
        call()
