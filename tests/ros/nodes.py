# SPDX-License-Identifier: Apache-2.0
"""A planner node over real DDS in front of a scripted server, and robots: all in one process."""

import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
    import rosidl_generator_py  # noqa: F401 -- imports a lark that uses sre_parse

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanResult, Urgency
from llm_planner.core.segment import ExpectedDuration, ReportStatus, Segment
from llm_planner.core.skill import SkillCall
from llm_planner.ros.planner_client import PlannerClient
from llm_planner.ros.planner_node import PlannerNode
from llm_planner.serving.events import Finished, PlanComplete, SegmentReady
from llm_planner.serving.server import ServerStatus


def wait_until(is_met, timeout_s=10.0, what="condition"):
    """Polls; the timeout is generous because these tests run alongside others on two cores."""
    deadline = time.monotonic() + timeout_s
    while not is_met():
        assert time.monotonic() < deadline, f"{what} not met after {timeout_s} s"
        time.sleep(0.005)


def make_segment(index, text):
    name, _, rest = text.partition("(")
    call = SkillCall(name, tuple(a.strip("'") for a in rest.rstrip(");").split(",") if a))
    return Segment(index=index, text=text, calls=(call,), expected=ExpectedDuration(min_s=0.1, p50_s=0.2, p90_s=0.4))


class ScriptedServer:
    """A ``PlanServer`` whose plan is the instruction itself: ``mf(20);mb(20);``.

    The next segment follows the robot's report of the one before; instructions that begin with ``flood`` get all of
    them at once, those that begin with ``hang`` the first and no more, and those that begin with ``partial`` all but
    the last one; one that begins with ``unclear`` is not understood. The result of a goal that was superseded
    brings the whole plan, as the real planner's does.
    """

    def __init__(self, book):
        self._book = book
        self._engine = ThreadPoolExecutor(1)
        self.requests, self.segments, self.reports, self.ended = {}, {}, [], {}
        self.is_closed, self.seen = False, []
        self.num_looks, self.view, self.error = 0, None, None

    def start(self):
        pass

    def wait_ready(self, timeout_s):
        return True

    def submit(self, request):
        if not request.instruction.strip():
            raise PlannerError(ErrorCode.EMPTY_INSTRUCTION, "say what the robot shall do")
        for previous in [r for r in self.requests.values() if r.robot_id == request.robot_id]:
            if request.urgency is not Urgency.URGENT:
                raise PlannerError(ErrorCode.ROBOT_BUSY, f"{request.robot_id} has a goal")
            self.finish(previous.request_id, ErrorCode.SUPERSEDED, "a newer goal took the place")
        self._book.open(request, time.monotonic())
        mode, _, plan = request.instruction.rpartition(" ")
        segments = [make_segment(i, f"{text};") for i, text in enumerate(plan.strip(";").split(";"))]
        self.seen.append(request)
        segments = segments[: len(segments) - (mode == "partial")]
        self.requests[request.request_id] = request
        self.segments[request.request_id] = segments
        num_at_once = 0 if mode == "unclear" else len(segments) if mode == "flood" else 1
        for segment in segments[:num_at_once]:
            self._say(SegmentReady(request.request_id, segment))
        if mode == "unclear":
            self.segments[request.request_id] = []
            self.finish(request.request_id, ErrorCode.NOT_UNDERSTOOD, "not understood")
        elif mode == "hang":
            self.segments[request.request_id] = segments[:1] * 2
        elif num_at_once == len(segments):
            self._say(PlanComplete(request.request_id, len(segments)))

    def cancel(self, request_id, code=None, message="cancelled"):
        if request_id not in self.requests:
            return False
        self.finish(request_id, code or ErrorCode.CANCELLED, message)
        return True

    def report(self, report):
        self.reports.append(report)
        if (request_id := report.request_id) not in self.requests:
            return
        segments = self.segments[request_id]
        if report.status is ReportStatus.FAILED:
            self.finish(request_id, ErrorCode.SKILL_FAILED, report.reason)
        elif report.status is ReportStatus.SUCCEEDED and report.index + 1 == len(segments):
            is_partial = self.seen[-1].instruction.startswith("partial")
            self.finish(request_id, ErrorCode.PLAN_PARTIAL if is_partial else None)
        elif report.status is ReportStatus.SUCCEEDED:
            self._say(SegmentReady(request_id, segments[report.index + 1]))

    def finish(self, request_id, code=None, message=""):
        del self.requests[request_id]
        code = code or ErrorCode.NONE
        has_plan = code in (ErrorCode.NONE, ErrorCode.PLAN_PARTIAL, ErrorCode.SUPERSEDED, ErrorCode.NOT_UNDERSTOOD)
        segments = tuple({s.index: s for s in self.segments[request_id]}.values()) if has_plan else ()
        self.ended[request_id] = code
        result = PlanResult(request_id=request_id, error_code=code, error_msg=message, segments=segments)
        self._say(Finished(result))

    def _say(self, event):
        self._engine.submit(lambda: self._book.accept(event, time.monotonic()))

    def look(self):
        self.num_looks += 1

    @property
    def status(self):
        request_ids, is_ready = tuple(self.requests), self.error is None
        return ServerStatus(
            is_ready=is_ready, num_restarts=0, request_ids=request_ids, loop=None, view=self.view, error=self.error
        )

    def close(self):
        self.is_closed = True
        self._engine.shutdown()


class Spinner:
    """Spins nodes in a thread of their own."""

    def __init__(self, *nodes):
        self.executor = SingleThreadedExecutor()
        for node in nodes:
            self.executor.add_node(node)
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self):
        while not self._is_stopped.is_set():
            self.executor.spin_once(timeout_sec=0.1)

    def stop(self):
        self._is_stopped.set()
        self._thread.join()  # what is destroyed next, it must not be waiting for
        self.executor.shutdown(timeout_sec=1.0)


class Planner:
    """A planner node that spins, and the server behind it."""

    def __init__(self, name="planner", **parameters):
        parameters = {"startup_check_s": 0.0} | parameters
        self.servers, self.is_running = [], True
        self.node = PlannerNode(
            self._build, name=name, parameter_overrides=[Parameter(n, value=v) for n, v in parameters.items()]
        )
        self.spinner = Spinner(self.node)
        self.is_active = lambda: self.node._is_active

    def _build(self, config, book):
        self.servers.append(ScriptedServer(book))
        return self.servers[-1]

    @property
    def server(self):
        return self.servers[-1]

    def die(self):
        """Stops without telling any client."""
        if self.is_running:
            self.is_running = False
            self.spinner.stop()
            self.node.close()

    def stop(self):
        if self.is_running:
            wait_until(self.spinner.executor.create_task(self.node.end_goals).done)
            self.die()


class Robot:
    """A node with a client, that spins."""

    def __init__(self, name, **arguments):
        self.node = rclpy.create_node(name)
        self.client = PlannerClient(self.node, "tello", **arguments)
        self.spinner = Spinner(self.node)

    def stop(self):
        self.spinner.stop()
        self.node.destroy_node()


@contextlib.contextmanager
def starting(make: Callable) -> Iterator[Callable]:
    """Gives a function that makes something and hands it over; stops everything that it made."""
    started = []

    def start(*arguments, **options):
        started.append(make(*arguments, **options))
        return started[-1]

    yield start
    for one in started:
        one.stop()
