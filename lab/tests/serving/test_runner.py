# SPDX-License-Identifier: Apache-2.0
"""The runner: messages that raise end their own goal, and the longest turn is known."""

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from multiprocessing import Pipe
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.tests.serving.test_replans import make_loop as make_planning_loop
from llm_planner.core.errors import ErrorCode
from llm_planner.core.pose import Pose
from llm_planner.core.request import BudgetScope, OverrunStrategy, Urgency
from llm_planner.core.segment import ReportStatus, SegmentReport, Situation
from llm_planner.core.step import SchedulerOutput, StepOutput
from llm_planner.serving.child_process import LoopRunner
from llm_planner.serving.events import Finished, SegmentReady
from llm_planner.serving.fake import FakeBackend
from llm_planner.serving.goal_record import GoalRecord
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.messages import Admitted, Look, Report, Snapshot
from tests.serving.builders import make_loop, make_request, succeeded


class Clock:
    now = 0.0

    def now_s(self) -> float:
        return self.now


class Line:
    """A runner, and its parent's end of the pipe."""

    def __init__(self, loop: PlannerLoop, *messages, clock: Clock | None = None) -> None:
        self._parent, own = Pipe()
        self.runner = LoopRunner(own, loop, 0.0, clock or Clock())
        self.tell(*messages)

    def tell(self, *messages) -> None:
        for message in messages:
            self._parent.send(message)

    def turn(self, num_turns: int = 1) -> None:
        for _ in range(num_turns):
            self.runner._turn()

    def said(self, kind: type) -> list:
        received = []
        while self._parent.poll():
            received.append(self._parent.recv())
        return [message for message in received if isinstance(message, kind)]


def run(loop: PlannerLoop, *messages, clock: Clock | None = None) -> Line:
    """Returns the line of a runner that has obeyed some messages, and has ended."""
    line = Line(loop, *messages, None, clock=clock or Clock())
    line.runner.run()
    return line


def record(name: str, instruction: str = "go", **request) -> GoalRecord:
    return GoalRecord(request=make_request(name, instruction, **request), arrival_s=0.0)


def fail(*_: object) -> list:
    raise ZeroDivisionError("a defect")


def test_a_message_that_raises_ends_its_goal_alone(caplog):
    loop = make_loop({"go": "a();"})
    loop.report = loop.look = fail
    reports = [Report(succeeded(name, 0), 0.0) for name in ("r1", "unknown")]
    line = Line(loop, record("r1"), record("r2"), *reports, Look(), clock=Clock())
    line.turn(5)
    said = line.said(Finished | Snapshot)
    ends = [event.result for event in said if isinstance(event, Finished)]
    assert [(end.request_id, end.error_code) for end in ends] == [
        ("r1", ErrorCode.ENGINE_FAILED),
        ("unknown", ErrorCode.ENGINE_FAILED),
    ]
    assert "a defect" in ends[0].error_msg
    assert said[-1] == Snapshot(None)
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
    assert run(loop).runner.longest_turn_s == 0.0
    loop.warm_up([make_request(instruction="long")])
    assert run(loop).runner.longest_turn_s == 6.0  # the prompt, and its end

    def take_a_while(*_: object) -> list:
        clock.now += 7.0
        return []

    loop.report = take_a_while
    line = run(loop, Report(succeeded("r1", 0), 0.0), record("r1"), clock=clock)
    assert line.runner.longest_turn_s == 7.0


def slow_down(loop: PlannerLoop, clock: Clock, did: list[str], **seconds: float) -> None:
    """Has methods of a loop take some seconds, and note their names."""

    def slow(name: str, call: Callable[..., list], duration_s: float) -> Callable[..., list]:
        def take_a_while(*arguments: object) -> list:
            did.append(name)
            clock.now += duration_s
            return call(*arguments)

        return take_a_while

    for name, duration_s in seconds.items():
        setattr(loop, name, slow(name, getattr(loop, name), duration_s))


