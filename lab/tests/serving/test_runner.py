# SPDX-License-Identifier: Apache-2.0
"""The runner: messages that raise end their own goal, and the longest turn is known."""

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.tests.serving.test_replans import make_loop as make_planning_loop
from llm_planner.core.errors import ErrorCode
from llm_planner.core.pose import Pose
from llm_planner.core.segment import ReportStatus, SegmentReport, Situation
from llm_planner.serving.child_process import Look, LoopRunner, Report, Snapshot
from llm_planner.serving.events import Finished
from llm_planner.serving.fake import FakeBackend
from llm_planner.serving.goal_record import GoalRecord
from llm_planner.serving.loop import PlannerLoop
from tests.serving.builders import make_loop, make_request, succeeded


class Clock:
    now = 0.0

    def now_s(self) -> float:
        return self.now


class Parent:
    """The other end of the line: says nothing more, and keeps what it receives."""

    def __init__(self) -> None:
        self.received = []
        self.send = self.received.append

    def recv(self) -> None:
        return None


def make_runner(loop: PlannerLoop, *messages, clock: Clock | None = None) -> LoopRunner:
    runner = LoopRunner(Parent(), loop, 0.0 if clock is None else 1.0, clock or Clock())
    for message in messages:
        runner._inbox.put(message)
    return runner


def run(loop: PlannerLoop, *messages, clock: Clock | None = None) -> LoopRunner:
    runner = make_runner(loop, *messages, clock=clock or Clock())
    runner.run()
    return runner


def record(name: str, instruction: str = "go", **request) -> GoalRecord:
    return GoalRecord(request=make_request(name, instruction, **request), arrival_s=0.0)


def said(runner: LoopRunner, kind: type) -> list:
    return [message for message in runner._connection.received if isinstance(message, kind)]


def fail(*_: object) -> list:
    raise ZeroDivisionError("a defect")


def test_a_message_that_raises_ends_its_goal_alone(caplog):
    loop = make_loop({"go": "a();"})
    loop.report = loop.look = fail
    reports = [Report(succeeded(name, 0), 0.0) for name in ("r1", "unknown")]
    runner = run(loop, record("r1"), record("r2"), *reports, Look())
    ends = [event.result for event in said(runner, Finished)]
    assert [(end.request_id, end.error_code) for end in ends] == [
        ("r1", ErrorCode.ENGINE_FAILED),
        ("unknown", ErrorCode.ENGINE_FAILED),
    ]
    assert "a defect" in ends[0].error_msg
    assert said(runner, Snapshot) == [Snapshot(None)]
    assert tuple(loop.request_ids) == ("r2",)
    loop._scheduler.check_integrity()


def test_a_plan_that_cannot_be_read_ends_its_goal_alone(caplog):
    loop = make_loop({"go": "a();b();"}, policy="fcfs_stream")
    for name in ("r1", "r2"):
        loop.submit(make_request(name), 0.0)
    loop._goals["r1"].session.feed = lambda _: 1 / 0  # a defect in the parser, say
    (end,) = [event for event in loop.step(0.0) if isinstance(event, Finished)]
    assert (end.request_id, end.result.error_code) == ("r1", ErrorCode.ENGINE_FAILED)
    assert tuple(loop.request_ids) == ("r2",)


def test_the_longest_turn_is_known_from_the_rehearsals_on():
    clock = Clock()

    def sleep(seconds: float) -> None:
        clock.now += 3.0

    loop = make_loop(backend=FakeBackend(sleep=sleep), stopwatch=clock)
    assert run(loop).longest_turn_s == 0.0
    loop.warm_up([make_request(instruction="long")])
    assert run(loop).longest_turn_s == 6.0  # the prompt, and its end

    def take_a_while(*_: object) -> list:
        clock.now += 7.0
        return []

    loop.report = take_a_while
    runner = run(loop, Report(succeeded("r1", 0), 0.0), record("r1"), clock=clock)
    assert runner.longest_turn_s == 7.0


hostile = st.text(st.characters(), max_size=40) | st.sampled_from(
    ["\ud800", "{" * 500, "exactly: " + "?" * 300, "a\x00b"]
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["r1", "r2", "r3", "x"]),
            st.integers(-(2**40), 2**40) | st.integers(-1, 4),
            st.sampled_from(ReportStatus),
            hostile,
            st.none() | st.builds(Situation, scene=hostile, pose=st.none() | st.builds(Pose, x_m=st.floats())),
            st.floats() | st.integers(),
        ),
        max_size=12,
    ),
    st.lists(hostile, min_size=3, max_size=3),
)
def test_whatever_robots_say_the_loop_goes_on(reports, instructions):
    """The messages of a parent that checked nothing."""
    loop = make_planning_loop(policy="fcfs_stream")
    runner = make_runner(loop)

    def turn(num_turns: int) -> None:
        for _ in range(num_turns):
            runner._turn()

    for number, text in enumerate(instructions, start=1):
        runner._inbox.put(record(f"r{number}", text, scene=text))
    turn(20)
    for name, index, status, reason, situation, duration_s in reports:
        report = SegmentReport(
            request_id=name, index=index, status=status, reason=reason, situation=situation, duration_s=duration_s
        )
        runner._inbox.put(Report(report, 0.0))
        turn(3)
    turn(20)
    loop._scheduler.check_integrity()
    ended = [event.request_id for event in said(runner, Finished)]
    for number in (1, 2, 3):
        assert (f"r{number}" in ended) != (f"r{number}" in loop.request_ids)
