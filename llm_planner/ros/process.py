# SPDX-License-Identifier: Apache-2.0
"""Runs one node, or some that share a process: signals, spinning, and an end within seconds."""

import contextlib
import faulthandler
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn, Protocol

import rclpy
import rclpy.utilities
from rclpy.exceptions import InvalidParameterTypeException, NameValidationException, ParameterException
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.impl.rcutils_logger import RcutilsLogger
from rclpy.signals import SignalHandlerOptions

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.ros.guarded_executor import GuardedExecutor

STOP_TIMEOUT_S = 4.5  # after a signal; then the kernel ends the process, with SIGALRM
REFUSED, CRASHED = 1, 2
"""Exit statuses. Starting a node again that has refused to run does not help: a parameter or a file is wrong."""

RESTART_DELAY_S = 1.0
MAX_RESTARTS, RESTARTS_PER_S = 3, 60.0
"""What has ended this often within this many seconds is not started again."""
LAST_WORDS = "LLM_PLANNER_LAST_WORDS"
"""Environment variable with the file in which a process leaves why it ends, for the one that started it."""
POLL_S = 0.5
FLUSH_S, MAX_FLUSH_S = 0.2, 0.8


class Restarts:
    """Decides whether a process, or a node that shares one, starts again when it has ended."""

    def __init__(self) -> None:
        self._ends_s: deque[float] = deque(maxlen=MAX_RESTARTS + 1)

    def may_start_again(self, status: int, now_s: float) -> bool:
        """Returns whether it does, and notes the end; one that refused at its first start never does.

        Args:
            status: Its exit status.
            now_s: Monotonic time.
        """
        self._ends_s.append(now_s)
        has_refused = status == REFUSED and len(self._ends_s) == 1
        ends_too_often = len(self._ends_s) > MAX_RESTARTS and now_s - self._ends_s[0] < RESTARTS_PER_S
        return status != 0 and not has_refused and not ends_too_often


class CrashError(PlannerError):
    """Why a node ends that was at work: to start it again may help."""


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


REFUSED_BY_ROS = (
    rclpy_implementation.RCLError,
    NameValidationException,
    ParameterException,
    InvalidParameterTypeException,
)
"""What rclpy raises for a name, a remapping rule or a parameter that was given and cannot be."""


def _refusal(error: Exception) -> PlannerError:
    """Returns what is wrong with how a node was started, in one line."""
    if isinstance(error, PlannerError):
        return error
    what, *_ = str(error).partition(", at /")[0].splitlines() or [type(error).__name__]
    message = f"the node cannot start: {what}; check its name, its namespace and its parameters"
    return PlannerError(ErrorCode.INVALID_CONFIG, message)


def leave_last_words(error: PlannerError) -> None:
    """Tells the process that started this one, if it has asked for it, why this one ends."""
    if path := os.environ.get(LAST_WORDS):
        with contextlib.suppress(OSError):
            Path(path).write_text(json.dumps([error.code, error.message]), encoding="utf-8")


def read_last_words(path: Path) -> PlannerError | None:
    """Returns why a process has ended; None if it left no word."""
    try:
        code, message = json.loads(path.read_text(encoding="utf-8"))
        return PlannerError(ErrorCode(code), message)
    except (OSError, ValueError):  # it may have been killed while it wrote
        return None


class _StopSignal:
    """Set by the first SIGINT, SIGTERM or SIGHUP; a process of ``composition.Fleet`` gets SIGTERM when its parent ends.

    SIGHUP comes when the terminal that started it is gone; where it is ignored (``nohup``), it stays so.
    Later signals are ignored, so that nothing interrupts the clean-up. The handler only notes the signal, unless
    ``interrupts``: then it raises SystemExit in what the main thread is at. It runs as soon as the interpreter does:
    every node here has a timer of at most half a second that ends the executor's wait.
    """

    def __init__(self) -> None:
        self.is_set = self.interrupts = False
        faulthandler.register(signal.SIGALRM, chain=True)  # says where it hangs, then ends it
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if not self.is_set:
            self.is_set = True
            _limit_end()
            if self.interrupts:
                raise SystemExit


def _limit_end() -> None:
    """Has the kernel end this process, whatever it then does: a thread would need the interpreter, which may hang."""
    signal.setitimer(signal.ITIMER_REAL, STOP_TIMEOUT_S)


def run(
    build: Callable[[], NodeProcess], arguments: Sequence[str] | None = None, *, is_interruptible: bool = False
) -> NoReturn:
    """Runs a node until a signal or its failure; then ends the process.

    It ends without the clean-up of interpreter and libraries, which waits for threads, and takes a second of processor
    time in each process of a fleet that is stopped: on a busy machine many seconds.

    Exit status: 0 after a signal, ``REFUSED`` if the node itself says why it cannot run, ``CRASHED`` if rclpy failed,
    or the node with a ``CrashError``.
    What a callback raises is logged, counted and passed over (``ros.guarded_executor``).

    Args:
        build: Returns the node.
        arguments: Command line with the ROS arguments; None for this process's.
        is_interruptible: Whether a signal raises SystemExit in ``build``, which may take longer than a process has to
            end, and then makes safe what it has begun to move.
    """
    _end(_run(build, arguments, is_interruptible=is_interruptible))