def test_goals_that_come_at_once_do_not_hold_up_plans_that_are_being_written():
    """Opening a goal takes 1 s here and a step 4 s: four goals, and the one that exceeds it, fit in between."""
    clock = Clock()
    loop = make_loop({"go": "a();" * 30}, policy="fcfs_stream")
    did: list[str] = []
    slow_down(loop, clock, did, step=4.0, open=1.0)
    line = Line(loop, record("early", urgency=Urgency.URGENT), clock=clock)
    line.turn(2)
    line.tell(*(record(f"r{number}") for number in range(20)))
    line.turn()
    line.tell(record("late", urgency=Urgency.URGENT))
    line.turn(12)
    runs = [(name, len(list(group))) for name, group in groupby(did)]
    assert runs == [("open", 1), ("step", 1), ("open", 6), ("step", 1), ("open", 5), ("step", 1)]
    assert list(loop.request_ids)[:3] == ["early", "r0", "late"]


@pytest.mark.parametrize("urgency", [Urgency.URGENT, Urgency.NORMAL])
def test_goals_with_time_budgets_that_come_at_once_hold_up_no_emergency(urgency):
    """Opening a goal takes 1 s here and a step 4 s."""
    clock = Clock()
    loop = make_loop({"go": "a();" * 30}, policy="fcfs_stream")
    did: list[str] = []
    slow_down(loop, clock, did, step=4.0, open=1.0)
    line = Line(loop, record("early"), clock=clock)
    line.turn(2)
    line.tell(*(record(f"r{number}", time_budget_s=1000.0) for number in range(7)), record("late", urgency=urgency))
    line.turn(12)
    runs = [(name, len(list(group))) for name, group in groupby(did)]
    if urgency is Urgency.URGENT:
        assert list(loop.request_ids)[:3] == ["early", "late", "r0"]
        assert runs[:5] == [("open", 1), ("step", 1), ("open", 6), ("step", 1), ("open", 2)]
    else:
        assert list(loop.request_ids)[:3] == ["early", "r0", "r1"]
        assert runs[2][1] >= 7


def test_goals_wait_as_long_as_a_short_time_budget_is_kept():
    clock = Clock()

    def take_a_while(_: float) -> None:
        clock.now += 0.1

    loop = make_loop(backend=FakeBackend(plans={"go": "ab();cd();"}, sleep=take_a_while), policy="fcfs_stream")
    line = Line(loop, emergency("urgent", 0.95, 0.0), clock=clock)
    line.turn(2)
    line.tell(record("other"))
    while not line.said(SegmentReady):
        assert tuple(loop.request_ids) == ("urgent",)
        line.turn()
    line.turn(2)
    assert "other" in loop.request_ids


def test_goals_do_not_wait_for_ever_for_short_time_budgets_that_follow_each_other():
    clock = Clock()

    def take_a_while(_: float) -> None:
        clock.now += 0.02

    plan = "4{" + "a();" * 25 + "}"  # one segment
    loop = make_loop(backend=FakeBackend(plans={"go": plan}, sleep=take_a_while), policy="fcfs_stream")
    line = Line(loop, emergency("u0", 0.9, 0.0), record("other"), Look(), clock=clock)
    for number in range(1, 100):
        line.turn(8)
        if "other" in loop.request_ids:
            break
        assert loop.least_budget_s(clock.now) < 1.0
        line.tell(emergency(f"u{number}", 0.9, clock.now))
    assert 1.0 < clock.now < 1.5
    line.turn(4)
    assert line.said(Snapshot)


def test_what_an_engine_raises_is_not_taken_for_a_parent_that_is_gone():
    def fail_so(*_: object) -> list:
        raise EOFError("a worker of the engine has died")

    loop = make_loop({"go": "a();"})
    loop.step = fail_so
    line = Line(loop)
    with pytest.raises(EOFError):
        line.runner.run()


