# SPDX-License-Identifier: Apache-2.0
"""Several goals of one robot, whatever arrives when: only segments of the current goal are carried out.

Everything is real from the client library to the kinematic robot (client, handle, inbox, missions, robot control,
executor); only rclpy's node and action client are played, so that a message can be delivered at any moment, late, twice
and in any order.
"""

import json
import math
import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
from builtin_interfaces.msg import Time
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import llm_planner.msg as msgs
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import Urgency
from llm_planner.core.segment import BlockEdge, ReportStatus, Segment, make_replan
from llm_planner.core.skill import SkillCall
from llm_planner.ros import conversions
from llm_planner.ros.mission import Mission
from llm_planner.ros.snapshot import Snapshot
from llm_planner.srv import GetSegments, Instruct
from tests.ros.nodes import make_segment
from tests.ros.played_robot import Robot, messages

pytestmark = pytest.mark.ros
ENDS = [
    ErrorCode.NONE,
    ErrorCode.PLAN_PARTIAL,
    ErrorCode.CANCELLED,
    ErrorCode.SKILL_FAILED,
    ErrorCode.BUDGET_EXCEEDED,
    ErrorCode.OVERLOADED,
    ErrorCode.ENGINE_FAILED,
]


KINDS = ["say", "say", "twice", "fail", "ask"]  # of segments


@pytest.fixture
def robot():
    return Robot()


def test_the_result_of_a_replaced_goal_brings_nothing_into_the_new_one(robot):
    old = robot.instruct()
    robot.spin()
    texts = ["mf(100);", "mf(110);", "mf(120);", "mf(130);"]
    robot.feed(old, messages(old, *texts)[:1], 1)
    robot.run(1.0)
    new = robot.instruct(Urgency.URGENT)
    robot.spin()
    robot.feed(new, messages(new, "mb(20);"))
    robot.end(old, ErrorCode.SUPERSEDED, [make_segment(i, text) for i, text in enumerate(texts)])
    robot.feed(new, messages(new, "mb(20);", "mb(30);"))
    robot.run(10.0)
    robot.spin()
    assert robot.started == [
        (old, SkillCall("mf", (100.0,))),
        (new, SkillCall("mb", (20.0,))),
        (new, SkillCall("mb", (30.0,))),
    ]
    (outcome,) = robot.outcomes
    assert [(s.segment.text, s.status, s.reason) for s in outcome.segments] == [
        ("mf(100);", msgs.SegmentOutcome.FAILED, "superseded")
    ]


def test_a_late_segment_of_a_replaced_goal_does_not_stand_for_the_answer_to_an_emergency(robot):
    old = robot.instruct()
    robot.spin()
    robot.instruct(Urgency.URGENT, time_budget_s=0.5)
    robot.spin()
    robot.feed(old, messages(old, "mf(100);"))
    robot.run(1.0)
    robot.spin()
    reflexes = [message for message in robot.messages if isinstance(message, msgs.Reflex)]
    assert [reflex.cause for reflex in reflexes if not reflex.finished_at.sec] == [msgs.Reflex.TOO_LATE]


def test_a_robot_that_waits_for_another_way_when_its_planner_is_lost_says_how_it_ended(robot):
    goal_id = robot.instruct()
    robot.spin()
    texts = ["g(unicorn);", "mf(100);", "", "mb(20);", "g(unicorn);", "mf(110);"]
    robot.feed(goal_id, messages(goal_id, *texts))
    robot.run(10.0)
    robot.spin()
    for _ in range(2):
        robot.node.timers[0]()  # notices that the planner is silent
        robot.spin()
    (outcome,) = robot.outcomes
    assert outcome.error_code == ErrorCode.SERVER_UNREACHABLE
    done, failed, not_run = msgs.SegmentOutcome.SUCCEEDED, msgs.SegmentOutcome.FAILED, msgs.SegmentOutcome.NOT_RUN
    assert [s.status for s in outcome.segments] == [failed, not_run, not_run, done, failed, not_run]
    assert robot.started == [(goal_id, SkillCall("mb", (20.0,)))]


@pytest.mark.parametrize("is_running", [True, False])
def test_a_fault_between_two_segments_ends_the_goal_too(robot, is_running):
    goal_id = robot.instruct()
    robot.spin()
    robot.feed(goal_id, messages(goal_id, "mf(100);"))
    robot.run(0.5 if is_running else 10.0)
    robot.spin()
    robot.missions.fail("the node has a fault")
    robot.spin()
    assert robot.action.cancelled == ([] if is_running else [goal_id])  # the planner knows of what has failed
    assert not robot.control.is_active
    robot.end(goal_id, ErrorCode.SKILL_FAILED if is_running else ErrorCode.CANCELLED)
    robot.run(1.0)
    robot.spin()
    (outcome,) = robot.outcomes
    assert outcome.error_msg == ("the end" if is_running else "the node has a fault")


@pytest.mark.parametrize("field", ["x_m", "yaw_deg"])
def test_a_robot_that_does_not_know_where_it_is_says_why_a_segment_has_failed(robot, field):
    chair = {"name": "chair", "position_m": [3.0, 0.0, 1.0]}
    goal_id = robot.instruct(world=json.dumps({"objects": [chair]}))
    robot.spin()
    robot.feed(goal_id, messages(goal_id, "g(unicorn);"))
    assert robot.control.view == "chair"
    robot.control._driver._body.state.pose = replace(robot.control.pose, **{field: math.inf})
    assert robot.control.view == ""
    situation = robot.control._look_around()
    assert (situation.scene, situation.pose) == ("", None)