def run_group(builds: Mapping[str, Callable[[], NodeProcess]], arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs some nodes in this process until a signal, or until all have ended; then ends the process.

    Each has an executor and a thread of its own, so what one does delays the others by no more than the interpreter's
    lock. One that refuses to run, or fails, ends alone; one that crashes is built again a second later, like a
    process of ``composition.Fleet``.

    Exit status: 0 after a signal; ``REFUSED`` if all refused to run, else ``CRASHED``.

    Args:
        builds: Return the nodes, each in the thread that spins it; by name.
        arguments: Command line with the ROS arguments; None for this process's.
    """
    _end(_run_group(builds, arguments))


def _end(status: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # a full disk, a closed terminal
            stream.flush()
    os._exit(status)


def _run(build: Callable[[], NodeProcess], arguments: Sequence[str] | None, *, is_interruptible: bool) -> int:
    stop = _StopSignal()
    if not _has_started(arguments):
        return REFUSED

    def build_or_end() -> NodeProcess:
        stop.interrupts = is_interruptible
        if stop.is_set and is_interruptible:
            raise SystemExit
        try:
            return build()
        finally:
            stop.interrupts = False

    try:
        status = _live(build_or_end, stop, at_end=_limit_end)
    except SystemExit:
        if not stop.is_set:
            raise
        status = 0
    rclpy.utilities.try_shutdown()
    return status


def _run_group(builds: Mapping[str, Callable[[], NodeProcess]], arguments: Sequence[str] | None) -> int:
    stop = _StopSignal()
    if not _has_started(arguments):
        return REFUSED
    statuses: dict[str, int] = {}

    def keep(name: str, build: Callable[[], NodeProcess]) -> None:
        statuses[name] = _keep_alive(name, build, stop)

    threads = [threading.Thread(target=keep, args=each, name=each[0], daemon=True) for each in builds.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(POLL_S)  # signals are handled in this thread, between two waits at the latest
    if not stop.is_set:
        _limit_end()
    rclpy.utilities.try_shutdown()
    return 0 if stop.is_set else REFUSED if set(statuses.values()) == {REFUSED} else CRASHED


def _keep_alive(name: str, build: Callable[[], NodeProcess], stop: _StopSignal) -> int:
    """Runs a node of a group, again if it crashes, until the signal or its end; returns the last exit status."""
    restarts = Restarts()
    while True:
        try:
            status = _live(build, stop, name)
        except Exception:  # noqa: BLE001 -- the other nodes of the process go on
            traceback.print_exc()
            status = CRASHED
        is_again = not stop.is_set and restarts.may_start_again(status, time.monotonic())
        if status != 0:
            then = "is started again" if is_again else "the others go on without it"
            print(f"{name} ended with status {status}; {then}", file=sys.stderr)  # noqa: T201 -- its node is gone
        if not is_again:
            return status
        time.sleep(RESTART_DELAY_S)


def _has_started(arguments: Sequence[str] | None) -> bool:
    """Starts rclpy; prints why if that cannot be."""
    try:
        rclpy.init(args=None if arguments is None else list(arguments), signal_handler_options=SignalHandlerOptions.NO)
    except REFUSED_BY_ROS as error:
        _refuse(error)
        rclpy.utilities.try_shutdown()
        return False
    return True


def _refuse(error: Exception, name: str = "") -> None:
    refusal = _refusal(error)
    print(f"error: {name and name + ': '}{refusal}", file=sys.stderr)  # noqa: T201 -- no node yet that could log
    leave_last_words(refusal)


def _live(
    build: Callable[[], NodeProcess], stop: _StopSignal, name: str = "", at_end: Callable[[], None] = lambda: None
) -> int:
    """Builds a node, spins it until the signal or its failure, and ends it; returns the exit status.

    Args:
        build: Returns the node.
        stop: The signal.
        name: Begins the line that says why it cannot start.
        at_end: Called before a node ends that no signal has ended.
    """
    try:
        node = build()
    except (PlannerError, *REFUSED_BY_ROS) as error:
        _refuse(error, name)
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
        at_end()
    if node.failure is not None:
        node.get_logger().fatal(str(node.failure))
        leave_last_words(node.failure)
    node.end_goals()
    with contextlib.suppress(Exception):  # of an rclpy that has failed before
        _flush(executor)
    node.close()
    executor.shutdown(timeout_sec=0.5)
    has_crashed |= isinstance(node.failure, CrashError)
    return CRASHED if has_crashed else 0 if node.failure is None else REFUSED


def _flush(executor: GuardedExecutor) -> None:
    """Gives results and last words 0.2 s to leave, and up to 0.8 s as long as there is always something to do."""
    begun_s, passed_s = time.monotonic(), 0.0
    while passed_s < FLUSH_S or (passed_s < MAX_FLUSH_S and not executor.is_idle):
        executor.spin_once(timeout_sec=0.01)
        passed_s = time.monotonic() - begun_s
