# SPDX-License-Identifier: Apache-2.0
"""The action ``~/carry_out`` of a robot node: progress, results, refusals, cancels."""

import json

import pytest
import rclpy
from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from rclpy.parameter import Parameter

import llm_planner.msg as msgs
from llm_planner.action import CarryOut
from llm_planner.core.errors import ErrorCode
from llm_planner.ros import qos
from llm_planner.ros.robot_node import RobotNode
from llm_planner.srv import Instruct
from tests.ros.nodes import Spinner, starting, wait_until

pytestmark = pytest.mark.ros

NOT_RUN, SUCCEEDED, FAILED = msgs.SegmentOutcome.NOT_RUN, msgs.SegmentOutcome.SUCCEEDED, msgs.SegmentOutcome.FAILED


class Sent:
    """A goal as its client sees it."""

    def __init__(self, client, spinner, instruction, **fields):
        self.feedback = []
        goal = CarryOut.Goal(**({"instruction": instruction, "world": json.dumps({"objects": []})} | fields))
        self._spinner, self._client = spinner, client
        self.handle = self._call(
            client.send_goal_async, goal, lambda message: self.feedback.append(message.feedback), what="acceptance"
        )
        self._response = spinner.executor.create_task(self.handle.get_result_async)
        wait_until(self._response.done)

    def _call(self, function, *arguments, what):
        task = self._spinner.executor.create_task(function, *arguments)
        wait_until(lambda: task.done() and task.result().done(), what=what)
        return task.result().result()

    def cancel(self):
        return self._call(self.handle.cancel_goal_async, what="answer to the cancel")

    @property
    def is_done(self):
        return self._response.result().done()

    @property
    def end(self):
        wait_until(lambda: self.is_done, what="result")
        response = self._response.result().result()
        return response.status, response.result

    @property
    def states(self):
        return [(f.state, [s.status for s in f.segments]) for f in self.feedback]


class Site:
    """A robot and a client of its action."""

    def __init__(self, name, **parameters):
        parameters = {"time_scale": 50.0, "startup_check_s": 0.0} | parameters
        self.robot = RobotNode(name, parameter_overrides=[Parameter(n, value=v) for n, v in parameters.items()])
        self.node = rclpy.create_node(f"{name}_client")
        options = {"feedback_sub_qos_profile": qos.REPORTS, **qos.ACTION_SERVICES}
        self.client = ActionClient(self.node, CarryOut, f"/{name}/carry_out", **options)
        self.service = self.node.create_client(Instruct, f"/{name}/instruct")
        self.spinner = Spinner(self.robot, self.node)
        assert self.client.wait_for_server(10.0)

    def send(self, instruction, **fields):
        return Sent(self.client, self.spinner, instruction, **fields)

    def fly(self, instruction, **fields):
        sent = self.send(instruction, **fields)
        wait_until(lambda: self.robot._robot.pose.x_m > 0.1, what="flight")
        return sent

    def stop(self):
        self.spinner.stop()
        self.robot.close()
        self.client.destroy()
        self.node.destroy_node()


@pytest.fixture
def start(ros):
    with starting(Site) as start:
        yield start


def test_the_goal_asks_for_what_the_service_asks_for():
    assert CarryOut.Goal.get_fields_and_field_types() == Instruct.Request.get_fields_and_field_types()


def test_a_goal_tells_how_each_segment_goes_and_ends_with_the_outcome(planner, start):
    sent = start("drone_a1").send("mf(100);tc(90);", tag="mine")
    status, result = sent.end
    assert (status, result.error_code, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, ErrorCode.NONE, "")
    (outcome,) = result.outcomes
    assert (outcome.tag, outcome.plan) == ("mine", "mf(100);tc(90);")
    assert [(s.segment.text, s.status) for s in outcome.segments] == [("mf(100);", SUCCEEDED), ("tc(90);", SUCCEEDED)]
    waiting, executing = CarryOut.Feedback.WAITING, CarryOut.Feedback.EXECUTING
    wait_until(lambda: len(sent.feedback) >= 5, what="all feedback")
    assert sent.states == [
        (waiting, []),
        (executing, [NOT_RUN]),
        (waiting, [SUCCEEDED]),
        (executing, [SUCCEEDED, NOT_RUN]),
        (waiting, [SUCCEEDED, SUCCEEDED]),
    ]


@pytest.mark.parametrize(
    ("fields", "code"),
    [({"instruction": " "}, ErrorCode.EMPTY_INSTRUCTION), ({"urgency": 7}, ErrorCode.INVALID_URGENCY)],
)
def test_a_goal_that_the_robot_refuses_ends_with_its_reason(planner, start, fields, code):
    status, result = start("drone_a2").send(**({"instruction": "mf(20);"} | fields)).end
    assert (status, result.error_code, result.outcomes) == (GoalStatus.STATUS_ABORTED, code, [])
    assert result.error_msg