def parts(goal_id, *texts):
    """Returns the segments of a condition that comes in parts, as they travel."""
    edges = {"{": BlockEdge.OPENS, "}": BlockEdge.CLOSES}
    made = (
        replace(make_segment(i, text), block_edge=edges.get(text[-1], BlockEdge.NONE)) for i, text in enumerate(texts)
    )
    return [conversions.from_segment(segment, goal_id) for segment in made]


@pytest.mark.parametrize("sees_it", [True, False])
def test_a_condition_that_comes_in_parts_is_carried_out_whatever_is_lost(robot, sees_it):
    chair = {"name": "chair", "position_m": [3.0, 0.0, 1.0]}
    goal_id = robot.instruct(world=json.dumps({"objects": [chair] if sees_it else []}))
    robot.spin()
    assert robot.action.sent[goal_id].takes_open_blocks
    segments = parts(goal_id, "?iv(chair){", "mf(20);", "mf(30);", "}", "mb(20);")
    robot.feed(goal_id, segments[:1])
    robot.run(1.0)
    robot.feed(goal_id, segments[4:], 5)
    robot.run(1.0)
    assert robot.started == []  # it asks for what is between
    ((_, answer),) = robot.node.client.asked
    answer.set_result(GetSegments.Response(segments=segments[1:4], num_segments=5))
    robot.run(10.0)
    robot.spin()
    calls = [SkillCall("mf", (20.0,)), SkillCall("mf", (30.0,))] if sees_it else []
    assert [call for _, call in robot.started] == [*calls, SkillCall("mb", (20.0,))]
    robot.end(goal_id, ErrorCode.NONE, [conversions.to_segment(segment, goal_id) for segment in segments])
    robot.spin()
    (outcome,) = robot.outcomes
    done, skipped = msgs.SegmentOutcome.SUCCEEDED, msgs.SegmentOutcome.SKIPPED
    within = done if sees_it else skipped
    assert [s.status for s in outcome.segments] == [done, within, within, within, done]
    reports = [m for topic, sent in robot.node.published.items() if topic.endswith("report") for m in sent]
    assert [r.enters_block for r in reports if r.index == 0] == [False, sees_it]


PERSON = {"name": "person", "position_m": [3.0, 0.0, 1.0], "velocity_m_per_s": [-1.0, 0.0, 0.0], "moves_for_s": 2.4}
BALL = {"name": "ball", "position_m": [6.0, 0.0, 1.0], "velocity_m_per_s": [-0.5, 0.0, 0.0], "moves_for_s": 20.0}
PLAN_ERRORS = [ErrorCode.NOT_UNDERSTOOD, ErrorCode.SKILL_NOT_ALLOWED, ErrorCode.PLAN_SYNTAX]


def reflexes_begun(robot):
    found = [message for message in robot.messages if isinstance(message, msgs.Reflex)]
    return [(reflex.cause, reflex.action[:2]) for reflex in found if not reflex.finished_at.sec]


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("is_in_reflex", [False, True])
def test_a_node_that_ends_says_how_its_goal_ended_without_waiting_for_the_planner(robot, is_lost, is_in_reflex):
    followed = []
    follower = SimpleNamespace(
        follow=lambda _: None, note_outcome=lambda outcome, *, is_last: followed.append((outcome.goal_id, is_last))
    )
    robot.missions.instruct(Instruct.Request(instruction="go"), follower=follower)
    (goal_id,) = robot.begun
    robot.spin()
    robot.feed(goal_id, messages(goal_id, "mf(200);"))
    robot.run(1.0)
    if is_lost:
        robot.end(goal_id, ErrorCode.SERVER_UNREACHABLE)
    robot.spin()
    if is_in_reflex:
        robot.control.refuse(goal_id, "nobody answers")
        assert robot.control.is_in_reflex
    robot.missions.shut_down("the robot's node is shutting down")
    robot.spin()
    (outcome,) = robot.outcomes
    assert outcome.error_code == (ErrorCode.SERVER_UNREACHABLE if is_lost else ErrorCode.CANCELLED)
    assert [s.status for s in outcome.segments] == [msgs.SegmentOutcome.FAILED]
    assert followed == [(goal_id, True)]
    assert robot.action.cancelled == ([] if is_lost else [goal_id])


def test_a_node_that_ends_halts_what_its_robot_does_on_its_own_account(robot):
    robot.instruct()
    robot.control.stop("a person says so", (SkillCall("mf", (300.0,)),))
    robot.run(2.0)
    at = robot.control.pose
    robot.missions.shut_down("the node ends")
    robot.run(2.0)
    assert robot.control.pose == at
    assert at.x_m > 0.1


