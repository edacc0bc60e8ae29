# SPDX-License-Identifier: Apache-2.0
"""Spins a node in the background, for programs whose main thread has better things to do."""

import contextlib
import threading
from collections.abc import Callable, Iterator

import rclpy
import rclpy.utilities
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from llm_planner.ros.guarded_executor import GuardedExecutor

POLL_S = 0.1


class SpunNode(Node):
    """A node of ``spinning``.

    Attributes:
        at_end: What its thread calls when it ends: after that, no callback of the node is called any more.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.at_end: list[Callable[[], None]] = []


@contextlib.contextmanager
def spinning(name: str) -> Iterator[Node]:
    """Yields a node that is spun by a thread; ends thread and node, and rclpy if it was not running before.

    Goals of its clients that are unfinished when the thread ends, also because rclpy was shut down, end too; the
    planner is told, unless rclpy was shut down.

    What a callback raises is logged and passed over. Signals stay what they are to the program: rclpy would take its
    context away under the main thread's feet at Ctrl-C, and keep SIGTERM from ending it.
    """
    was_running = rclpy.utilities.ok()
    if not was_running:
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = SpunNode(name)
    executor = GuardedExecutor()
    executor.add_node(node)
    is_stopped = threading.Event()

    def spin() -> None:
        try:
            with contextlib.suppress(ExternalShutdownException):  # a signal or another thread has shut rclpy down
                while not is_stopped.is_set():
                    executor.spin_once(timeout_sec=POLL_S)
        finally:
            for call in node.at_end:
                call()

    thread = threading.Thread(target=spin, name="spin", daemon=True)
    thread.start()
    try:
        yield node
    finally:
        is_stopped.set()
        executor.create_task(lambda: None)  # ends its wait
        thread.join()
        executor.shutdown()
        node.destroy_node()
        if not was_running:
            rclpy.utilities.try_shutdown()
