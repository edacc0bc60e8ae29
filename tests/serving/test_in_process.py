# SPDX-License-Identifier: Apache-2.0
"""The in-process server: real threads, scripted plans."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.serving.child import ChildServer
from llm_planner.serving.dispatcher import Dispatcher
from llm_planner.serving.events import Event, Finished, SegmentReady
from llm_planner.serving.fake import FakeBackend, FakeTiming
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.in_process import InProcessServer
from tests.serving.builders import make_admission, make_loop, make_request, succeeded


class Owner:
    """Receives events and reports every segment at once."""

    def __init__(self, backend: FakeBackend, policy: str = "fcfs_segment") -> None:
        self.events: list[Event] = []
        self.changed = threading.Condition()
        self.server = InProcessServer(
            make_loop(backend=backend, policy=policy),
            book=GoalBook(make_admission(), Dispatcher(self.on_event).put),
            clock=MonotonicClock(),
        )
        self.server.start()

    def on_event(self, event: Event) -> None:
        with self.changed:
            self.events.append(event)
            self.changed.notify_all()
        if isinstance(event, SegmentReady):
            self.server.report(succeeded(event.request_id, event.segment.index, 0.0))

    def result(self, request_id: str):
        def ends():
            return [e.result for e in self.events if isinstance(e, Finished) and e.request_id == request_id]

        with self.changed:
            assert self.changed.wait_for(ends, timeout=20.0)
        return ends()[0]


@pytest.fixture
def own() -> Iterator[Callable[..., Owner]]:
    owners: list[Owner] = []

    def make(*args, **kwargs) -> Owner:
        owners.append(Owner(*args, **kwargs))
        return owners[-1]

    yield make
    for owner in owners:
        owner.server.close()


def test_plans(own):
    owner = own(FakeBackend(plans={"go": "mf(50);tc(90);"}))
    owner.server.submit(make_request())
    assert owner.result("r1").plan == "mf(50);tc(90);"
    assert owner.server.status.is_ready
    assert owner.server.status.request_ids == ()
    assert owner.server.wait_ready(0.0)


def test_many_goals_at_once(own):
    owner = own(FakeBackend(plans={"go": "mf(50);tc(90);" * 5}))
    for i in range(40):
        owner.server.submit(make_request(f"r{i}"))
    for i in range(40):
        assert owner.result(f"r{i}").error_code is ErrorCode.NONE


def test_cancel_does_not_wait_for_the_step(own):
    owner = own(FakeBackend(plans={"go": "mf(50);"}, timing=FakeTiming(step_s=1.0), sleep=time.sleep))
    owner.server.submit(make_request())
    time.sleep(0.1)
    started_s = time.monotonic()
    assert owner.server.cancel("r1", ErrorCode.CLIENT_GONE, "gone")
    assert owner.result("r1").error_code is ErrorCode.CLIENT_GONE
    assert time.monotonic() - started_s < 0.5
    assert not owner.server.cancel("r1")


def test_a_view_comes_when_it_is_asked_for(own):
    owner = own(FakeBackend(plans={"go": "mf(50);"}, timing=FakeTiming(step_s=0.2), sleep=time.sleep))
    owner.server.submit(make_request())
    assert owner.server.status.view is None
    owner.server.look()
    deadline_s = time.monotonic() + 10.0
    while (view := owner.server.status.view) is None:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    assert [goal.request_id for goal in view.goals] == ["r1"]


def test_an_idle_loop_sleeps(own):
    steps = []
    backend = FakeBackend(plans={"go": "mf(50);"}, sleep=steps.append)
    owner = own(backend)
    owner.server.submit(make_request())
    owner.result("r1")
    time.sleep(0.05)
    num_steps = len(steps)
    time.sleep(0.2)
    assert len(steps) == num_steps < 30


def test_a_crash_of_the_engine_ends_every_goal(own):
    def crash(seconds: float) -> None:
        raise RuntimeError("out of luck")

    owner = own(FakeBackend(plans={"go": "mf(50);"}, sleep=crash))
    owner.server.submit(make_request())
    assert owner.result("r1").error_code is ErrorCode.ENGINE_FAILED
    with pytest.raises(PlannerError, match="out of luck"):
        owner.server.submit(make_request("r2"))
    with pytest.raises(PlannerError, match="out of luck"):
        owner.server.wait_ready(0.0)
    assert not owner.server.status.is_ready


def test_close_ends_every_goal(own):
    owner = own(FakeBackend(plans={"go": "mf(50);" * 50}, sleep=time.sleep), policy="fcfs")
    owner.server.submit(make_request())
    owner.server.close()
    assert owner.result("r1").error_code is ErrorCode.SHUTTING_DOWN
    with pytest.raises(PlannerError, match="SHUTTING_DOWN"):
        owner.server.submit(make_request("r2"))
    owner.server.close()


def test_an_owner_that_raises_hears_the_next_event(caplog):
    heard = []

    def on_event(event: Event) -> None:
        heard.append(event)
        raise ValueError("owner's mistake")

    dispatcher = Dispatcher(on_event)
    server = InProcessServer(
        make_loop({"go": "mf(50);"}, do_clients_report=False),
        book=GoalBook(make_admission(), dispatcher.put),
        clock=MonotonicClock(),
    )
    server.start()
    server.submit(make_request())
    deadline_s = time.monotonic() + 10.0
    while not any(isinstance(e, Finished) for e in heard) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    server.close()
    dispatcher.close()
    assert [type(e).__name__ for e in heard] == ["SegmentReady", "PlanComplete", "Finished"]
    assert "owner's mistake" in caplog.text


@pytest.mark.parametrize("kind", ["in_process", "child"])
def test_a_server_that_was_closed_ends_no_goal_of_the_next_one(kind):
    """A node closes a server in a thread that it does not wait for to the end, and gives its book to the next one."""
    book, clock = GoalBook(make_admission()), MonotonicClock()
    if kind == "child":
        server = ChildServer(make_loop, book=book, clock=clock)
    else:
        server = InProcessServer(make_loop(), book=book, clock=clock)
    book.open(make_request("old"), clock.now_s())
    server.close()
    assert book.request_ids == ()
    book.open(make_request("new"), clock.now_s())
    server.close()
    assert book.request_ids == ("new",)
