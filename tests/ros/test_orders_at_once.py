# SPDX-License-Identifier: Apache-2.0
"""Orders that a robot obeys itself, whatever it does and whether there is a planner or not."""

import json
from types import SimpleNamespace

import pytest

import llm_planner.msg as msgs
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import Urgency
from llm_planner.core.skill import SkillCall
from llm_planner.robots.driver import SkillResult, SkillStatus
from llm_planner.srv import Instruct
from tests.ros.nodes import make_segment
from tests.ros.played_robot import ARM, Robot, messages

pytestmark = pytest.mark.ros


@pytest.fixture
def robot():
    return Robot()


@pytest.mark.parametrize("first", [Urgency.NORMAL, Urgency.URGENT, Urgency.CHAT])
@pytest.mark.parametrize("order", [{}, {"urgency": 1}, {"urgency": 7}, {"plan_only": True}, {"world": "none"}])
def test_an_order_to_stop_stops_a_robot_whatever_it_does(robot, first, order):
    goal_id = robot.instruct(first)
    robot.spin()
    robot.feed(goal_id, messages(goal_id, "mf(200);"))
    robot.run(1.0)
    followed = []
    follower = SimpleNamespace(note_outcome=lambda outcome, *, is_last: followed.append((outcome.tag, is_last)))
    robot.missions.instruct(Instruct.Request(instruction="Stop!", tag="mine", **order), follower=follower)
    at = robot.control.pose
    robot.spin()
    assert followed == []  # it is answered first, and then carried out
    robot.run(0.3)
    robot.spin()
    assert followed == [("mine", True)]
    robot.end(goal_id, ErrorCode.CANCELLED, [make_segment(0, "mf(200);")])
    robot.feed(goal_id, messages(goal_id, "mf(200);", "mb(100);"))
    robot.spin()
    robot.run(5.0)
    assert robot.control.pose.x_m == pytest.approx(at.x_m, abs=0.05)
    told, stopped = robot.outcomes
    assert (told.tag, told.error_code, told.plan, told.instruction) == ("mine", ErrorCode.NONE, "h();", "Stop!")
    assert (stopped.goal_id, stopped.error_code) == (goal_id, ErrorCode.STOPPED)
    assert stopped.error_msg == "stopped by the instruction 'Stop!'"
    assert robot.instruct() != goal_id, "it is free again"


def test_an_order_to_stop_needs_no_planner(robot):
    for _ in range(2):
        robot.missions.instruct(Instruct.Request(instruction="freeze"))
        robot.run(0.3)
        robot.spin()
    assert [(outcome.goal_id, outcome.error_code) for outcome in robot.outcomes] == [("", ErrorCode.NONE)] * 2
    assert robot.action.sent == {}


@pytest.mark.parametrize("order", [{"instruction": "stop at the door"}, {"instruction": "stop", "plan": "mf(20);"}])
def test_what_is_no_order_to_stop_meets_a_busy_robot(robot, order):
    robot.instruct()
    with pytest.raises(PlannerError) as caught:
        robot.missions.instruct(Instruct.Request(**order))
    assert caught.value.code is ErrorCode.ROBOT_BUSY


CRIES = [
    *("would somebody make it stop", "you're about to hit my daughter stop it", "STPO!!", "keep away from my dog"),
    *("halt or you will hit the lamp", "ouch, ouch", "switch off those motors now", "anhalten!", "no no no not there"),
    "my scarf is caught in it",
]


@pytest.mark.parametrize("cry", CRIES)
@pytest.mark.parametrize("order", [{}, {"plan_only": True}, {"urgency": Urgency.CHAT.value}])
def test_a_cry_stops_a_robot_that_would_refuse_any_other_instruction(robot, cry, order):
    goal_id = robot.instruct()
    robot.spin()
    robot.feed(goal_id, messages(goal_id, "mf(200);"))
    robot.run(1.0)
    robot.missions.instruct(Instruct.Request(instruction=cry, tag="mine", **order))
    robot.end(goal_id, ErrorCode.CANCELLED, [make_segment(0, "mf(200);")])
    robot.run(0.5)
    robot.spin()
    told, stopped = robot.outcomes
    assert (told.tag, told.error_code, told.plan) == ("mine", ErrorCode.NONE, "h();")
    assert (stopped.goal_id, stopped.error_code) == (goal_id, ErrorCode.STOPPED)
    assert len(robot.action.sent) == 1, "no planner is asked"


def test_a_free_robot_has_a_cry_planned(robot):
    robot.missions.instruct(Instruct.Request(instruction="would somebody make it stop"))
    robot.spin()
    assert [goal.instruction for goal in robot.action.sent.values()] == ["would somebody make it stop"]


def test_an_emergency_takes_the_place_of_what_is_done_and_is_no_cry(robot):
    robot.instruct()
    robot.missions.instruct(Instruct.Request(instruction="look out, a ball", urgency=Urgency.URGENT.value))
    robot.spin()
    assert robot.outcomes == []