class InterruptibleBackend(FakeBackend):
    """Steps of 0.4 s on the test's clock: a parent speaks while they run, and four times it is asked about that."""

    def start(self, clock: Clock) -> None:
        self.clock, self.is_pressing, self.while_running, self.given_up = clock, None, [], []

    def interrupt_by(self, is_pressing) -> None:
        self.is_pressing = is_pressing

    def execute(self, scheduled: SchedulerOutput) -> StepOutput:
        for tell in self.while_running:
            tell()
        self.while_running = []
        gives_up = False
        for share in (0.0, 0.25, 0.5, 0.75):
            gives_up = gives_up or self.is_pressing(share)
            self.clock.now += 0.1
        self.given_up.append(gives_up)
        if not gives_up:
            return super().execute(scheduled)
        output = super().execute(replace(scheduled, num_scheduled_tokens={}))
        step = replace(scheduled, num_scheduled_tokens=dict.fromkeys(scheduled.num_scheduled_tokens, 0))
        return replace(output, step=step, is_given_up=True)


def interruptible() -> tuple[InterruptibleBackend, Line]:
    """Returns a backend that is about to run a step, and the line of its loop."""
    clock = Clock()
    backend = InterruptibleBackend(plans={"go": "a();" * 30})
    backend.start(clock)
    line = Line(make_loop(backend=backend, policy="fcfs_stream"), record("early"), clock=clock)
    line.turn()
    return backend, line


def emergency(name: str, time_budget_s: float, at_s: float, **fields: Any) -> GoalRecord:
    request = make_request(name, urgency=Urgency.URGENT, time_budget_s=time_budget_s, **fields)
    return GoalRecord(request=request, arrival_s=at_s)


@pytest.mark.parametrize(("time_budget_s", "is_given_up"), [(0.3, True), (5.0, False)])
def test_a_step_is_given_up_for_a_time_budget_that_would_be_refused_at_its_end(time_budget_s, is_given_up):
    backend, line = interruptible()
    backend.while_running = [lambda: line.tell(emergency("urgent", time_budget_s, 0.0))]
    line.turn()
    assert backend.given_up == [is_given_up]
    line.turn(2)  # the goal is opened, and decided about before the next step
    assert line.said(Admitted | Finished)
    line.turn(100)
    ended = {end.request_id: end.result.error_code for end in line.said(Finished)}
    assert ended.pop("early", ErrorCode.NONE) is ErrorCode.NONE
    assert not line.runner._loop._is_kv_off
    line.runner._loop._scheduler.check_integrity()


def test_no_two_steps_in_a_row_are_given_up():
    backend, line = interruptible()
    backend.while_running = [lambda: line.tell(emergency("urgent", 0.3, 0.0))]
    line.turn()
    backend.while_running = [lambda: line.tell(emergency("another", 0.3, line.runner._clock.now))]
    line.turn(3)
    assert backend.given_up[:2] == [True, False]


@pytest.mark.parametrize(
    ("time_budget_s", "overrun", "is_given_up"),
    [
        (100.0, OverrunStrategy.KILL, False),
        (100.0, OverrunStrategy.SKIP_NEXT, False),
        (0.1, OverrunStrategy.SKIP_NEXT, True),
    ],
)
def test_no_step_is_given_up_that_a_goal_is_part_of_whose_time_budget_is_kept(time_budget_s, overrun, is_given_up):
    backend, line = interruptible()
    first = emergency("first", time_budget_s, 0.0, overrun=overrun, budget_scope=BudgetScope.WHOLE_PLAN)
    line.runner._clock.now = 0.2
    line.tell(first)
    line.turn()
    backend.while_running = [lambda: line.tell(emergency("second", 0.3, line.runner._clock.now))]
    line.turn()
    assert backend.given_up == [is_given_up]


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
    line = Line(loop)
    for number, text in enumerate(instructions, start=1):
        line.tell(record(f"r{number}", text, scene=text))
    line.turn(20)
    for name, index, status, reason, situation, duration_s in reports:
        report = SegmentReport(
            request_id=name, index=index, status=status, reason=reason, situation=situation, duration_s=duration_s
        )
        line.tell(Report(report, 0.0))
        line.turn(3)
    line.turn(20)
    loop._scheduler.check_integrity()
    ended = [event.request_id for event in line.said(Finished)]
    for number in (1, 2, 3):
        assert (f"r{number}" in ended) != (f"r{number}" in loop.request_ids)
