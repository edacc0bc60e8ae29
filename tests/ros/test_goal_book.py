"""The node's memory of goals, as a state machine against a plain model."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanRequest, PlanResult
from llm_planner.ros.goal_book import GoalBook
from tests.ros.test_segment_inbox import make_segment

CLIENT_TIMEOUT_S, MEMORY_S = 5.0, 60.0


class Book(RuleBasedStateMachine):
    """Unfinished goals are all there, finished ones for as long as promised, and silence is noticed."""

    goals = Bundle("goals")

    def __init__(self):
        super().__init__()
        self.book = GoalBook(client_timeout_s=CLIENT_TIMEOUT_S, memory_s=MEMORY_S)
        self.now_s, self.num_opened = 0.0, 0
        self.num_segments, self.heard_at_s, self.finished_at_s = {}, {}, {}

    @rule(target=goals)
    def open(self):
        self.num_opened += 1
        goal_id = str(self.num_opened)
        self.book.open(PlanRequest(request_id=goal_id, robot_id="r", robot_model="tello", instruction="go"))
        self.num_segments[goal_id] = 0
        return goal_id

    @rule(goal_id=goals, index=st.integers(0, 3))
    def add_segment(self, goal_id, index):
        self.book.add_segment(goal_id, make_segment(index))
        if goal_id not in self.finished_at_s and index == self.num_segments[goal_id]:
            self.num_segments[goal_id] += 1

    @rule(goal_id=goals, is_heartbeat=st.booleans())
    def hear(self, goal_id, is_heartbeat):
        self.book.hear(goal_id, self.now_s, heartbeat=is_heartbeat)
        if is_heartbeat or goal_id in self.heard_at_s:
            self.heard_at_s[goal_id] = self.now_s

    @rule(goal_id=goals, num_more=st.integers(0, 2))
    def finish(self, goal_id, num_more):
        total = self.num_segments[goal_id] + num_more
        result = PlanResult(request_id=goal_id, segments=tuple(make_segment(i) for i in range(total)))
        assert self.book.finish(result, self.now_s) == (goal_id not in self.finished_at_s)
        if goal_id not in self.finished_at_s:
            self.finished_at_s[goal_id], self.num_segments[goal_id] = self.now_s, total

    @rule(seconds=st.floats(0, 40))
    def wait(self, seconds):
        self.now_s += seconds
        self.book.forget(self.now_s)

    @invariant()
    def unfinished_goals_are_there(self):
        unfinished = [goal.request.request_id for goal in self.book.unfinished()]
        assert unfinished == [goal_id for goal_id in self.num_segments if goal_id not in self.finished_at_s]

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
        silent = {g for g, at_s in self.heard_at_s.items() if self.now_s - at_s > CLIENT_TIMEOUT_S}
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
        book.open(PlanRequest(request_id=goal_id, robot_id=robot_id, robot_model=model, instruction="go"))
    for goal_id, now_s in (("1", 0.0), ("2", 1.0)):
        book.finish(PlanResult(request_id=goal_id, segments=()), now_s)
    assert book.robots() == {"drone": "tello", "arm": "indy7"}
    book.forget(1.0 + MEMORY_S + 0.1)
    assert book.robots() == {"drone": "tello"}