BOX = {"name": "red_box", "position_m": [0.5, 0.0, 0.025]}


@pytest.fixture
def arm():
    """Returns an arm that holds a box and moves, and the skills that it calls from then on."""
    robot = Robot(ARM)
    goal_id = robot.instruct(world=json.dumps({"objects": [BOX]}))
    robot.spin()
    robot.feed(goal_id, messages(goal_id, "pick(red_box);", "mb(20);"))
    while not any(call.name == "mb" for _, call in robot.started):
        robot.run(0.1)
    assert robot.control.surroundings()[1] == "red_box"
    called, start = [], robot.control._driver.start
    robot.control._driver.start = lambda call, now_s: (called.append(call.name), start(call, now_s))
    return robot, called


@pytest.mark.parametrize("text", ["Stop, let go of me!", "stop! let go!", "stop and drop it", "let go!", "Release me"])
@pytest.mark.parametrize("order", [{}, {"urgency": 1}, {"allowed_skills": ["open"]}])
def test_an_order_to_let_go_halts_an_arm_that_is_busy_and_opens_its_gripper(arm, text, order):
    robot, called = arm
    robot.missions.instruct(Instruct.Request(instruction=text, tag="mine", **order))
    assert called[0] == "open"  # at once: a hand may be in it
    robot.run(1.9)  # not so long that it minds that the planner is silent
    assert called == ["open", "stop"]
    assert robot.control.surroundings()[1] == ""
    assert len(robot.action.sent) == 1, "no planner is asked"
    robot.end(robot.begun[0], ErrorCode.CANCELLED)
    robot.spin()
    told, stopped = robot.outcomes
    assert (told.tag, told.error_code, told.plan, told.candidates) == ("mine", ErrorCode.NONE, "open();", [])
    assert (stopped.error_code, stopped.error_msg) == (ErrorCode.STOPPED, f"stopped by the instruction {text!r}")


@pytest.mark.parametrize(
    ("cry", "calls"),
    [
        ("ow my thumb let go let go", ["open", "stop"]),
        ("hand in the claw hand in the claw", ["open", "stop"]),
        ("open up, her finger is in there", ["open", "stop"]),
        ("get off me", ["stop"]),
        ("you are crushing the lady's flowers, make it stop", ["stop"]),
    ],
)
def test_a_cry_opens_a_gripper_that_may_hold_somebody(arm, cry, calls):
    robot, called = arm
    robot.missions.instruct(Instruct.Request(instruction=cry))
    robot.run(1.9)  # not so long that it minds that the planner is silent
    assert called == calls


@pytest.mark.parametrize(
    ("order", "plan"),
    [
        ({"plan_only": True}, ""),
        ({"urgency": Urgency.CHAT.value}, "stop();"),
        ({"allowed_skills": ["pick"]}, "stop();"),
        ("unsupported", "stop();"),
    ],
)
def test_an_arm_that_must_not_open_its_gripper_stops(arm, order, plan):
    robot, called = arm
    if order == "unsupported":
        robot.control._connection.unsupported_skills, order = frozenset({"open"}), {}
    robot.missions.instruct(Instruct.Request(instruction="Stop, let go of me!", **order))
    robot.run(1.9)  # not so long that it minds that the planner is silent
    assert called == ["stop"]
    robot.spin()
    (told,) = robot.outcomes
    assert (told.error_code, told.plan, list(told.candidates)) == (ErrorCode.NONE, plan, [] if plan else ["open();"])


def test_a_task_waits_for_a_gripper_that_opens(arm):
    robot, called = arm
    robot.missions.instruct(Instruct.Request(instruction="let go"))
    robot.end(robot.begun[0], ErrorCode.CANCELLED)
    robot.spin()
    goal_id = robot.instruct()
    robot.spin()
    robot.feed(goal_id, messages(goal_id, "mf(20);"))
    robot.run(2.0)
    assert called[:3] == ["open", "stop", "mf"]
    assert robot.control.surroundings()[1] == ""


def test_a_stop_halts_a_gripper_that_opens(arm):
    robot, called = arm
    robot.missions.instruct(Instruct.Request(instruction="let go"))
    while called[-1] != "open":
        robot.run(0.1)
    robot.missions.instruct(Instruct.Request(instruction="stop"))
    robot.run(1.9)  # not so long that it minds that the planner is silent
    assert called == ["open", "stop"]
    assert robot.control.surroundings()[1] == "red_box"
    robot.spin()
    told = [(outcome.plan, outcome.error_code) for outcome in robot.outcomes]
    assert told == [("open();", ErrorCode.STOPPED), ("stop();", ErrorCode.NONE)]


class Refusing:
    """Has a driver fail calls of some skills, until the test allows them again."""

    def __init__(self, robot, *names):
        self.names, self.called, self._driver, self._is_refused = set(names), [], robot.control._driver, False
        self._start, self._tick = self._driver.start, self._driver.tick
        self._driver.start, self._driver.tick = self.start, self.tick

    def start(self, call, now_s):
        self.called.append(call.name)
        self._is_refused = call.name in self.names
        if not self._is_refused:
            self._start(call, now_s)

    def tick(self, now_s):
        failed = SkillResult(SkillStatus.FAILED, reason="no answer")
        return failed if self._is_refused else self._tick(now_s)


