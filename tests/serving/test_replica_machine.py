# SPDX-License-Identifier: Apache-2.0
"""Replicas whose processes load, plan, are left unanswered and die in any order: a goal is with one engine, and ends.

There are no processes: a ``Link`` stands for a child and the pipe to it, and threads do not run.
"""

from collections import Counter, deque
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from llm_planner.core.clock import ManualClock
from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import PlanResult, Urgency
from llm_planner.core.segment import Situation
from llm_planner.serving.child import BUDGET_GRACE_S, ChildServer
from llm_planner.serving.events import Finished, PlanComplete, SegmentReady
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.goal_record import RESERVE_S, GoalRecord
from llm_planner.serving.messages import Admitted, Cancel, Heartbeat
from llm_planner.serving.quarantine import TRIAL_S
from llm_planner.serving.replica import Factories
from tests.serving.builders import failed, make_admission, make_loop, make_request, make_segment

HEARTBEAT = Heartbeat(make_loop().status, 0.0)
MOST_GOALS = 6


class Link:
    """A child and the pipe to it: it reads what it is told, and what it says is received later."""

    silent_s, num_hangs = None, 0

    def __init__(self) -> None:
        self.told: deque = deque()
        self.said: deque = deque()
        self.is_loaded = False
        self.num_segments: dict[str, int] = {}  # of the goals that it has, delivered before included

    def send(self, message: object) -> None:
        self.told.append(message)

    def load(self) -> None:
        if not self.is_loaded:
            self.is_loaded = True
            self.said.append(HEARTBEAT)

    def read(self) -> None:
        if self.is_loaded:
            self.num_segments, self.told = self.will_have, deque()

    @property
    def will_have(self) -> dict[str, int]:
        goals = dict(self.num_segments)
        for message in self.told:
            match message:
                case GoalRecord():
                    goals.setdefault(message.request_id, len(message.segments))
                case Cancel(request_id):
                    goals.pop(request_id, None)
        return goals

    def write(self, request_id: str) -> None:
        self.said.append(SegmentReady(request_id, make_segment(self.num_segments[request_id])))
        self.num_segments[request_id] += 1

    def end(self, request_id: str, code: ErrorCode) -> None:
        del self.num_segments[request_id]
        self.said.append(Finished(PlanResult(request_id=request_id, error_code=code, error_msg="")))


class Server:
    """A server whose replicas have links instead of children."""

    def __init__(self, num_replicas: int) -> None:
        self.clock = ManualClock()
        self.told: list = []
        self.book = GoalBook(make_admission(), self.told.append)
        self.server = ChildServer([Factories(make_loop)] * num_replicas, book=self.book, clock=self.clock)
        self.replicas = self.server._replicas
        for replica in self.replicas:
            replica.has_started = True
            replica._adopt(Link())

    def links(self) -> list[Link]:
        return [replica._link for replica in self.replicas]

    def homes(self) -> list[list[str]]:
        return [list(replica.quarantine) for replica in self.replicas]

    def receive(self, number: int) -> None:
        link = self.replicas[number]._link
        while link.said:
            self.replicas[number]._receive(link.said.popleft())

    def die(self, number: int) -> None:
        """The child ends, and another one begins to load."""
        self.receive(number)
        replica = self.replicas[number]
        replica._end_process()
        self.server.on_change(replica)
        replica._adopt(Link())

    def make_ready(self, number: int) -> None:
        self.links()[number].load()
        self.receive(number)


def test_goals_of_engines_that_load_go_on_in_the_first_that_is_ready():
    server = Server(2)
    for name in "abc":
        server.server.submit(make_request(name))
    assert server.homes() == [["a", "c"], ["b"]]
    server.make_ready(1)
    assert [set(home) for home in server.homes()] == [set(), {"a", "b", "c"}]
    assert [set(link.will_have) for link in server.links()] == [set(), {"a", "b", "c"}]


def test_goals_of_an_engine_that_died_go_on_in_one_that_is_in_a_long_step():
    server = Server(2)
    server.make_ready(0)
    server.make_ready(1)
    for name in "abcd":
        server.server.submit(make_request(name))
    for link in server.links():
        link.read()
    server.links()[1].silent_s = 2.3
    server.die(0)
    assert [set(home) for home in server.homes()] == [set(), {*"abcd"}]


def test_a_model_server_that_answers_with_plans_that_are_only_shown_has_answered():
    server = Server(2)
    server.make_ready(0)
    server.make_ready(1)
    server.server.submit(make_request("lost"))
    link, replica = server.links()[0], server.replicas[0]
    link.read()
    link.end("lost", ErrorCode.SERVER_UNREACHABLE)
    server.receive(0)
    assert replica.unanswered_at_s is not None
    server.clock.advance(60.0)
    server.server.submit(make_request("shown", plan_only=True))
    assert "shown" in server.homes()[0]
    link.read()
    link.end("shown", ErrorCode.NONE)
    server.receive(0)
    assert replica.unanswered_at_s is None


def test_times_of_goals_that_have_ended_are_not_kept_for_the_alarm():
    server = Server(1)
    server.server.submit(make_request("live", time_budget_s=3600.0))
    for number in range(300):
        server.server.submit(make_request(f"r{number}", time_budget_s=86400.0))
        server.server.cancel(f"r{number}")
    times_s = sorted(server.server._alarm._times_s)
    assert len(times_s) < 80
    assert times_s[:2] == [3600.0 - RESERVE_S, 3600.0 + BUDGET_GRACE_S]


