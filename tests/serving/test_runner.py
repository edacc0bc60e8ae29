"""The runner: commands that raise end their own goal, and the longest turn is known."""

from llm_planner.core.errors import ErrorCode
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
