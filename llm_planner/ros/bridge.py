"""One way into the executor's thread: everything that touches a node happens there, so nothing needs a lock.

rclpy itself needs this: a goal or a request that is sent from another thread can be answered before rclpy has noted
that it was sent.
"""

from collections import deque
from collections.abc import Callable

from rclpy.node import Node

from llm_planner.ros.guarded_executor import note_error


class Bridge:
    """A queue of calls that the node's executor makes, in order, as soon as it can."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._calls: deque[Callable[[], None]] = deque()
        self._guard = node.create_guard_condition(self._drain)

    def post(self, call: Callable[[], None]) -> None:
        """Hands over a call from any thread and returns at once."""
        self._calls.append(call)
        self._guard.trigger()

    def _drain(self) -> None:
        while self._calls:
            self._make(self._calls.popleft())

    def _make(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 -- one call must not take the node and the other calls with it
            note_error(self._node, error)