@pytest.mark.parametrize("code", PLAN_ERRORS)
@pytest.mark.parametrize("texts", [[], ["mf(200);"], ["mf(200);", "tc(90);"]])
def test_an_emergency_that_is_not_understood_is_left_to_the_reflex_whatever_was_delivered_of_it(robot, code, texts):
    goal_id = robot.instruct(Urgency.URGENT, world=json.dumps({"objects": [BALL]}))
    robot.spin()
    robot.feed(goal_id, messages(goal_id, *texts))
    robot.run(0.5)  # in the midst of the first motion, towards the ball
    robot.end(goal_id, code, [make_segment(index, text) for index, text in enumerate(texts)])
    robot.spin()
    robot.run(10.0)
    robot.spin()
    (cause, action), *_ = reflexes_begun(robot)
    assert cause == msgs.Reflex.REFUSED
    assert action in ("mb", "ml", "mr", "mu", "md")
    (outcome,) = robot.outcomes
    assert outcome.error_code == code
    assert not any(s.status == msgs.SegmentOutcome.SUCCEEDED for s in outcome.segments)
    assert robot.started[len(texts[:1]) :] in ([], [(goal_id, SkillCall("mb", (50.0,)))])  # no segment after that


@pytest.mark.parametrize("objects", [[], [BALL | {"velocity_m_per_s": [0.0, 0.0, 0.0]}]])
def test_an_emergency_that_is_not_understood_stops_a_robot_that_sees_nothing_move(robot, objects):
    goal_id = robot.instruct(Urgency.URGENT, world=json.dumps({"objects": objects}))
    robot.spin()
    robot.feed(goal_id, messages(goal_id, "mf(200);"))
    robot.run(0.5)
    robot.end(goal_id, ErrorCode.NOT_UNDERSTOOD, [make_segment(0, "mf(200);")])
    robot.spin()
    at = robot.control.pose
    robot.run(5.0)
    assert reflexes_begun(robot) == [(msgs.Reflex.REFUSED, "h(")]
    assert robot.control.pose.x_m == pytest.approx(at.x_m, abs=0.05)


@pytest.mark.parametrize("fields", [{}, {"world": json.dumps({"objects": []})}])
@pytest.mark.parametrize("text", ["zur\ufffdck!", "back\a!", "back\0!"])
def test_an_emergency_that_cannot_be_sent_is_refused_and_interrupts_nothing(robot, fields, text):
    goal_id = robot.instruct()
    robot.spin()
    robot.feed(goal_id, messages(goal_id, "mf(300);"))
    robot.run(0.5)
    with pytest.raises(PlannerError) as caught:
        robot.missions.instruct(Instruct.Request(instruction=text, urgency=Urgency.URGENT.value, **fields))
    assert caught.value.code is ErrorCode.INVALID_ENCODING
    robot.run(20.0)
    robot.end(goal_id, ErrorCode.NONE, [make_segment(0, "mf(300);")])
    robot.spin()
    (outcome,) = robot.outcomes
    assert [s.status for s in outcome.segments] == [msgs.SegmentOutcome.SUCCEEDED]


@pytest.mark.parametrize("is_told_before", [True, False])
def test_a_reflex_before_an_emergency_does_not_stand_for_its_answer(robot, is_told_before):
    robot.control.enter(Snapshot.from_order(json.dumps({"objects": [PERSON]})))
    while not robot.control.is_in_reflex:
        robot.run(0.1)
    robot.spin(times=4 if is_told_before else 0)
    goal_id = robot.instruct(Urgency.URGENT)  # before that reflex is over
    robot.spin()
    robot.say_status({goal_id: 0})
    robot.run(7.0)
    robot.spin()
    robot.end(goal_id, ErrorCode.OVERLOADED)
    robot.spin()
    robot.run(5.0)
    robot.spin()
    assert [cause for cause, _ in reflexes_begun(robot)] == [msgs.Reflex.OBSTACLE, msgs.Reflex.REFUSED]
    (outcome,) = robot.outcomes
    assert [(reflex.goal_id, reflex.cause) for reflex in outcome.reflexes] == [(goal_id, msgs.Reflex.REFUSED)]


def test_an_emergency_without_an_answer_in_time_is_not_refused_again_before_its_reflex_is_told(robot):
    goal_id = robot.instruct(Urgency.URGENT, time_budget_s=0.2)
    robot.spin()
    robot.say_status({goal_id: 0})
    robot.run(0.5)  # the reflex acts; what it tells waits for the executor
    robot.end(goal_id, ErrorCode.BUDGET_EXCEEDED)
    robot.spin()
    robot.run(5.0)
    robot.spin()
    assert [cause for cause, _ in reflexes_begun(robot)] == [msgs.Reflex.TOO_LATE]
    (outcome,) = robot.outcomes
    assert [reflex.cause for reflex in outcome.reflexes] == [msgs.Reflex.TOO_LATE]


@pytest.mark.parametrize("now", [Time(), Time(nanosec=500_000_000)])
def test_a_reflex_is_over_in_the_first_second_of_simulated_time(robot, now):
    robot.control._on_reflex = lambda event: robot.bridge.post(robot.missions.on_reflex, event, now)
    goal_id = robot.instruct(Urgency.URGENT)
    robot.spin()
    robot.say_status({goal_id: 0})
    robot.end(goal_id, ErrorCode.OVERLOADED)
    robot.spin()
    robot.run(5.0)
    robot.spin()
    assert [outcome.error_code for outcome in robot.outcomes] == [ErrorCode.OVERLOADED]


