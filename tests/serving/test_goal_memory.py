# SPDX-License-Identifier: Apache-2.0
"""What the book remembers of goals and their clients, as a state machine against a plain model."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanRequest, PlanResult
from llm_planner.serving.events import Finished, SegmentReady
from llm_planner.serving.goal_book import GoalBook
from tests.serving.builders import make_segment

CLIENT_TIMEOUT_S, MEMORY_S = 5.0, 60.0


class Book(RuleBasedStateMachine):
    """Unfinished goals are all there, finished ones for the retention time, and silence is noticed."""

    goals = Bundle("goals")

    def __init__(self):
        super().__init__()
        self.posted = []
        self.book = GoalBook(post=self.posted.append, client_timeout_s=CLIENT_TIMEOUT_S, memory_s=MEMORY_S)
        self.now_s, self.num_opened = 0.0, 0
        self.num_segments, self.received_at_s, self.finished_at_s = {}, {}, {}

    @rule(target=goals)
    def open(self):
        self.num_opened += 1
        goal_id = str(self.num_opened)
        self.book.open(PlanRequest(request_id=goal_id, robot_id="r", robot_model="tello", instruction="go"), self.now_s)
        self.num_segments[goal_id] = 0
        return goal_id

    @rule(goal_id=goals, index=st.integers(0, 3))
    def add_segment(self, goal_id, index):
        self.book.accept(SegmentReady(goal_id, make_segment(index)), self.now_s)
        if goal_id not in self.finished_at_s and index == self.num_segments[goal_id]:
            self.num_segments[goal_id] += 1

    @rule(goal_id=goals, is_heartbeat=st.booleans())
    def receive(self, goal_id, is_heartbeat):
        self.book.note_life(goal_id, self.now_s, heartbeat=is_heartbeat)
        if is_heartbeat or goal_id in self.received_at_s:
            self.received_at_s[goal_id] = self.now_s

    @rule(goal_id=goals, by_loop=st.booleans())
    def finish(self, goal_id, by_loop):
        if by_loop:
            ended = self.book.accept(Finished(PlanResult(request_id=goal_id)), self.now_s)
        else:
            ended = self.book.end(goal_id, ErrorCode.CANCELLED, "", self.now_s)
        assert (ended is not None) == (goal_id not in self.finished_at_s)
        self.finished_at_s.setdefault(goal_id, self.now_s)

    @rule(seconds=st.floats(0, 40))
    def wait(self, seconds):
        self.now_s += seconds
        self.book.forget(self.now_s)

    @invariant()
    def unfinished_goals_are_there(self):
        unfinished = [goal.request.request_id for goal in self.book.unfinished()]
        assert unfinished == [goal_id for goal_id in self.num_segments if goal_id not in self.finished_at_s]

    @invariant()
    def every_change_is_announced_once_and_in_order(self):
        for goal_id, num_segments in self.num_segments.items():
            mine = [event for event in self.posted if event.request_id == goal_id]
            is_finished = goal_id in self.finished_at_s
            assert [type(event) for event in mine] == [SegmentReady] * num_segments + [Finished] * is_finished
            goal = self.book.get(goal_id)
            if is_finished and goal is not None:
                assert (goal.result, goal.is_complete) == (mine[-1].result, True)

    @invariant()
    def segments_have_no_gaps(self):
        for goal_id, num_segments in self.num_segments.items():
            if (goal := self.book.get(goal_id)) is not None:
                assert [segment.index for segment in goal.segments] == list(range(num_segments))

    @invariant()
    def finished_goals_are_remembered(self):
        for goal_id, finished_at_s in self.finished_at_s.items():
            is_young = self.now_s - finished_at_s <= MEMORY_S
            assert (self.book.get(goal_id) is not None) == is_young

    @invariant()
    def silent_clients_are_noticed(self):
        silent = {g for g, at_s in self.received_at_s.items() if self.now_s - at_s > CLIENT_TIMEOUT_S}
        abandoned = {goal.request.request_id for goal in self.book.abandoned(self.now_s)}
        assert abandoned == silent - set(self.finished_at_s)


TestBook = Book.TestCase
TestBook.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)


def test_an_unknown_goal_has_its_number():
    with pytest.raises(PlannerError) as caught:
        GoalBook(client_timeout_s=1.0, memory_s=1.0).find("x")
    assert caught.value.code is ErrorCode.UNKNOWN_GOAL


def test_robots_are_known_while_one_of_their_goals_is_remembered():
    book = GoalBook(client_timeout_s=CLIENT_TIMEOUT_S, memory_s=MEMORY_S)
    for goal_id, robot_id, model in (("1", "drone", "tello"), ("2", "arm", "indy7"), ("3", "drone", "tello")):
        book.open(PlanRequest(request_id=goal_id, robot_id=robot_id, robot_model=model, instruction="go"), 0.0)
    for goal_id, now_s in (("1", 0.0), ("2", 1.0)):
        book.accept(Finished(PlanResult(request_id=goal_id)), now_s)
    assert book.robots() == {"drone": "tello", "arm": "indy7"}
    book.forget(1.0 + MEMORY_S + 0.1)
    assert book.robots() == {"drone": "tello"}