AGAIN = "stop: no answer; it is tried again until it succeeds"


@pytest.mark.parametrize(
    ("text", "fails", "reason"),
    [("stop", "stop", AGAIN), ("let go", "stop", AGAIN), ("let go", "open", "open: no answer")],
)
def test_an_order_that_fails_is_told_to_whoever_gave_it(arm, text, fails, reason):
    robot, _ = arm
    refusing = Refusing(robot, fails)
    robot.missions.instruct(Instruct.Request(instruction=text, tag="mine"))
    robot.end(robot.begun[0], ErrorCode.CANCELLED)
    robot.run(1.9)  # not so long that it minds that the planner is silent
    robot.spin()
    told, stopped = robot.outcomes
    assert (told.tag, told.error_code, told.error_msg) == ("mine", ErrorCode.SKILL_FAILED, reason)
    assert stopped.error_code == ErrorCode.STOPPED
    assert stopped.error_msg == f"stopped by the instruction '{text}'; {reason}"
    assert (robot.control.num_faults > 0) == (fails == "stop")
    if text != "stop":
        assert refusing.called[:2] == ["open", "stop"]


def test_a_stop_that_is_not_confirmed_is_repeated_and_who_stops_it_again_is_told(arm):
    robot, _ = arm
    refusing = Refusing(robot, "stop")
    assert robot.missions.stop("enough") == (True, "go", AGAIN)
    robot.run(5.0)
    assert refusing.called == ["stop"] * 3
    assert robot.control.last_fault == AGAIN
    refusing.names.clear()
    assert robot.missions.stop("enough").failure == AGAIN  # it may have moved until now
    robot.run(1.0)
    assert robot.missions.stop("enough").failure == ""


def test_a_stop_that_is_not_confirmed_is_called_for_again_in_another_world(arm):
    robot, _ = arm
    Refusing(robot, "stop")
    robot.missions.stop("enough")
    robot.control._connection._on_start = (called := []).append
    order = Instruct.Request(instruction="go", world=json.dumps({"objects": [BOX]}), plan_only=True)
    robot.end(robot.begun[0], ErrorCode.CANCELLED)
    robot.spin()
    robot.missions.instruct(order)
    robot.run(0.5)
    assert called == [SkillCall("stop")]
    assert not robot.control.is_unconfirmed


def test_an_arm_whose_stop_is_not_confirmed_is_stopped_before_it_lets_go(arm):
    robot, _ = arm
    refusing = Refusing(robot, "stop")
    robot.missions.stop("enough")
    robot.missions.instruct(Instruct.Request(instruction="let go"))
    robot.run(0.5)
    assert refusing.called[:2] == ["stop", "stop"]


def test_a_driver_that_breaks_down_during_a_stop_leaves_nobody_waiting(arm):
    robot, _ = arm
    robot.missions.instruct(Instruct.Request(instruction="stop", tag="mine"))
    robot.end(robot.begun[0], ErrorCode.CANCELLED)
    robot.control.fail("the link is lost")
    robot.spin()
    told = next(outcome for outcome in robot.outcomes if outcome.tag == "mine")
    assert (told.error_code, told.error_msg) == (ErrorCode.SKILL_FAILED, "the link is lost")


def test_a_reflex_that_fails_says_so_when_it_is_over(robot):
    Refusing(robot, "h")
    robot.control.refuse(robot.instruct(Urgency.URGENT), "no answer to the emergency")
    robot.run(0.3)
    robot.spin()
    begun, over = (message for message in robot.messages if isinstance(message, msgs.Reflex))
    assert over.reason == f"{begun.reason}; {AGAIN.replace('stop', 'h')}"


def test_an_arm_whose_planner_is_lost_lets_go(arm):
    robot, called = arm
    robot.end(robot.begun[0], ErrorCode.SERVER_UNREACHABLE)
    robot.spin()
    robot.missions.instruct(Instruct.Request(instruction="let go"))
    robot.run(1.9)  # not so long that it minds that the planner is silent
    assert called == ["open", "stop"]


def test_a_free_arm_asks_the_planner_how_to_let_go():
    robot = Robot(ARM)
    robot.missions.instruct(Instruct.Request(instruction="let go"))
    robot.spin()
    assert [goal.instruction for goal in robot.action.sent.values()] == ["let go"]


@pytest.mark.parametrize("order", [{"urgency": Urgency.CHAT.value}, {"allowed_skills": ["pick"]}])
def test_an_order_to_let_go_that_must_not_act_meets_a_busy_arm(arm, order):
    robot, called = arm
    with pytest.raises(PlannerError) as caught:
        robot.missions.instruct(Instruct.Request(instruction="let go", **order))
    assert caught.value.code is ErrorCode.ROBOT_BUSY
    assert called == []