@pytest.mark.parametrize(("has_failed", "begun"), [(False, [msgs.Reflex.REFUSED]), (True, [])])
def test_an_emergency_whose_plan_cannot_be_gone_on_with_is_left_to_the_reflex_once_its_beginning_is_carried_out(
    robot, has_failed, begun
):
    goal_id = robot.instruct(Urgency.URGENT, world=json.dumps({"objects": []}))
    robot.spin()
    text = "g(unicorn);" if has_failed else "mr(20);"
    robot.feed(goal_id, messages(goal_id, text))
    robot.run(10.0)
    robot.spin()
    assert reflexes_begun(robot) == []
    robot.end(goal_id, ErrorCode.NOT_ACHIEVED, [make_segment(0, text)])
    robot.spin()
    robot.run(5.0)
    robot.spin()
    assert [cause for cause, _ in reflexes_begun(robot)] == begun
    (outcome,) = robot.outcomes
    assert outcome.error_code == ErrorCode.NOT_ACHIEVED
    status = msgs.SegmentOutcome.FAILED if has_failed else msgs.SegmentOutcome.SUCCEEDED
    assert [s.status for s in outcome.segments] == [status]


def test_the_outcome_of_a_plan_that_asks_for_a_new_one_says_that_another_follows(robot):
    robot.instruct()
    for texts in (["mb(20);", "rp();"], ["mf(20);"]):
        goal_id = robot.begun[-1]
        robot.spin()
        robot.feed(goal_id, messages(goal_id, *texts))
        robot.run(10.0)
        robot.spin()
        robot.end(goal_id, ErrorCode.NONE, [make_segment(index, text) for index, text in enumerate(texts)])
        robot.spin()
    assert [outcome.goal_id for outcome in robot.outcomes] == robot.begun
    assert [[s.segment.is_last for s in outcome.segments] for outcome in robot.outcomes] == [[False, False], [True]]


def test_a_plan_that_is_only_shown_moves_nothing_if_it_is_closed_in_time(robot):
    goal_id = robot.instruct(plan_only=True)
    robot.spin()
    robot.feed(goal_id, [])
    started, driver = [], robot.control._driver
    driver.start = lambda call, _: started.append(call)
    robot.end(goal_id, ErrorCode.PLAN_PARTIAL)
    robot.run(1.0)
    assert started == []


def test_a_plan_that_is_only_to_be_shown_takes_no_place(robot):
    goal_id = robot.instruct()
    robot.spin()
    with pytest.raises(PlannerError) as caught:
        robot.instruct(Urgency.URGENT, plan_only=True)
    assert caught.value.code is ErrorCode.ROBOT_BUSY
    assert list(robot.action.sent) == [goal_id]


@pytest.mark.parametrize("end", [None, ErrorCode.NOT_UNDERSTOOD, ErrorCode.BUDGET_INFEASIBLE])
def test_a_plan_that_is_only_to_be_shown_needs_no_reflex_if_it_does_not_come(robot, end):
    goal_id = robot.instruct(Urgency.URGENT, plan_only=True, time_budget_s=0.3)
    robot.spin()
    robot.run(0.2)
    if end is not None:
        robot.feed(goal_id, [])
        robot.end(goal_id, end)
    robot.run(5.0)
    robot.spin()
    assert (reflexes_begun(robot), robot.started) == ([], [])


def test_what_is_carried_out_without_its_planner_is_not_cut_off_by_a_normal_instruction(robot):
    old = robot.instruct()
    robot.spin()
    robot.feed(old, messages(old, "mf(200);", "mb(100);"))
    robot.run(1.0)
    robot.end(old, ErrorCode.SERVER_UNREACHABLE)
    robot.spin()
    for order in ({}, {"urgency": Urgency.URGENT, "plan_only": True}):
        with pytest.raises(PlannerError) as caught:
            robot.instruct(**order)
        assert caught.value.code is ErrorCode.ROBOT_BUSY
    robot.run(20.0)
    robot.spin()
    (outcome,) = robot.outcomes
    assert [s.status for s in outcome.segments] == [msgs.SegmentOutcome.SUCCEEDED] * 2
    assert robot.instruct() != old


def test_an_emergency_takes_the_place_of_what_is_carried_out_without_its_planner(robot):
    old = robot.instruct()
    robot.spin()
    robot.feed(old, messages(old, "mf(200);"))
    robot.end(old, ErrorCode.SERVER_UNREACHABLE)
    robot.spin()
    assert robot.instruct(Urgency.URGENT) != old


@pytest.mark.parametrize("urgency", [Urgency.NORMAL, Urgency.URGENT])
def test_a_plan_of_which_all_was_delivered_needs_no_reflex(robot, urgency):
    goal_id = robot.instruct(urgency)
    robot.spin()
    robot.feed(goal_id, messages(goal_id, "mb(20);"))
    robot.end(goal_id, ErrorCode.NONE, [make_segment(0, "mb(20);")])
    robot.run(10.0)
    robot.spin()
    assert reflexes_begun(robot) == []


