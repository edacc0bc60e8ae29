# SPDX-License-Identifier: Apache-2.0
"""The other sides of a latency measurement: a planner that stamps its segments, and a load of busy robots."""

import functools
import random
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from rclpy.parameter import Parameter

from llm_planner.assembly import build_admission, build_library
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import PlanRequest, PlanResult
from llm_planner.core.segment import ExpectedDuration, ReportStatus, Segment, SegmentReport
from llm_planner.core.skill import SkillCall
from llm_planner.ros import process
from llm_planner.ros.plan_handle import PlanHandle
from llm_planner.ros.planner_client import PlannerClient
from llm_planner.ros.planner_node import PlannerNode
from llm_planner.ros.spinning import spinning
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.child import ChildServer
from llm_planner.serving.events import Event, Finished, SegmentReady
from llm_planner.serving.fake import FakeBackend
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.plan_preparer import PlanPreparer
from llm_planner.serving.replica import Factories
from llm_planner.serving.server import PlanServer, ServerStatus
from llm_planner_lab.tasks.sample import sample

TIMEOUT_S = 30.0
LOAD_INSTRUCTION = "go to the chair, then turn around, then go to the table, then take a picture, then land"
# With whole-plan generation a slot is taken until all of a plan is written: 485 tokens. Few statements, because a burst
# of hundreds of segments, reported at once, would measure the reports instead of the slots.
LONG_PLAN = f"l('{'a' * 285}');" * 5
LOAD_SCENE = "chair, table, " + ", ".join(f"box_{i}" for i in range(100))


@dataclass(slots=True)
class StampingServer:
    """A ``PlanServer`` without an engine: as many segments as the instruction says, each after the report of the last.

    ``generation_time_s`` of a segment holds the monotonic time at which it was handed over.
    """

    book: GoalBook
    _num_segments: dict[str, int] = field(default_factory=dict)
    _engine: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def start(self) -> None:
        """Serves already."""

    def wait_ready(self, timeout_s: float) -> bool:
        """Returns True at once."""
        return True

    def submit(self, request: PlanRequest) -> None:
        """Takes any request."""
        self.book.open(request, time.monotonic())
        self._num_segments[request.request_id] = int(request.instruction)
        self._hand_over(request.request_id, 0)

    def cancel(self, request_id: str, code: ErrorCode = ErrorCode.CANCELLED, message: str = "cancelled") -> bool:
        """Ends a goal."""
        if self._num_segments.pop(request_id, None) is None:
            return False
        result = PlanResult(request_id=request_id, error_code=code, error_msg=message)
        self._engine.submit(self._stamp, Finished(result))
        return True

    def report(self, report: SegmentReport) -> None:
        """Hands over the next segment, or ends the goal."""
        if report.index + 1 < self._num_segments[report.request_id]:
            self._hand_over(report.request_id, report.index + 1)
        else:
            self.cancel(report.request_id, ErrorCode.NONE, "")

    def look(self) -> None:
        """Shows nothing."""

    @property
    def status(self) -> ServerStatus:
        """Always ready."""
        return ServerStatus(is_ready=True, num_restarts=0, request_ids=tuple(self._num_segments), loop=None)

    def close(self) -> None:
        """Ends the thread."""
        self._engine.shutdown()

    def _hand_over(self, request_id: str, index: int) -> None:
        expected = ExpectedDuration(min_s=1.0, p50_s=2.0, p90_s=3.0)
        segment = Segment(index=index, text="mf(100);", calls=(SkillCall("mf", (100.0,)),), expected=expected)
        self._engine.submit(self._stamp, SegmentReady(request_id, segment))

    def _stamp(self, event: Event) -> None:
        if isinstance(event, SegmentReady):
            stamped = replace(event.segment, generation_time_s=time.monotonic())
            event = SegmentReady(event.request_id, stamped)
        self.book.accept(event, time.monotonic())


def serve_stamps() -> int:
    """Runs a planner node in front of a ``StampingServer``; returns the exit status."""

    def build(_config: PlannerConfig, book: GoalBook) -> PlanServer:
        return StampingServer(book)

    return process.run(lambda: PlannerNode(build), [])


def build_long_loop(config: PlannerConfig) -> PlannerLoop:
    """Returns a loop whose scripted model writes hundreds of tokens for anything, in steps of 10 ms or more."""
    backend = FakeBackend(default_plan=LONG_PLAN, sleep=time.sleep)
    return PlannerLoop(
        backend=backend,
        scheduler=Scheduler(config.scheduler, make_policy(config.scheduler.policy), backend.info),
        preparer=PlanPreparer(backend=backend, tokenizer=backend.tokenizer, library=build_library(config)),
    )


def serve_long(num_slots: int) -> int:
    """Runs a planner node whose engine, in its own process, holds a slot for seconds; returns the exit status."""

    def build(config: PlannerConfig, book: GoalBook) -> PlanServer:
        factory = functools.partial(build_long_loop, config)
        book.admission = build_admission(config)
        return ChildServer([Factories(factory)], book=book, clock=MonotonicClock())

    values = {"scheduler.max_num_seqs": num_slots, "scheduler.policy": "fcfs", "backend": "fake"}
    overrides = [Parameter(name, value=value) for name, value in values.items()]
    return process.run(lambda: PlannerNode(build, parameter_overrides=overrides), [])


def run_load(num_robots: int, *, is_scripted: bool) -> int:
    """Runs robots that carry out every segment in no time and ask again at once, until a signal ends the process.

    A scripted model writes a long plan for each. A real one is asked for tasks like those of its training, always
    others, as it would draft a plan that it has written before, and for plans only: no generation is suspended for the
    sake of a robot. All of them ask through one client: each client of an action reads the messages to all of them, and
    sixteen in one process are busy with nothing else.
    """
    with spinning("latency_load") as node:
        client = PlannerClient(node, "tello", robot_id="load")
        client.wait_for_planner(TIMEOUT_S)
        for number in range(num_robots):
            next_request = _scripted if is_scripted else functools.partial(_drawn_task, random.Random(number))
            _keep_asking(client, functools.partial(next_request, f"load_{number}"))
        threading.Event().wait()  # not for the end of standard input: a ``Fleet`` gives its processes an empty one
    return 0


def _scripted(robot_id: str) -> PlanRequest:
    return PlanRequest(
        request_id=uuid.uuid4().hex,
        robot_id=robot_id,
        robot_model="tello",
        instruction=f"exactly: {LONG_PLAN}",
        scene=LOAD_SCENE,
    )


def _drawn_task(rng: random.Random, robot_id: str) -> PlanRequest:
    while (task := sample(rng)).robot != "tello":
        pass
    return replace(_scripted(robot_id), instruction=task.instruction, scene=task.scene, plan_only=True)


def _keep_asking(client: PlannerClient, next_request: Callable[[], PlanRequest]) -> None:
    handle: PlanHandle

    def on_segment(segment: Segment) -> None:
        handle.report(segment, ReportStatus.SUCCEEDED)

    def ask(_: object = None) -> None:
        nonlocal handle
        handle = client.ask(next_request(), on_segment=on_segment)
        handle.future.add_done_callback(ask)

    ask()
