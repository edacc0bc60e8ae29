# SPDX-License-Identifier: Apache-2.0
"""Counts, and prints, the calls on a goal's way: from its acceptance to the engine, and from tokens to feedback.

    python -m llm_planner_lab.ros.goal_path

A real planner node with its engine process serves goals over DDS; the engine is scripted and takes no time. A profile
hook in every thread that a goal passes notes the functions of this package. Counted are those of ``ros/`` and
``serving/``, and the first function of another package that they enter: what prompt, gate, parser and scheduler do
inside is work on the goal, not its way. Checks of values and clocks (``core/``), libraries and generated methods are
not counted. A hop (marked ``>``) is a function of ``ros/`` or ``serving/`` that calls another of these: it passes the
goal on.

    to the engine   in the node: all that the goal's callbacks do; in the engine process: until ``Backend.execute``
    to the robot    in the engine process: from the end of ``execute`` until the turn is over; in the node: all that the
                    segment's message causes, up to its feedback
"""

import argparse
import atexit
import functools
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Self

import rclpy
from rclpy.action.client import ActionClient
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.task import Future

import llm_planner
from llm_planner.action import PlanTask
from llm_planner.assembly import build_admission
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.config import PlannerConfig, SchedulerConfig
from llm_planner.robots.library import RobotLibrary
from llm_planner.ros.planner_node import PlannerNode
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.child import ChildServer
from llm_planner.serving.fake import FakeBackend, FakeTiming, FakeTokenizer
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.plan_preparer import PlanPreparer
from llm_planner.serving.replica import Factories

PATHS = ("ros", "serving")
FIRST_SEGMENT, PLAN = "mf(50);", "mf(50);tc(90);mf(51);tc(91);"
TIMEOUT_S = 120.0
PACKAGE = Path(llm_planner.__file__).parent


class Call(NamedTuple):
    """One call of a function of the package, or the return of one.

    Attributes:
        at_ns: Of the machine's monotonic clock, which processes share.
        depth: Calls of the package on this thread's stack that have not returned.
        name: ``folder.module.function``.
    """

    at_ns: int
    thread: str
    depth: int
    name: str
    is_return: bool


class CallLog:
    """A profile hook that notes calls, for threads that begin after ``begin`` and the one that calls it."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._stack = threading.local()

    def begin(self) -> None:
        """Notes the calls of this thread, and of those that it starts."""
        threading.setprofile(self._hook)
        sys.setprofile(self._hook)

    def _hook(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return"):
            return
        name = _name(frame.f_code)
        if name is None:
            return
        stack: list[str] = self._stack.__dict__.setdefault("names", [])
        if event == "return" and stack:
            stack.pop()
        if not stack or _is_on_path(stack[-1]) or _is_on_path(name):
            thread = threading.current_thread().name
            self.calls.append(Call(time.monotonic_ns(), thread, len(stack), name, event == "return"))
        if event == "call":
            stack.append(name)


@functools.cache
def _name(code: Any) -> str | None:
    """Returns the name of a function of the package; None for others, and for loops that Python runs as functions."""
    path = Path(code.co_filename)
    if not path.is_relative_to(PACKAGE) or code.co_name in ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"):
        return None
    return ".".join((*path.relative_to(PACKAGE).with_suffix("").parts, code.co_qualname))


def _is_on_path(name: str) -> bool:
    return name.partition(".")[0] in PATHS


def build_loop(log_path: str) -> PlannerLoop:
    """Returns a loop over an engine that takes no time, whose calls are written to a file at the end."""
    log = CallLog()
    atexit.register(lambda: Path(log_path).write_text(json.dumps(log.calls)))
    tokenizer = FakeTokenizer(bytes_per_token=len(FIRST_SEGMENT))
    backend = FakeBackend(plans={"go": PLAN}, tokenizer=tokenizer, timing=FakeTiming(step_s=1e-6), sleep=None)
    config = SchedulerConfig(max_num_batched_tokens=100_000)
    scheduler = Scheduler(config, make_policy(config.policy), backend.info)
    preparer = PlanPreparer(backend=backend, tokenizer=tokenizer, library=RobotLibrary())
    log.begin()
    return PlannerLoop(backend=backend, scheduler=scheduler, preparer=preparer, stopwatch=MonotonicClock())


def _build_server(log_path: str, config: PlannerConfig, book: GoalBook) -> ChildServer:
    book.admission = build_admission(config)
    return ChildServer([Factories(functools.partial(build_loop, log_path))], book=book, clock=MonotonicClock())


class _Client:
    """Sends goals with rclpy's bare client, so that no call of the client library is noted."""

    def __init__(self) -> None:
        self._node = Node("goal_path_client")
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        self._action = ActionClient(self._node, PlanTask, "/planner/plan_task")
        self._has_feedback = Future()
        if not self._action.wait_for_server(TIMEOUT_S):
            raise TimeoutError("the planner does not answer")

    def plan(self, number: int) -> str:
        """Sends a goal, waits for its first feedback and cancels it; returns its id."""
        self._has_feedback = Future()
        goal = PlanTask.Goal(robot_id=f"r{number}", robot_model="tello", instruction="go")
        handle = self._wait(self._action.send_goal_async(goal, feedback_callback=self._on_feedback))
        self._wait(self._has_feedback)
        self._wait(handle.cancel_goal_async())
        self._wait(handle.get_result_async())
        return bytes(handle.goal_id.uuid).hex()

    def _on_feedback(self, message: Any) -> None:
        if not self._has_feedback.done():
            self._has_feedback.set_result(message)

    def _wait(self, future: Future) -> Any:
        self._executor.spin_until_future_complete(future, TIMEOUT_S)
        if not future.done():
            raise TimeoutError(f"no answer within {TIMEOUT_S:g} s")
        return future.result()

    def close(self) -> None:
        """Ends the node."""
        self._executor.shutdown()
        self._node.destroy_node()