@pytest.mark.parametrize("code", [ErrorCode.OVERLOADED, ErrorCode.BUDGET_INFEASIBLE, ErrorCode.EMPTY_INSTRUCTION])
def test_a_goal_whose_replacement_is_refused_ends_too(robot, code):
    old = robot.instruct()
    robot.spin()
    robot.feed(old, messages(old, "mf(100);"))
    new = robot.instruct(Urgency.URGENT)
    robot.spin()
    robot.feed(new, [])
    robot.end(new, code)
    robot.spin()
    assert robot.action.cancelled == [old]
    robot.feed(old, messages(old, "mf(100);", "mf(110);"))
    robot.end(old, ErrorCode.CANCELLED)
    robot.run(5.0)
    robot.spin()
    assert [goal_id for goal_id, _ in robot.started] == []
    assert {outcome.goal_id: outcome.error_code for outcome in robot.outcomes} == {old: ErrorCode.CANCELLED, new: code}


@pytest.mark.parametrize("code", [ErrorCode.CANCELLED, ErrorCode.BUDGET_EXCEEDED, ErrorCode.GEOFENCE_VIOLATED])
def test_a_result_with_an_error_starts_none_of_the_segments_that_it_brings(robot, code):
    goal_id = robot.instruct()
    robot.spin()
    robot.feed(goal_id, [])
    robot.end(goal_id, code, [make_segment(0, "mf(100);")])
    robot.run(5.0)
    assert robot.started == []


def test_an_answer_to_a_resync_that_comes_after_a_stop_changes_nothing(robot):
    goal_id = robot.instruct()
    robot.spin()
    robot.feed(goal_id, [], 2)
    ((request, answer),) = robot.node.client.asked
    assert request.goal_id == goal_id
    robot.missions.stop("stopped by the operator")
    segments = messages(goal_id, "mf(100);", "mf(110);")
    answer.set_result(GetSegments.Response(segments=segments, num_segments=2))
    robot.run(5.0)
    assert robot.started == []


@pytest.mark.parametrize("is_once", [True, False])
def test_a_segment_that_cannot_be_read_is_asked_for_and_ends_the_goal_if_it_comes_again(robot, is_once):
    goal_id = robot.instruct()
    robot.spin()
    first, second = messages(goal_id, "mf(100);", "mf(110);")
    robot.feed(goal_id, [first])
    robot.run(1.0)
    second.generation_time_s = -1.0
    robot.feed(goal_id, [second], 2)
    ((request, answer),) = robot.node.client.asked
    assert request.first_index == 1
    second.generation_time_s = 1.0 if is_once else -1.0
    answer.set_result(GetSegments.Response(segments=[second], num_segments=2))
    robot.run(30.0)
    assert len(robot.started) == (2 if is_once else 1)
    assert robot.action.cancelled == ([] if is_once else [goal_id])
    robot.spin()
    assert [outcome.error_code for outcome in robot.outcomes] == ([] if is_once else [ErrorCode.ENGINE_FAILED])


@pytest.fixture
def stopped(robot):
    """Returns what stops a robot in the midst of a goal, whose id it returns; the planner has not ended that goal."""

    def stop(urgency):
        goal_id = robot.instruct(urgency)
        robot.spin()
        robot.feed(goal_id, messages(goal_id, "mf(200);"))
        robot.run(1.0)
        robot.missions.stop("stopped by the operator")
        robot.spin()
        return goal_id

    return stop


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (Urgency.NORMAL, Urgency.NORMAL),
        (Urgency.CHAT, Urgency.NORMAL),
        (Urgency.URGENT, Urgency.NORMAL),
        (Urgency.URGENT, Urgency.URGENT),
    ],
)
@pytest.mark.parametrize("end", [ErrorCode.CANCELLED, ErrorCode.SERVER_UNREACHABLE])
def test_what_is_asked_after_a_stop_goes_to_the_planner_as_soon_as_that_has_ended_the_goal(
    robot, stopped, first, then, end
):
    old = stopped(first)
    new = robot.instruct(then)
    robot.spin()
    assert list(robot.action.sent) == [old]  # the planner would refuse a second one
    with pytest.raises(PlannerError) as caught:
        robot.instruct()
    assert caught.value.code is ErrorCode.ROBOT_BUSY
    robot.end(old, end)
    robot.spin()
    assert list(robot.action.sent) == [old, new]
    robot.feed(new, messages(new, "mb(20);"))
    robot.end(new, ErrorCode.NONE, [make_segment(0, "mb(20);")])
    robot.run(5.0)
    robot.spin()
    assert robot.started[-1] == (new, SkillCall("mb", (20.0,)))
    assert [(outcome.goal_id, outcome.error_code) for outcome in robot.outcomes] == [
        (old, ErrorCode.STOPPED),
        (new, ErrorCode.NONE),
    ]


def test_a_sentence_that_begins_with_a_stop_ends_what_a_busy_robot_does_before_the_rest_is_planned(robot):
    old = robot.instruct()
    robot.spin()
    robot.feed(old, messages(old, "mf(100);", "mf(110);"))
    robot.run(1.0)
    with pytest.raises(PlannerError) as caught:
        robot.instruct(instruction="go back")
    assert caught.value.code is ErrorCode.ROBOT_BUSY
    new = robot.instruct(instruction="Stop! Go back!")
    robot.spin()
    robot.end(old, ErrorCode.CANCELLED)
    robot.spin()
    assert list(robot.action.sent) == [old, new]
    robot.feed(new, messages(new, "mb(20);"))
    robot.end(new, ErrorCode.NONE, [make_segment(0, "mb(20);")])
    robot.run(10.0)
    robot.spin()
    assert robot.started == [(old, SkillCall("mf", (100.0,))), (new, SkillCall("mb", (20.0,)))]
    assert [(outcome.error_code, outcome.instruction) for outcome in robot.outcomes] == [
        (ErrorCode.STOPPED, "go"),
        (ErrorCode.NONE, "Stop! Go back!"),
    ]


