# SPDX-License-Identifier: Apache-2.0
"""The runner: commands that raise end their own goal, and the longest turn is known."""

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.tests.serving.test_replans import make_loop as make_planning_loop
from llm_planner.core.errors import ErrorCode
from llm_planner.core.pose import Pose
from llm_planner.core.segment import ReportStatus, SegmentReport, Situation
from llm_planner.serving.events import Finished
from llm_planner.serving.fake import FakeBackend
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.runner import LoopRunner
from tests.serving.builders import make_loop, make_request


class Clock:
    now = 0.0

    def now_s(self) -> float:
        return self.now


def run(loop: PlannerLoop, *commands) -> tuple[LoopRunner, list, Clock]:
    clock, events = Clock(), []
    runner = LoopRunner(loop, clock=clock, on_turn=events.extend)
    for command, request_id in commands:
        runner.put(lambda loop, command=command: command(loop, clock), request_id)
    runner.stop()
    runner.run()
    return runner, events, clock


def fail(loop: PlannerLoop, clock: Clock) -> list:
    raise ZeroDivisionError("a defect")


def submit(name: str):
    return lambda loop, clock: loop.submit(make_request(name), clock.now_s())


def test_a_command_that_raises_ends_its_goal_alone(caplog):
    loop = make_loop({"go": "a();"})
    _, events, _ = run(loop, (submit("r1"), "r1"), (submit("r2"), "r2"), (fail, "r1"), (fail, "unknown"), (fail, None))
    ends = [event.result for event in events if isinstance(event, Finished)]
    assert [(end.request_id, end.error_code) for end in ends] == [
        ("r1", ErrorCode.ENGINE_FAILED),
        ("unknown", ErrorCode.ENGINE_FAILED),
    ]
    assert "a defect" in ends[0].error_msg
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
    assert run(loop)[0].longest_turn_s == 0.0
    loop.warm_up([make_request(instruction="long")])
    assert run(loop)[0].longest_turn_s == 6.0  # the prompt, and its end

    def take_a_while(loop: PlannerLoop, clock: Clock) -> list:
        clock.now += 7.0
        return []

    runner, _, _ = run(loop, (take_a_while, None), (submit("r1"), "r1"))
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
    """The commands of a parent that checked nothing."""
    loop, clock, events = make_planning_loop(policy="fcfs_stream"), Clock(), []
    runner = LoopRunner(loop, clock=clock, on_turn=events.extend, max_sleep_s=0.0)

    def turn(num_turns: int) -> None:
        for _ in range(num_turns):
            events.extend(runner._turn())

    for number, text in enumerate(instructions, start=1):
        request = make_request(f"r{number}", text, scene=text)
        runner.put(lambda loop, request=request: loop.submit(request, 0.0), request.request_id)
    turn(20)
    for name, index, status, reason, situation, duration_s in reports:
        report = SegmentReport(
            request_id=name, index=index, status=status, reason=reason, situation=situation, duration_s=duration_s
        )
        runner.put(lambda loop, report=report: loop.report(report, 0.0), name)
        turn(3)
    turn(20)
    loop._scheduler.check_integrity()
    ended = [event.request_id for event in events if isinstance(event, Finished)]
    for number in (1, 2, 3):
        assert (f"r{number}" in ended) != (f"r{number}" in loop.request_ids)