def test_goals_of_engines_that_died_together_go_on_in_the_first_that_is_ready_again():
    server = Server(2)
    server.make_ready(0)
    server.make_ready(1)
    for name in "ab":
        server.server.submit(make_request(name))
    for link in server.links():
        link.read()
        for name in link.num_segments:
            link.write(name)
    for number in (0, 1):
        server.receive(number)
    server.die(0)
    server.die(1)
    server.make_ready(1)
    assert [set(link.will_have) for link in server.links()] == [set(), {"a", "b"}]
    assert set(server.links()[1].will_have.values()) == {1}


def test_a_goal_that_only_waits_for_its_robot_is_not_blamed_for_what_ends_engines():
    server = Server(1)
    server.make_ready(0)
    server.server.submit(make_request("a"))
    (link,) = server.links()
    link.read()
    link.write("a")
    link.said.append(PlanComplete("a", 1))
    server.receive(0)

    def live_and_die() -> None:
        server.make_ready(0)
        server.links()[0].said.append(HEARTBEAT)
        server.die(0)

    for _ in range(6):
        live_and_die()
    assert server.homes() == [["a"]]
    server.make_ready(0)
    server.server.report(replace(failed("a", 0), situation=Situation()))  # now there is something to do
    for _ in range(3):
        live_and_die()
    assert server.homes() == [[]]
    assert server.told[-1].result.error_code is ErrorCode.ENGINE_FAILED


def test_the_book_learns_that_a_budget_is_kept_with_a_token_cap():
    server = Server(1)
    server.make_ready(0)
    server.server.submit(make_request("a", time_budget_s=1.0))
    for is_capped in (False, True):
        server.links()[0].said.append(Admitted("a", is_capped))
        server.receive(0)
        goal = server.book.get("a")
        assert (goal.is_admitted, goal.is_capped) == (True, is_capped)


NUMBERS = st.integers(0, 2)


class ReplicaMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.served = Server(3)
        self.names: list[str] = []
        self.was_unanswered = False

    @rule(urgency=st.sampled_from((Urgency.NORMAL, Urgency.URGENT)))
    def submit(self, urgency):
        if len(self.served.book.request_ids) < MOST_GOALS:
            self.names.append(f"r{len(self.names)}")
            self.served.server.submit(make_request(self.names[-1], urgency=urgency))

    @rule(number=NUMBERS)
    def child_loads(self, number):
        self.served.links()[number].load()

    @rule(number=NUMBERS)
    def child_reads(self, number):
        self.served.links()[number].read()

    @rule(number=NUMBERS, goal=st.integers(0, MOST_GOALS), what=st.sampled_from(("write", "end", "unanswered")))
    def child_works(self, number, goal, what):
        link = self.served.links()[number]
        if not link.num_segments:
            return
        name = list(link.num_segments)[goal % len(link.num_segments)]
        if what == "write":
            link.write(name)
        else:
            self.was_unanswered |= what == "unanswered"
            link.end(name, ErrorCode.NONE if what == "end" else ErrorCode.SERVER_UNREACHABLE)

    @rule(number=NUMBERS)
    def child_beats(self, number):
        if (link := self.served.links()[number]).is_loaded:
            link.said.append(HEARTBEAT)

    @rule(number=NUMBERS)
    def parent_receives(self, number):
        self.served.receive(number)

    @rule(number=NUMBERS)
    def child_dies(self, number):
        self.served.die(number)

    @rule(goal=st.integers(0, MOST_GOALS))
    def cancel(self, goal):
        if names := self.served.book.request_ids:
            self.served.server.cancel(names[goal % len(names)])

    @rule()
    def wait(self):
        self.served.clock.advance(TRIAL_S)

    @invariant()
    def every_goal_has_one_home(self):
        homes = [name for home in self.served.homes() for name in home]
        assert sorted(homes) == sorted(self.served.book.request_ids)

    @invariant()
    def no_other_engine_has_it(self):
        for home, link in zip(self.served.homes(), self.served.links(), strict=True):
            foreign = set(self.served.book.request_ids).difference(home)
            assert foreign.isdisjoint(link.will_have)

    @invariant()
    def none_waits_for_an_engine_that_loads_while_another_is_ready(self):
        if not self.was_unanswered and any(replica.is_ready for replica in self.served.replicas):
            for replica in self.served.replicas:
                assert replica.is_ready or not replica.quarantine.movable(with_suspects=False)

    def teardown(self):
        """All goes well from now on: every goal ends, once, and each of its segments came once."""
        for _ in range(2 * MOST_GOALS):
            for number, link in enumerate(self.served.links()):
                link.load()
                link.read()
                for name in list(link.num_segments):
                    link.end(name, ErrorCode.NONE)
                link.said.append(HEARTBEAT)
                self.served.receive(number)
            self.served.clock.advance(TRIAL_S)
        assert not self.served.book.request_ids
        ends = Counter(event.request_id for event in self.served.told if isinstance(event, Finished))
        assert ends == Counter(self.names)
        for name in self.names:
            segments = [e.segment for e in self.served.told if isinstance(e, SegmentReady) and e.request_id == name]
            assert [segment.index for segment in segments] == list(range(len(segments)))


TestReplicaMachine = ReplicaMachine.TestCase
TestReplicaMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
