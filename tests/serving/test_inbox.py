# SPDX-License-Identifier: Apache-2.0
"""The inbox of an engine process: the urgent is not kept waiting by the many."""

from multiprocessing import Pipe

import pytest

from llm_planner.core.request import Urgency
from llm_planner.serving.goal_record import RESERVE_S, GoalRecord
from llm_planner.serving.inbox import Inbox, ParentGoneError
from llm_planner.serving.messages import Cancel, Look, Report
from tests.serving.builders import make_request, succeeded


def goal(name: str, **request) -> GoalRecord:
    return GoalRecord(request=make_request(name, **request), arrival_s=0.0)


@pytest.fixture
def pipe():
    ours, theirs = Pipe()
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.fixture
def inbox_of(pipe):
    def make(*messages) -> Inbox:
        for message in messages:
            pipe[0].send(message)
        return Inbox(pipe[1])

    return make


def taken(inbox: Inbox) -> list:
    """What does not stand behind others, then the deferrable goals, each by its name if it is one."""
    messages = []
    while inbox.has_message(0.0):
        messages.append(inbox.take())
    while inbox.has_deferrable:
        messages.append(inbox.take_deferrable())
    return [m.request.request_id if isinstance(m, GoalRecord) else m for m in messages]


def test_emergencies_and_goals_with_a_time_budget_come_before_all_others(inbox_of):
    urgent, hurried = goal("urgent", urgency=Urgency.URGENT), goal("hurried", time_budget_s=0.2)
    inbox = inbox_of(goal("first"), goal("chat", urgency=Urgency.CHAT), urgent, goal("last"), hurried)
    assert taken(inbox) == ["urgent", "hurried", "first", "chat", "last"]


def test_other_messages_come_in_their_order_and_before_goals(inbox_of):
    cancel, report = Cancel("another"), Report(succeeded("another", 0), 0.0)
    assert taken(inbox_of(goal("one"), cancel, report, goal("two"), None)) == [cancel, report, None, "one", "two"]


def test_a_look_sees_the_goals_that_came_before_it(inbox_of):
    look = Look()
    assert taken(inbox_of(goal("one"), look, goal("urgent", urgency=Urgency.URGENT))) == ["urgent", "one", look]


def test_a_report_brings_its_goal(inbox_of):
    report = Report(succeeded("two", 0), 0.0)
    inbox = inbox_of(goal("one"), goal("two"), report)
    assert taken(inbox) == ["two", report, "one"]


def test_a_cancelled_goal_is_dropped(inbox_of):
    cancel = Cancel("one")
    assert taken(inbox_of(goal("one"), goal("two"), cancel)) == [cancel, "two"]
    assert taken(inbox_of(goal("one", urgency=Urgency.URGENT), goal("two"), cancel)) == [cancel, "two"]


def test_only_an_emergency_that_can_be_decided_about_has_a_decision_due(inbox_of):
    moment_s = 1.0 - RESERVE_S
    hurried = goal("normal", time_budget_s=1.0)
    urgent = goal("urgent", urgency=Urgency.URGENT, time_budget_s=1.0)
    assert not inbox_of(hurried, goal("soft", urgency=Urgency.URGENT)).has_decision_due(0.0, 10.0)
    inbox = inbox_of(urgent)
    assert inbox.has_decision_due(moment_s - 0.01, moment_s + 0.01)
    assert not inbox.has_decision_due(0.0, moment_s - 0.01)
    assert not inbox.has_decision_due(moment_s + 0.01, 10.0)  # its parent has refused it
    assert not inbox_of(urgent, Cancel("urgent")).has_decision_due(0.0, 10.0)


def test_nothing_is_waited_for_while_a_goal_is_there(inbox_of):
    inbox = inbox_of(goal("one"))
    assert not inbox.has_message(1000.0)
    assert taken(inbox) == ["one"]
    assert not inbox.has_message(0.001)


def test_a_parent_that_is_gone_is_noticed(pipe, inbox_of):
    inbox = inbox_of(Look())
    pipe[0].close()
    with pytest.raises(ParentGoneError):
        inbox.has_message(0.0)