def test_a_goal_that_fails_unexpectedly_is_answered_and_the_next_one_is_carried_out(planner, start, monkeypatch):
    site = start("drone_a3")
    with monkeypatch.context() as broken:
        broken.setattr(site.robot._robot, "enter", lambda _: (_ for _ in ()).throw(RecursionError("too deep")))
        status, result = site.send("mf(20);").end
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, ErrorCode.SKILL_FAILED)
    assert "too deep" in result.error_msg
    assert site.send("mf(20);").end[1].error_code == ErrorCode.NONE


def test_a_second_goal_meets_a_busy_robot_unless_it_is_urgent(planner, start):
    site = start("drone_a4", time_scale=1.0)
    first = site.fly("hang mf(500);")
    assert site.send("mf(20);").end[1].error_code == ErrorCode.ROBOT_BUSY
    assert not first.is_done
    status, result = site.send("mb(20);", urgency=1, world="").end
    assert (status, result.error_code) == (GoalStatus.STATUS_SUCCEEDED, ErrorCode.NONE)
    status, result = first.end
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, ErrorCode.SUPERSEDED)


def test_an_order_to_stop_ends_the_goal_of_a_busy_robot_and_succeeds(planner, start):
    site = start("drone_a12", time_scale=1.0)
    first = site.fly("hang mf(500);")
    status, result = site.send("please stop").end
    assert (status, result.error_code) == (GoalStatus.STATUS_SUCCEEDED, ErrorCode.NONE)
    assert [outcome.plan for outcome in result.outcomes] == ["h();"]
    status, result = first.end
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, ErrorCode.STOPPED)


def test_a_skill_that_fails_aborts_the_goal_and_shows_which(planner, start):
    status, result = start("drone_a5").send("mf(100);g('unicorn');mb(20);").end
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, ErrorCode.SKILL_FAILED)
    assert "unicorn" in result.error_msg
    assert [s.status for s in result.outcomes[0].segments] == [SUCCEEDED, FAILED]


def test_a_cancel_halts_the_robot_and_the_goal_ends_canceled(planner, start):
    site = start("drone_a6", time_scale=1.0)
    sent = site.fly("flood mf(500);mb(500);")
    assert len(sent.cancel().goals_canceling) == 1
    assert not site.robot._robot.is_active
    status, result = sent.end
    assert (status, result.error_code) == (GoalStatus.STATUS_CANCELED, ErrorCode.STOPPED)
    assert result.error_msg == "the client cancelled its goal"
    assert [s.status for s in result.outcomes[0].segments] == [FAILED, NOT_RUN]
    assert site.robot._robot.pose.x_m < 4.0
    assert site.send("mf(20);").end[1].error_code == ErrorCode.NONE
    assert not sent.cancel().goals_canceling, "it has ended"


def test_a_cancel_of_a_goal_that_was_superseded_stops_nothing(planner, start, monkeypatch):
    site = start("drone_a7", time_scale=1.0)
    first = site.fly("hang mf(500);")
    monkeypatch.setattr(site.robot._missions, "publish_outcomes", lambda: None)  # its result is on the way
    second = site.send("hang mb(500);", urgency=1, world="")
    assert len(first.cancel().goals_canceling) == 1
    monkeypatch.undo()
    status, result = first.end
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, ErrorCode.SUPERSEDED)
    assert site.robot._robot.is_active
    assert not second.is_done


def test_a_cancel_ends_the_goal_of_a_driver_that_cannot_halt(planner, start, monkeypatch):
    site = start("drone_a8", time_scale=5.0)
    sent = site.fly("hang mf(500);")
    with monkeypatch.context() as broken:
        broken.setattr(
            site.robot._robot._driver, "halt", lambda _: (_ for _ in ()).throw(OSError("no way to the robot"))
        )
        sent.cancel()
        status, result = sent.end
    assert (status, result.error_code) == (GoalStatus.STATUS_CANCELED, ErrorCode.STOPPED)
    wait_until(lambda: site.robot._robot._driver.end_s is None, what="a halt that works")


def test_a_stop_of_the_robot_aborts_the_goal(planner, start):
    site = start("drone_a9", time_scale=1.0)
    sent = site.fly("hang mf(500);")
    site.spinner.executor.create_task(site.robot._missions.stop, "a child runs into the room")
    status, result = sent.end
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, ErrorCode.STOPPED)
    assert result.error_msg == "a child runs into the room"


def test_a_goal_goes_on_through_the_plan_that_a_plan_asks_for(planner, start):
    site = start("drone_a10")
    status, result = site.send("mf(20);rp();", world="").end
    assert len(result.outcomes) == 4, "the first plan, and three more at most"
    assert (status, result.error_code) == (GoalStatus.STATUS_SUCCEEDED, ErrorCode.NONE)


def test_a_node_that_ends_gives_its_goal_up(planner, start):
    site = start("drone_a11", time_scale=1.0)
    sent = site.fly("hang mf(500);")
    site.spinner.executor.create_task(site.robot.end_goals)
    status, result = sent.end
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, ErrorCode.CANCELLED)