class _Planner:
    """A planner node that spins in a thread of its own, where every call is noted."""

    def __init__(self, log: CallLog, log_path: str) -> None:
        self._log, self._log_path = log, log_path
        self._is_active, self._is_closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="node")

    def _run(self) -> None:
        self._log.begin()
        parameters = [Parameter("startup_check_s", value=0.0)]
        node = PlannerNode(functools.partial(_build_server, self._log_path), parameter_overrides=parameters)
        executor = SingleThreadedExecutor()
        executor.add_node(node)
        while not self._is_closing.is_set():
            executor.spin_once(timeout_sec=0.05)
            if node._is_active:  # noqa: SLF001 (no other sign of it in this process)
                self._is_active.set()
        node.end_goals()
        node.close()
        executor.shutdown()

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._is_active.wait(TIMEOUT_S):
            raise TimeoutError("the planner is not active")
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closing.set()
        self._thread.join()


def record(num_goals: int) -> tuple[list[Call], list[Call]]:
    """Returns the calls of the node and of its engine process while goals were planned one after the other."""
    log = CallLog()
    with tempfile.TemporaryDirectory() as folder:
        log_path = Path(folder) / "engine.json"
        rclpy.init()
        with _Planner(log, str(log_path)):
            client = _Client()
            for number in range(num_goals):
                client.plan(number)
            client.close()
        threading.setprofile(None)
        rclpy.shutdown()
        return log.calls, [Call(*entry) for entry in json.loads(log_path.read_text())]


class Way(NamedTuple):
    """The calls of one goal: from its acceptance to ``Backend.execute``, and from its tokens to its feedback."""

    to_engine: list[Call]
    to_robot: list[Call]


def ways(node: Sequence[Call], engine: Sequence[Call]) -> Iterator[Way]:
    """Yields the way of each goal."""
    for asked in (call for call in node if call.name.endswith("EventActionServer._refuse") and not call.is_return):
        accepted = _next(node, asked.at_ns, "PlanAction._on_accepted", is_return=True)
        begun = _next(engine, asked.at_ns, "FakeBackend.execute")
        done = _next(engine, begun.at_ns, "FakeBackend.execute", is_return=True)
        turned = _next(engine, done.at_ns, "LoopRunner._turn")
        drained = _next(node, done.at_ns, "Bridge._drain")
        told = _next(node, drained.at_ns, "PlanAction.on_event", is_return=True)
        to_engine = [
            *_between(node, asked.at_ns, accepted.at_ns, asked.thread),
            *_between(engine, asked.at_ns, begun.at_ns),
        ]
        to_robot = [
            *_between(engine, done.at_ns, turned.at_ns - 1),
            *_between(node, done.at_ns, told.at_ns, "planner-reader"),
            *_between(node, drained.at_ns, told.at_ns, asked.thread),
        ]
        yield Way(list(_without_inside(to_engine)), list(_without_inside(to_robot)))


def _next(calls: Sequence[Call], from_ns: int, name: str, *, is_return: bool = False) -> Call:
    return next(c for c in calls if c.at_ns >= from_ns and c.name.endswith(name) and c.is_return == is_return)


def _between(calls: Sequence[Call], from_ns: int, to_ns: int, thread: str = "") -> list[Call]:
    within = (call for call in calls if from_ns <= call.at_ns <= to_ns and not call.is_return)
    return sorted(call for call in within if thread in ("", call.thread))


def _without_inside(calls: Sequence[Call]) -> Iterator[Call]:
    """Yields the calls but for ``core/`` and what the preparer does inside."""
    inside: Call | None = None
    for call in calls:
        if inside is not None and call.thread == inside.thread and call.depth > inside.depth:
            continue
        inside = call if call.name.endswith(".prepare") else None
        if not call.name.startswith("core."):
            yield call


def _hops(calls: Sequence[Call], returns: Sequence[Call]) -> set[Call]:
    """Returns the calls that are hops: another one on the path begins before they return."""
    on_path = [call for call in calls if _is_on_path(call.name)]
    return {
        call
        for call, after in pairwise(on_path)
        if after.thread == call.thread
        and after.depth > call.depth
        and not any(_returns(call, end) and end.at_ns <= after.at_ns for end in returns)
    }


def _returns(call: Call, end: Call) -> bool:
    return (end.thread, end.depth, end.name) == (call.thread, call.depth, call.name) and end.at_ns >= call.at_ns


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the shortest way; returns the exit status."""
    parser = argparse.ArgumentParser(description="Counts the calls on a goal's way through node and engine process.")
    parser.add_argument(
        "--goals", type=int, default=9, help="goals to count; the least count is shown, as timers add calls"
    )
    options = parser.parse_args(arguments)
    node, engine = record(options.goals)
    to_engine, to_robot = zip(*ways(node, engine), strict=True)
    returns = [call for call in (*node, *engine) if call.is_return]
    for title, found in (("to the engine", to_engine), ("to the robot", to_robot)):
        calls = min(found, key=len)
        hops = _hops(calls, returns)
        sys.stdout.write(f"{title}: {len(calls)} calls, {len(hops)} hops\n")
        for call in calls:
            sys.stdout.write(f"    {call.thread:<14} {'>' if call in hops else ' '} {'  ' * call.depth}{call.name}\n")
    return 0


if __name__ == "__main__":
    from llm_planner_lab.ros.goal_path import main as run  # what is pickled for the engine has a name there

    sys.exit(run())