@pytest.mark.parametrize("waits_s", [0.0, 1.2, 2.5])
def test_a_time_budget_counts_from_the_asking_also_behind_a_stop(robot, waits_s):
    old = robot.instruct()
    robot.spin()
    robot.feed(old, messages(old, "mf(100);"))
    new = robot.instruct(instruction="Stop! Go back!", time_budget_s=2.0)
    robot.spin()
    robot.run(waits_s)
    robot.missions.publish_outcomes()  # as at each tick of the node
    if waits_s < 2.0:
        robot.end(old, ErrorCode.CANCELLED)
    robot.spin()
    assert [goal.time_budget_s for goal_id, goal in robot.action.sent.items() if goal_id == new] == (
        [pytest.approx(2.0 - waits_s)] if waits_s < 2.0 else []
    )
    ended = {outcome.goal_id: outcome.error_code for outcome in robot.outcomes}
    assert ended.get(new) == (None if waits_s < 2.0 else ErrorCode.BUDGET_EXCEEDED)


def test_an_emergency_after_a_stop_waits_for_no_goal_that_it_replaces(robot, stopped):
    old = stopped(Urgency.NORMAL)
    new = robot.instruct(Urgency.URGENT)
    robot.spin()
    assert list(robot.action.sent) == [old, new]


def test_an_emergency_that_waits_for_a_planner_too_long_is_left_to_the_reflex(robot, stopped):
    old = stopped(Urgency.URGENT)
    new = robot.instruct(Urgency.URGENT, time_budget_s=0.5)
    robot.run(5.0)
    robot.spin()
    assert [cause for cause, _ in reflexes_begun(robot)] == [msgs.Reflex.TOO_LATE]
    assert [(outcome.goal_id, outcome.error_code) for outcome in robot.outcomes] == [(new, ErrorCode.CANCELLED)]
    assert new not in [report.goal_id for report in robot.node.published["/planner/report"]]
    robot.end(old, ErrorCode.CANCELLED)
    robot.spin()
    assert list(robot.action.sent) == [old]


@pytest.mark.parametrize(
    ("does", "code"),
    [
        (lambda robot: robot.missions.stop("stopped again"), ErrorCode.STOPPED),
        (lambda robot: robot.missions.shut_down("the node ends"), ErrorCode.CANCELLED),
        (lambda robot: robot.instruct(Urgency.URGENT), ErrorCode.SUPERSEDED),
    ],
)
def test_what_waits_for_the_planner_to_end_a_goal_can_itself_be_ended(robot, stopped, does, code):
    old = stopped(Urgency.NORMAL)
    new = robot.instruct()
    does(robot)
    robot.run(0.3)
    robot.spin()
    assert [outcome.error_code for outcome in robot.outcomes if outcome.goal_id == new] == [code]
    if old not in [outcome.goal_id for outcome in robot.outcomes]:
        robot.end(old, ErrorCode.CANCELLED)
    robot.spin()
    assert new not in robot.action.sent


def test_a_plan_that_asks_for_a_new_one_does_not_get_it_after_a_stop(robot):
    goal_id = robot.instruct()
    robot.spin()
    robot.feed(goal_id, messages(goal_id, "rp();"))
    robot.run(2.0)
    assert robot.control.wants_replan(goal_id)
    robot.missions.stop("stopped by the operator")
    robot.end(goal_id, ErrorCode.NONE, [make_segment(0, "rp();")])
    robot.run(0.3)
    robot.spin()
    assert robot.begun == [goal_id]
    assert [outcome.error_code for outcome in robot.outcomes] == [ErrorCode.NONE]


def test_a_segment_that_is_recorded_is_never_replaced():
    mission = Mission(order=Instruct.Request(), goal_id="a" * 32, asked_at=Time(sec=1))
    mission.receive(make_segment(0, "mf(20);"), Time(sec=2))
    mission.receive(make_segment(0, "mf(500);"), Time(sec=3))
    (outcome,) = mission._outcomes.values()
    assert (outcome.segment.text, outcome.received_at.sec) == ("mf(20);", 2)


def test_a_plan_that_asks_for_a_new_one_gets_it(robot):
    goal_id = robot.instruct()
    robot.spin()
    robot.feed(goal_id, messages(goal_id, "rp();"))
    robot.run(2.0)
    robot.end(goal_id, ErrorCode.NONE, [make_segment(0, "rp();")])
    robot.spin()
    assert len(robot.begun) == 2


def test_a_late_sentence_of_a_chat_is_not_read_in_the_next_one(robot):
    old = robot.instruct(Urgency.CHAT)
    robot.spin()
    robot.feed(old, messages(old, "One. "), 2)
    new = robot.instruct(Urgency.URGENT)
    robot.spin()
    robot.feed(old, messages(old, "One. ", "Two. "))
    robot.run(2.0)
    robot.spin()
    reports = robot.node.published["/planner/report"]
    assert [report for report in reports if report.goal_id == new] == []


