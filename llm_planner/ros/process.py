# SPDX-License-Identifier: Apache-2.0
"""Runs one node as a process: signals, spinning, and an end within seconds."""

import contextlib
import faulthandler
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn, Protocol, TypeVar

import rclpy
import rclpy.utilities
from rclpy.exceptions import InvalidParameterTypeException, NameValidationException, ParameterException
from rclpy.executors import Executor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.impl.rcutils_logger import RcutilsLogger
from rclpy.signals import SignalHandlerOptions

from llm_planner.core.errors import PlannerError
from llm_planner.ros.guarded_executor import GuardedExecutor

STOP_TIMEOUT_S = 4.5  # after a signal; then the kernel ends the process, with SIGALRM
REFUSED, CRASHED = 1, 2
"""Exit statuses. Starting a node again that has refused to run does not help: a parameter or a file is wrong."""


class NodeProcess(Protocol):
    """What an rclpy node that runs as a process of its own must offer."""

    failure: PlannerError | None

    def get_logger(self) -> RcutilsLogger:
        """Returns the node's logger (rclpy's)."""
        ...

    def end_goals(self) -> None:
        """Ends what is going on; the node is spun a little longer, so that the answers go out."""
        ...

    def close(self) -> None:
        """Frees everything."""
        ...


N = TypeVar("N", bound=NodeProcess)
REFUSED_BY_ROS = (
    rclpy_implementation.RCLError,
    NameValidationException,
    ParameterException,
    InvalidParameterTypeException,
)
"""What rclpy raises for a name, a remapping rule or a parameter that was given and cannot be."""


def _reason(error: Exception) -> str:
    """Returns what is wrong with how a node was started, in one line."""
    if isinstance(error, PlannerError):
        return str(error)
    what, *_ = str(error).partition(", at /")[0].splitlines() or [type(error).__name__]
    return f"the node cannot start: {what}; check its name, its namespace and its parameters"


class _StopSignal:
    """Set by the first SIGINT or SIGTERM; a process of ``composition.Fleet`` gets SIGTERM when its parent ends.

    Later signals are ignored, so that nothing interrupts the clean-up. The handler only notes the signal. It runs as
    soon as the interpreter does: every node here has a timer of at most half a second that ends the executor's wait.
    """

    def __init__(self) -> None:
        self.is_set = False
        faulthandler.register(signal.SIGALRM, chain=True)  # says where it hangs, then ends it
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if not self.is_set:
            self.is_set = True
            _limit_end()


def _limit_end() -> None:
    """Has the kernel end this process, whatever it then does: a thread would need the interpreter, which may hang."""
    signal.setitimer(signal.ITIMER_REAL, STOP_TIMEOUT_S)


def run(build: Callable[[], N], arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a node until a signal or its failure; then ends the process.

    It ends without the clean-up of interpreter and libraries, which waits for threads, and takes a second of processor
    time in each process of a fleet that is stopped: on a busy machine many seconds.

    Exit status: 0 after a signal, ``REFUSED`` if the node itself says why it cannot run, ``CRASHED`` if rclpy failed.
    What a callback raises is logged, counted and passed over (``ros.guarded_executor``).

    Args:
        build: Returns the node.
        arguments: Command line with the ROS arguments; None for this process's.
    """
    status = _run(build, arguments)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # a full disk, a closed terminal
            stream.flush()
    os._exit(status)


def _run(build: Callable[[], N], arguments: Sequence[str] | None) -> int:
    stop = _StopSignal()
    try:
        rclpy.init(args=None if arguments is None else list(arguments), signal_handler_options=SignalHandlerOptions.NO)
        node = build()
    except (PlannerError, *REFUSED_BY_ROS) as error:
        print(f"error: {_reason(error)}", file=sys.stderr)  # noqa: T201 -- there is no node yet that could log
        rclpy.utilities.try_shutdown()
        return REFUSED
    executor = GuardedExecutor()
    executor.add_node(node)  # type: ignore[arg-type] # a Protocol cannot inherit from rclpy's Node
    has_crashed = False
    try:
        while not stop.is_set and node.failure is None:
            executor.spin_once(timeout_sec=0.5)
    except Exception:  # noqa: BLE001 -- the goals end in order all the same
        has_crashed = True
        traceback.print_exc()
    if not stop.is_set:
        _limit_end()
    if node.failure is not None:
        node.get_logger().fatal(str(node.failure))
    node.end_goals()
    with contextlib.suppress(Exception):  # of an rclpy that has failed before
        _flush(executor)
    node.close()
    executor.shutdown(timeout_sec=0.5)
    rclpy.shutdown()
    return CRASHED if has_crashed else 0 if node.failure is None else REFUSED


def _flush(executor: Executor) -> None:
    """Gives results and last words 0.2 s to leave."""
    for _ in range(20):
        executor.spin_once(timeout_sec=0.01)