class Goal:
    """What the planner that is played knows of a goal; every call says to which segment it belongs."""

    def __init__(self, number):
        self.number, self.segments, self.failed, self.code = number, [], set(), None

    def plan(self, kinds):
        for kind in kinds:
            index = len(self.segments)
            texts = {
                "say": f"l('{self.number}.{index}.0');",
                "twice": f"l('{self.number}.{index}.0');l('{self.number}.{index}.1');",
                "fail": "g(unicorn);",
                "ask": "rp();",
            }
            self.segments.append(make_replan(index) if kind == "replan" else segment(index, texts[kind]))

    @property
    def calls(self):
        """What may be begun, in order: all but what lies between a segment that failed and the replan after it."""
        kept = []
        for segment in self.segments:
            if segment.is_replan:
                last = max((index for index in self.failed if index < segment.index), default=segment.index)
                kept = [s for s in kept if s.index <= last]
            else:
                kept.append(segment)
        return [word for s in kept for word in s.text.split("'") if word.startswith(f"{self.number}.")]


def segment(index, text):
    made = make_segment(index, text)
    return Segment(index=index, text=text, calls=(), expected=made.expected)


class MissionsMachine(RuleBasedStateMachine):
    """What a network, a planner and an operator can do, in any order; the planner keeps to its own rules.

    One rule with a seed instead of one per event: hypothesis leaves rules out, and then most runs have no plan at all.
    """

    def __init__(self):
        super().__init__()
        self.robot = Robot()
        self.goals, self.network, self.accepted = {}, [], 0
        self.num_reports = 0

    @rule(seed=st.integers(0, 2**32 - 1))
    def step(self, seed):
        rng = random.Random(seed)
        happens = [self.instruct] * 2 + [self.live] * 3
        if self.unfinished():
            happens += [self.play] * 3
            if self.robot.begun[-1] in self.unfinished():
                happens += [self.go_on] * 4
        happens += [self.deliver] * 3 if self.network else []
        happens += [self.stop] if rng.random() < 0.3 else []
        rng.choice(happens)(rng)

    # The robot

    def instruct(self, rng):
        urgency = rng.choice([Urgency.NORMAL, Urgency.NORMAL, Urgency.URGENT, Urgency.URGENT, Urgency.CHAT])
        try:
            self.robot.instruct(urgency, time_budget_s=rng.choice([0.0, 3.0]))
        except PlannerError as error:
            if error.code is not ErrorCode.ROBOT_BUSY:
                raise
            return
        self.accepted += 1
        self.spin(1)

    def live(self, rng):
        """Lets time pass; the planner shows life, with the goals or without, or does not; then callbacks are made."""
        self.pass_time(rng.choice([0.1, 0.5, 3.0]), listed=rng.choice([None, True, True, True, False]))
        self.spin(rng.randrange(4))

    def pass_time(self, seconds, *, listed):
        if listed is not None:
            goals = self.unfinished() if listed else ()
            self.robot.say_status({goal_id: len(self.goals[goal_id].segments) for goal_id in goals})
        for callback in self.robot.node.timers:
            callback()
        self.robot.run(seconds)

    def spin(self, times):
        num_goals = len(self.robot.begun)
        self.robot.spin(times)
        self.accepted += len(self.robot.begun) - num_goals  # plans that asked for new ones
        for goal_id in self.robot.action.sent:
            self.goals.setdefault(goal_id, Goal(len(self.goals)))

    def stop(self, rng):
        getattr(self.robot.missions, rng.choice(["stop", "fail"]))("enough")
        self.robot.void |= set(self.robot.begun)

    # The planner

    def unfinished(self):
        return [goal_id for goal_id, goal in self.goals.items() if goal.code is None]

    def go_on(self, rng):
        """The ordinary course: the plan grows, the robot carries it out, the planner is told."""
        goal_id = self.robot.begun[-1]
        self.plan(goal_id, [rng.choice(KINDS)])
        self.receive("feedback", goal_id, self.goals[goal_id].segments, None)
        self.pass_time(rng.choice([0.1, 1.0, 5.0]), listed=True)
        self.spin(3)
        self.replan()

    def play(self, rng):
        """Does something for any goal; what is sent waits in the network."""
        goal_id = rng.choice(self.unfinished())
        does = rng.choice(["plan", "plan", "plan and lose it", "replan", "end", "end late", "answer", "mislead"])
        if does.startswith("plan"):
            segments = self.plan(goal_id, rng.choices(KINDS, k=rng.randint(1, 3)))
            self.network += [("feedback", goal_id, segments, None)] if does == "plan" else []
        elif does == "replan":
            self.replan()
        elif does.startswith("end"):
            self.end(goal_id, ErrorCode.SUPERSEDED if self.robot.begun[-1] != goal_id else rng.choice(ENDS))
            if does == "end":
                self.receive(*self.network.pop())
        elif does == "answer":
            self.answer()
        elif segments := self.goals[other := rng.choice(list(self.goals))].segments:
            self.network.append(("misled", goal_id, (other, segments), None))

    def plan(self, goal_id, kinds):
        goal = self.goals[goal_id]
        first = len(goal.segments)
        goal.plan(kinds)
        return goal.segments[first:]

    def replan(self):
        """A segment has failed: the planner goes on another way."""
        reports = self.robot.node.published["/planner/report"]
        for report in reports[self.num_reports :]:
            goal = self.goals[report.goal_id]
            if report.status == ReportStatus.FAILED.value and goal.code is None:
                goal.failed.add(report.index)
                if report.value.type == msgs.Value.TEXT:
                    segments = self.plan(report.goal_id, ["replan", "say"])
                    self.network.append(("feedback", report.goal_id, segments, None))
        self.num_reports = len(reports)

    def end(self, goal_id, code):
        goal = self.goals[goal_id]
        goal.code = code
        self.network.append(("result", goal_id, list(goal.segments), code))

    def answer(self):
        """Answers to a re-sync leave the planner; when they arrive is another matter."""
        for request, future in self.robot.node.client.asked:
            goal = self.goals[request.goal_id]
            segments = [conversions.from_segment(s, request.goal_id) for s in goal.segments[request.first_index :]]
            response = GetSegments.Response(
                segments=segments,
                num_segments=len(goal.segments),
                is_finished=goal.code is not None,
                goal_error_code=int(goal.code or 0),
            )
            self.network.append(("answer", request.goal_id, future, response))
        self.robot.node.client.asked.clear()

    # The network

    def deliver(self, rng):
        number = rng.randrange(len(self.network))
        message = self.network[number]
        if rng.random() < 0.5:  # else it comes again
            del self.network[number]
        self.receive(*message)

    def receive(self, kind, goal_id, content, more):
        robot = self.robot
        if kind == "feedback":
            num_segments = len(self.goals[goal_id].segments)
            robot.feed(goal_id, [conversions.from_segment(s, goal_id) for s in content], num_segments)
        elif kind == "misled":
            owner, segments = content
            robot.feed(goal_id, [conversions.from_segment(s, owner) for s in segments], 0)
        elif kind == "answer" and not content.done():
            content.set_result(more)
        elif kind == "result":
            robot.feed(goal_id, [], 0)  # so that the client knows that the planner has the goal
            if not robot.action.results[goal_id].done():
                if more not in (ErrorCode.NONE, ErrorCode.PLAN_PARTIAL) and goal_id not in self.lost():
                    robot.void.add(goal_id)
                robot.end(goal_id, more, content)

    def lost(self):
        """Goals that the client gave up because the planner was silent; what had come of them is carried out."""
        missions = self.robot.missions._pending
        return {m.goal_id for m in missions if m.handle.is_done and not m.is_given_up}

    # What always holds

    @invariant()
    def what_runs_belongs_to_the_current_goal(self):
        """Call by call: every call says to which goal it belongs."""
        for goal_id, call in self.robot.started:
            assert call.arguments[0].partition(".")[0] == str(self.goals[goal_id].number)

    @invariant()
    def each_goal_runs_in_order_without_gaps(self):
        for goal_id, goal in self.goals.items():
            run = [call.arguments[0] for other, call in self.robot.started if other == goal_id]
            assert run == goal.calls[: len(run)]

    @invariant()
    def an_outcome_names_its_own_segments(self):
        assert len({outcome.goal_id for outcome in self.robot.outcomes}) == len(self.robot.outcomes)
        for outcome in self.robot.outcomes:
            goal = self.goals.get(outcome.goal_id, Goal(-1))  # one that the planner was never asked for has no segments
            assert [s.segment.index for s in outcome.segments] == list(range(len(outcome.segments)))
            for found in outcome.segments:
                assert (found.segment.goal_id, found.segment.text) == (
                    outcome.goal_id,
                    goal.segments[found.segment.index].text,
                )

    def teardown(self):
        """Once the planner has ended every goal, every instruction has exactly one outcome."""
        for _ in range(20):
            self.spin(4)
            for goal_id in self.unfinished():
                self.end(goal_id, ErrorCode.CANCELLED)
            for kind, *message in self.network:
                if kind == "result":
                    self.receive(kind, *message)
            self.robot.run(2.0)
        assert sorted(outcome.goal_id for outcome in self.robot.outcomes) == sorted(self.robot.begun)
        assert len(self.robot.begun) == self.accepted
        super().teardown()


TestMissions = MissionsMachine.TestCase
TestMissions.settings = settings(deadline=None, max_examples=100, stateful_step_count=60)


@pytest.mark.parametrize("spelling", ["mff", "move_forward"])
def test_an_order_that_allows_skills_which_do_not_exist_interrupts_nothing(robot, spelling):
    goal_id = robot.instruct()
    order = {"instruction": "go", "allowed_skills": [spelling]}
    if spelling == "mff":
        with pytest.raises(PlannerError) as caught:
            robot.instruct(Urgency.URGENT, **order)
        assert caught.value.code is ErrorCode.INVALID_ARGUMENT
        assert robot.control.goal_id == goal_id
    else:
        new = robot.instruct(Urgency.URGENT, **order)
        robot.spin()
        assert robot.action.sent[new].allowed_skills == ["mf"]


@pytest.mark.parametrize("is_urgent", [True, False])
def test_who_is_refused_reads_only_what_helps(robot, is_urgent):
    robot.instruct(Urgency.URGENT if is_urgent else Urgency.NORMAL)
    with pytest.raises(PlannerError, match=r"is busy with 'go'; wait, .*or stop it") as caught:
        robot.instruct(Urgency.URGENT if is_urgent else Urgency.NORMAL)
    assert ("urgent" in caught.value.message) is not is_urgent
