# SPDX-License-Identifier: Apache-2.0
"""Robot nodes carry plans out, report, and end every instruction with an outcome."""

import collections
import json
import math
import re
import threading
import time

import pytest
import rclpy
from rclpy.clock_type import ClockType
from rclpy.parameter import Parameter
from std_msgs.msg import Empty

import llm_planner.msg as msgs
from llm_planner.cli import send
from llm_planner.core.clock import ManualClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.segment import ReportStatus
from llm_planner.core.skill import SkillCall
from llm_planner.ros import qos, robot_node
from llm_planner.ros.robot_identity import STARTING_S, RobotIdentity
from llm_planner.ros.robot_node import RobotNode
from llm_planner.ros.snapshot import Snapshot
from llm_planner.srv import Instruct, Stop
from tests.ros.nodes import Spinner, make_segment, starting, wait_until

pytestmark = pytest.mark.ros

CHAIR = {"name": "chair", "kind": "chair", "position_m": [2.0, 0.0, 1.0], "size_m": [0.3, 0.3, 0.3]}


class Operator:
    """Gives a robot instructions and receives its outcomes."""

    def __init__(self, name, **parameters):
        parameters = {"time_scale": 50.0, "startup_check_s": 0.0} | parameters
        overrides = [Parameter(n, value=v) for n, v in parameters.items()]
        self.robot = RobotNode(name, parameter_overrides=overrides)
        self.node = rclpy.create_node(f"{name}_operator")
        self.outcomes = []
        self.reflexes = []
        self.node.create_subscription(msgs.Reflex, f"/{name}/reflex", self.reflexes.append, qos.REPORTS)
        self.node.create_subscription(msgs.PlanOutcome, f"/{name}/outcome", self.outcomes.append, qos.OUTCOMES)
        self.instruct_client = self.node.create_client(Instruct, f"/{name}/instruct")
        self.stop_publisher = self.node.create_publisher(Empty, f"/{name}/stop", 10)
        self.stop_client = self.node.create_client(Stop, f"/{name}/stop")
        self.spinner = Spinner(self.robot, self.node)
        assert self.instruct_client.wait_for_service(10.0)

    def call_stop(self, reason=""):
        future = self.spinner.executor.create_task(self.stop_client.call_async, Stop.Request(reason=reason))
        wait_until(lambda: future.done() and future.result().done())
        return future.result().result()

    def instruct(self, instruction, objects=(), **fields):
        world = json.dumps({"objects": list(objects)})
        request = Instruct.Request(**({"instruction": instruction, "world": world, "tag": "test"} | fields))
        future = self.spinner.executor.create_task(self.instruct_client.call_async, request)
        wait_until(lambda: future.done() and future.result().done())
        return future.result().result()

    def outcome(self, number=1):
        wait_until(lambda: len(self.outcomes) >= number, what="outcome")
        return self.outcomes[number - 1]

    def stop(self):
        self.spinner.stop()
        self.robot.close()
        self.node.destroy_node()


@pytest.fixture
def start_operator(ros):
    with starting(Operator) as start:
        yield start


def statuses(outcome):
    return [segment.status for segment in outcome.segments]


def test_a_drone_carries_a_plan_out_and_says_so(planner, start_operator):
    operator = start_operator("drone_1")
    assert operator.instruct("mf(100);tc(90);", [CHAIR]).accepted
    outcome = operator.outcome()
    assert (outcome.error_code, outcome.plan, outcome.tag) == (ErrorCode.NONE, "mf(100);tc(90);", "test")
    assert statuses(outcome) == [msgs.SegmentOutcome.SUCCEEDED] * 2
    assert [s.segment.is_last for s in outcome.segments] == [False, True]
    world = Snapshot.from_json(outcome.world)
    assert (world.pose.x_m, world.pose.yaw_deg) == (pytest.approx(1.0), pytest.approx(-90.0))
    assert [done.call for done in world.calls] == [SkillCall("mf", (100.0,)), SkillCall("tc", (90.0,))]
    request = planner.server.segments[outcome.goal_id]
    assert len(request) == 2
    durations = [r.duration_s for r in planner.server.reports if r.request_id == outcome.goal_id]
    assert max(durations) < 0.5  # real time: the robot lives 50 times as fast


def test_the_robot_describes_what_it_sees(planner, start_operator):
    operator = start_operator("drone_2")
    operator.instruct("hang mf(20);", [CHAIR, CHAIR | {"name": "desk", "position_m": [-2.0, 0.0, 1.0]}])
    requests = planner.server.requests
    wait_until(lambda: any(request.robot_id == operator.robot.get_name() for request in requests.values()))
    assert [r.scene for r in requests.values() if r.robot_id == operator.robot.get_name()] == ["chair"]


def test_a_question_is_answered_in_words(planner, start_operator):
    operator = start_operator("drone_33")
    operator.instruct("_1=od(chair);->_1;", [CHAIR])
    outcome = operator.outcome()
    assert outcome.error_code == ErrorCode.NONE
    (words,) = outcome.segments[-1].said
    assert re.fullmatch(r"the chair is \d\.\d m away", words)
    assert send._findings(outcome.segments[-1]) == [f"says: {words}", f"= {outcome.segments[-1].value.number_value:g}"]
    said = [r.said for r in planner.server.reports if r.request_id == outcome.goal_id]
    assert (words,) in said, "the planner has it for its result"


def test_a_failed_skill_ends_with_its_reason(planner, start_operator):
    operator = start_operator("drone_3")
    operator.instruct("mf(100);g('unicorn');mb(20);")
    outcome = operator.outcome()
    assert outcome.error_code == ErrorCode.SKILL_FAILED
    assert "unicorn" in outcome.error_msg
    assert statuses(outcome) == [msgs.SegmentOutcome.SUCCEEDED, msgs.SegmentOutcome.FAILED]


def test_a_busy_robot_refuses_unless_it_is_urgent(planner, start_operator):
    operator = start_operator("drone_4", time_scale=1.0)
    operator.instruct("hang mf(500);")
    response = operator.instruct("mf(20);")
    assert (response.accepted, response.error_code) == (False, ErrorCode.ROBOT_BUSY)
    assert operator.instruct("mb(20);", urgency=1).accepted
    outcomes = {operator.outcome(n).instruction: operator.outcome(n) for n in (1, 2)}
    assert outcomes["hang mf(500);"].error_code == ErrorCode.SUPERSEDED
    assert outcomes["mb(20);"].error_code == ErrorCode.NONE


def test_an_emergency_carries_out_nothing_of_the_plan_that_it_replaced(planner, start_operator):
    """The result of the old goal brings its undelivered segments after the new goal has begun."""
    operator = start_operator("drone_15", time_scale=5.0)
    operator.instruct("mf(200);mf(110);mf(120);mf(130);", [CHAIR | {"position_m": [9.0, 0.0, 1.0]}])
    wait_until(lambda: any(r.status is ReportStatus.STARTED for r in planner.server.reports[-1:]))
    operator.instruct("mb(20);mb(30);mb(40);", urgency=1, world="")
    replaced, urgent = sorted((operator.outcome(n) for n in (1, 2)), key=lambda outcome: outcome.urgency)
    assert (replaced.error_code, urgent.error_code) == (ErrorCode.SUPERSEDED, ErrorCode.NONE)
    assert [s.segment.text for s in replaced.segments] == ["mf(200);"]
    assert [s.segment.text for s in urgent.segments] == ["mb(20);", "mb(30);", "mb(40);"]
    calls = [done.call for done in Snapshot.from_json(urgent.world).calls]
    assert calls == [SkillCall("mb", (float(n),)) for n in (20, 30, 40)]
    for outcome in (replaced, urgent):
        assert {s.segment.goal_id for s in outcome.segments} == {outcome.goal_id}


def raise_once(monkeypatch, owner, name, error):
    """Lets a method fail the next time it is called."""
    method, calls = getattr(owner, name), []

    def fail(*arguments, **options):
        calls.append(1)
        if len(calls) == 1:
            raise error
        return method(*arguments, **options)

    monkeypatch.setattr(owner, name, fail)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (lambda robot: robot._robot._executor, "tick"),
        (lambda robot: robot._robot._reflex, "look"),
        (lambda robot: robot._missions, "publish_outcomes"),
        (lambda robot: robot._missions, "on_report"),
        (lambda robot: robot._robot, "cancel"),
        (lambda robot: robot._robot, "receive"),
        (lambda robot: robot._client, "report"),
    ],
)
def test_an_unexpected_error_halts_the_robot_and_the_node_goes_on(planner, start_operator, monkeypatch, owner, name):
    operator = start_operator(f"drone_fault_{name}", time_scale=5.0)
    operator.instruct("hang mf(500);")
    robot = operator.robot._robot
    wait_until(lambda: robot.pose.x_m > 0.1, what="flight")
    raise_once(monkeypatch, owner(operator.robot), name, OverflowError("int too large to convert to float"))
    if name == "cancel":  # of a goal that has already ended
        planner.spinner.executor.create_task(planner.server.cancel, robot.goal_id)
    if name in ("on_report", "report"):
        robot.add(robot.goal_id, make_segment(0, "mf(20);"))  # nothing: it has come before
        robot._executor._report(ReportStatus.STARTED)
    outcome = operator.outcome()
    assert outcome.error_code in (ErrorCode.SKILL_FAILED, ErrorCode.CANCELLED)
    assert Snapshot.from_json(outcome.world).pose.x_m < 4.0
    assert robot.num_faults == 1
    assert "int too large" in robot.last_fault
    operator.instruct("mf(20);", world='{"objects": []}')
    assert operator.outcome(2).error_code == ErrorCode.NONE


def test_an_instruction_that_fails_unexpectedly_is_answered(planner, start_operator, monkeypatch):
    operator = start_operator("drone_16")
    raise_once(monkeypatch, operator.robot._robot, "enter", RecursionError("too deep"))
    response = operator.instruct("mf(20);")
    assert (response.accepted, response.error_code) == (False, ErrorCode.SKILL_FAILED)
    assert "too deep" in response.error_msg
    assert operator.instruct("mf(20);").accepted
    assert operator.outcome().error_code == ErrorCode.NONE


def test_a_driver_that_fails_and_cannot_halt_ends_the_goal(planner, start_operator, monkeypatch):
    operator = start_operator("drone_17", time_scale=5.0)
    operator.instruct("hang mf(500);")
    robot = operator.robot._robot
    wait_until(lambda: robot.pose.x_m > 0.1, what="flight")
    with monkeypatch.context() as broken:
        for name in ("tick", "halt"):
            broken.setattr(robot._driver, name, lambda _: (_ for _ in ()).throw(OSError("no way to the robot")))
        outcome = operator.outcome()
        assert outcome.error_code == ErrorCode.SKILL_FAILED
        assert "no way to the robot" in outcome.error_msg
        wait_until(lambda: robot.num_faults > 3, what="further attempts to halt")
        assert robot._driver.end_s is not None  # nothing could stop it yet
    wait_until(lambda: robot._driver.end_s is None, what="a halt that works")


def test_a_node_that_cannot_begin_lets_the_robot_go(ros, monkeypatch):
    closed = []
    monkeypatch.setattr("llm_planner.robot_connection.KinematicConnection.close", lambda _: closed.append(1))
    monkeypatch.setattr("llm_planner.ros.robot_node.Missions", lambda *_, **__: (_ for _ in ()).throw(OSError("no")))
    with pytest.raises(OSError, match="no"):
        RobotNode("robot_that_cannot_begin")
    assert closed == [1]


def test_a_node_that_ends_lets_the_robot_go_whatever_fails(ros, monkeypatch):
    robot = RobotNode("ending_robot")
    closed = []
    for owner, name in ((robot._robot, "stop"), (robot._robot._driver, "halt")):
        monkeypatch.setattr(owner, name, lambda *_: (_ for _ in ()).throw(OSError("no way to the robot")))
    monkeypatch.setattr(robot._robot._connection, "close", lambda: closed.append(1))
    robot.end_goals()
    robot.close()
    assert closed == [1]


def test_an_outcome_waits_for_what_the_robot_has_reported(ros, monkeypatch):
    robot = RobotNode("reporting_robot")
    try:
        called = []
        monkeypatch.setattr(robot._missions, "publish_outcomes", lambda: called.append("outcomes"))
        robot._bridge.post(called.append, "report")
        robot._tick()
        assert called == ["report", "outcomes"]
    finally:
        robot.close()


def test_every_timer_of_a_robot_follows_the_steady_clock(ros):
    robot = RobotNode("steady_robot", parameter_overrides=[Parameter("use_sim_time", value=True)])
    try:
        timers = list(robot.timers)
        assert len(timers) == 3  # its own, its view's, its client's
        assert {timer.clock.clock_type for timer in timers} == {ClockType.STEADY_TIME}
    finally:
        robot.close()


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"urgency": 7}, ErrorCode.INVALID_URGENCY),
        ({"instruction": " \n"}, ErrorCode.EMPTY_INSTRUCTION),
        ({"time_budget_s": math.nan}, ErrorCode.INVALID_TIME_BUDGET),
        ({"world": '{"objects": [{}]}'}, ErrorCode.INVALID_WORLD),
        (
            {"world": '{"objects": [{"name": "a", "role": "area", "position_m": [0,0,0], "size_m": [Infinity,1,0]}]}'},
            ErrorCode.INVALID_WORLD,
        ),
    ],
)
def test_garbage_is_refused_at_once(planner, start_operator, fields, code):
    response = start_operator("drone_5").instruct(**({"instruction": "mf(20);"} | fields))
    assert (response.accepted, response.error_code) == (False, code)


@pytest.mark.parametrize(("name", "is_clock_behind"), [("drone_23", False), ("drone_30", True)])
def test_a_second_robot_with_a_name_that_is_taken_refuses_to_start(planner, start_operator, name, is_clock_behind):
    operator = start_operator(name, time_scale=1.0)
    given = {"startup_check_s": 10.0, "use_sim_time": is_clock_behind}  # simulated time is 0 here
    operator.instruct("hang mf(500);")
    with pytest.raises(PlannerError, match=f"another robot runs as /{name}") as refused:
        RobotNode(name, parameter_overrides=[Parameter(key, value=value) for key, value in given.items()])
    assert refused.value.code is ErrorCode.DUPLICATE_NODE
    assert operator.robot.failure is None
    assert operator.robot._robot.is_active
    start_operator("drone_24", startup_check_s=0.5)  # another name is free


def test_a_status_alone_does_not_end_a_robot(ros, start_operator):
    operator = start_operator("drone_25")
    received = []
    operator.node.create_subscription(msgs.RobotStatus, "/drone_25/status", received.append, qos.STATUSES)
    operator.node.create_publisher(msgs.RobotStatus, "/drone_25/status", qos.STATUS).publish(
        msgs.RobotStatus(robot_id="drone_25", instance_id="older")
    )
    wait_until(lambda: {"older"} < {status.instance_id for status in received})
    assert operator.robot.failure is None


def test_a_double_that_the_graph_knows_later_than_its_message_is_noticed(ros, monkeypatch):
    """The message comes once; what the ROS graph says of its publisher may come after it."""
    node, doubles, is_known = rclpy.create_node("drone_27"), [], []
    clock = ManualClock()
    identity = RobotIdentity(node, "tello", "", clock, doubles.append)
    monkeypatch.setattr(identity, "_has_double", lambda: bool(is_known))
    identity._on_status(msgs.RobotStatus(robot_id="drone_27", instance_id="older"))
    identity.check()
    assert doubles == []
    is_known.append(True)
    identity.check()
    identity.check()
    assert [problem.code for problem in doubles] == [ErrorCode.DUPLICATE_NODE]
    node.destroy_node()


@pytest.mark.parametrize(
    ("is_ready", "is_other_ready", "is_other_older", "yields"),
    [
        (False, False, False, False),
        (False, False, True, True),
        (False, True, False, True),
        (False, True, True, True),
        (True, False, False, False),
        (True, False, True, False),
        (True, True, False, False),
        (True, True, True, True),
    ],
)
def test_what_is_ready_wins_over_what_starts(ros, monkeypatch, is_ready, is_other_ready, is_other_older, yields):
    """The service of a node that crashed, which stays in the ROS graph for some time, does not count."""
    crashed, node, doubles = rclpy.create_node("drone_29"), rclpy.create_node("drone_29"), []
    crashed.create_service(Instruct, "~/instruct", lambda _, response: response)
    wait_until(lambda: node.count_services("/drone_29/instruct") == 1)
    identity = RobotIdentity(node, "tello", "", ManualClock(), doubles.append)
    monkeypatch.setattr(identity, "_has_double", lambda: True)
    if is_ready:
        identity.say([])
    other = msgs.RobotStatus(robot_id="drone_29", instance_id="other", is_ready=is_other_ready)
    other.started_at.sec = 0 if is_other_older else 2**31 - 1
    identity._on_status(other)
    assert bool(doubles) == yields
    node.destroy_node()
    crashed.destroy_node()


def test_a_robot_at_work_does_not_yield_its_name(ros, monkeypatch):
    node, doubles = rclpy.create_node("drone_28"), []
    clock = ManualClock()
    identity = RobotIdentity(node, "tello", "", clock, doubles.append)
    monkeypatch.setattr(identity, "_has_double", lambda: True)
    clock.advance(STARTING_S)
    identity._on_status(msgs.RobotStatus(robot_id="drone_28", instance_id="older"))
    assert doubles == []
    node.destroy_node()


def test_the_operator_stops_the_robot(planner, start_operator):
    operator = start_operator("drone_6", time_scale=1.0)
    operator.instruct("mf(500);mb(500);")
    wait_until(lambda: any(r.status is ReportStatus.STARTED for r in planner.server.reports[-1:]))
    operator.stop_publisher.publish(Empty())
    outcome = operator.outcome()
    assert (outcome.error_code, outcome.error_msg) == (ErrorCode.STOPPED, "stopped by the operator")
    assert Snapshot.from_json(outcome.world).pose.x_m < 4.0


def test_a_stop_is_answered_by_what_was_stopped(planner, start_operator):
    operator = start_operator("drone_18", time_scale=1.0)
    operator.instruct("flood mf(500);mb(500);")
    robot = operator.robot._robot
    wait_until(lambda: robot.pose.x_m > 0.1, what="flight")
    response = operator.call_stop(reason="a child runs into the room")
    assert (response.was_busy, response.instruction, response.error_code) == (True, "flood mf(500);mb(500);", 0)
    stopped_at_m = robot.pose.x_m
    outcome = operator.outcome()
    assert (outcome.error_code, outcome.error_msg) == (ErrorCode.STOPPED, "a child runs into the room")
    assert statuses(outcome) == [msgs.SegmentOutcome.FAILED, msgs.SegmentOutcome.NOT_RUN]
    assert robot.pose.x_m == stopped_at_m
    wait_until(lambda: not robot._executor.is_acting, what="the end of the stop skill")
    assert not operator.call_stop().was_busy
    assert operator.instruct("mf(20);").accepted


def test_a_stop_needs_no_planner(ros, start_operator):
    operator = start_operator("drone_19", planner="/absent", time_scale=1.0)
    robot = operator.robot._robot
    robot.begin("0" * 32)
    robot.add("0" * 32, make_segment(0, "mf(500);"))
    wait_until(lambda: robot.pose.x_m > 0.1, what="flight")
    assert operator.call_stop().was_busy
    assert not robot.is_active
    assert robot._driver.target is None


def test_a_stop_halts_a_reflex_too(planner, start_operator):
    operator = start_operator("drone_20", time_scale=1.0)
    robot = operator.robot._robot
    operator.instruct("d(20);", [BALL | {"position_m": [2.0, 0.0, 1.0]}])
    wait_until(lambda: robot.is_in_reflex and robot._driver.target is not None, what="a reflex that moves")
    assert operator.call_stop().was_busy
    assert robot._driver.target is None


def test_a_stop_whose_driver_fails_says_so_and_tries_again(planner, start_operator, monkeypatch):
    operator = start_operator("drone_21", time_scale=1.0)
    operator.instruct("hang mf(500);")
    robot = operator.robot._robot
    wait_until(lambda: robot.pose.x_m > 0.1, what="flight")
    with monkeypatch.context() as broken:
        broken.setattr(robot._driver, "halt", lambda _: (_ for _ in ()).throw(OSError("no way to the robot")))
        response = operator.call_stop()
        assert (response.was_busy, response.error_code) == (True, ErrorCode.SKILL_FAILED)
        assert "no way to the robot" in response.error_msg
    wait_until(lambda: robot._driver.end_s is None, what="a halt that works")
    assert operator.outcome().error_code == ErrorCode.STOPPED


def test_a_busy_robot_says_how_to_stop_it(planner, start_operator):
    operator = start_operator("drone_22", time_scale=1.0)
    operator.instruct("hang mf(500);")
    refusal = operator.instruct("mf(20);").error_msg
    assert "`llm-planner stop drone_22`" in refusal
    assert "--urgent" in refusal


BALL = {"name": "ball", "position_m": [3.0, 0.0, 1.0], "velocity_m_per_s": [-1.0, 0.0, 0.0], "moves_for_s": 2.5}


def away_m(pose):
    return math.dist((pose.x_m, pose.y_m, pose.z_m), (0.0, 0.0, 1.0))


def test_a_reflex_does_not_ask(planner, start_operator):
    operator = start_operator("drone_7", time_scale=10.0)
    operator.instruct("d(20);", [BALL])
    outcome = operator.outcome()
    assert outcome.error_code == ErrorCode.SKILL_FAILED
    assert "reflex: ball comes" in outcome.error_msg
    assert statuses(outcome) == [msgs.SegmentOutcome.FAILED]
    assert [reflex.cause for reflex in outcome.reflexes][:1] == [msgs.Reflex.OBSTACLE]
    assert outcome.reflexes[0].action.startswith("m")  # gets out of its way
    assert all(reflex.finished_at.sec for reflex in outcome.reflexes)
    assert away_m(Snapshot.from_json(outcome.world).pose) >= 0.4
    wait_until(lambda: len(operator.reflexes) >= 2, what="reflex begun and over")
    assert planner.server.ended[outcome.goal_id] is ErrorCode.SKILL_FAILED


def test_a_reflex_needs_no_rclpy(planner, start_operator):
    """While a callback blocks the node's executor, the robot sees and acts all the same."""
    operator = start_operator("drone_10", time_scale=10.0)
    operator.instruct("d(20);", [BALL])
    wait_until(lambda: operator.robot._robot.is_active)
    is_released = threading.Event()
    operator.spinner.executor.create_task(is_released.wait)
    try:
        wait_until(lambda: away_m(operator.robot._robot.pose) > 0.2, what="a dodge with the executor blocked")
        assert operator.outcomes == []
    finally:
        is_released.set()
    assert operator.outcome().reflexes


def test_an_emergency_that_is_refused_is_left_to_the_reflex(planner, start_operator):
    operator = start_operator("drone_11", time_scale=2.0)
    operator.instruct("go " * 10_000, [BALL | {"position_m": [6.0, 0.0, 1.0]}], urgency=1, time_budget_s=5.0)
    outcome = operator.outcome()
    assert outcome.error_code == ErrorCode.INSTRUCTION_TOO_LONG
    assert [reflex.cause for reflex in outcome.reflexes][:1] == [msgs.Reflex.REFUSED]
    assert Snapshot.from_json(outcome.world).pose.x_m < 0.0  # away from the ball


@pytest.mark.parametrize(("name", "instruction"), [("drone_31", "hang mf(200);"), ("drone_32", "unclear there")])
def test_an_emergency_that_is_not_understood_is_left_to_the_reflex(planner, start_operator, name, instruction):
    operator = start_operator(name, time_scale=2.0)
    operator.instruct(instruction, [BALL | {"position_m": [6.0, 0.0, 1.0]}], urgency=1)
    if instruction.startswith("hang"):
        robot = operator.robot._robot
        wait_until(lambda: robot._driver.target is not None and planner.server.requests, what="a motion")
        planner.server.finish(robot.goal_id, ErrorCode.NOT_UNDERSTOOD, "not understood: which way")
    outcome = operator.outcome()
    assert outcome.error_code == ErrorCode.NOT_UNDERSTOOD
    assert [reflex.cause for reflex in outcome.reflexes][:1] == [msgs.Reflex.REFUSED]
    assert outcome.reflexes[0].action.startswith("m"), "out of its way"
    assert msgs.SegmentOutcome.SUCCEEDED not in statuses(outcome)


def test_an_emergency_that_is_not_answered_in_time_is_left_to_the_reflex(start_planner, start_operator):
    planner = start_planner("mute")
    operator = start_operator("drone_12", planner="/mute", time_scale=10.0)

    def submit(request):
        planner.server._book.open(request, time.monotonic())
        planner.server.requests[request.request_id] = request

    planner.server.submit = submit
    planner.server.segments = collections.defaultdict(tuple)
    operator.instruct("mr(100);", urgency=1, time_budget_s=0.2)
    outcome = operator.outcome()
    assert outcome.error_code in (ErrorCode.CANCELLED, ErrorCode.SKILL_FAILED)  # whatever reaches the script first
    assert "reflex" in outcome.error_msg
    assert [(reflex.cause, reflex.action) for reflex in outcome.reflexes] == [(msgs.Reflex.TOO_LATE, "h();")]


def test_a_normal_goal_that_is_refused_needs_no_reflex(planner, start_operator):
    operator = start_operator("drone_13")
    operator.instruct("go " * 10_000, [CHAIR])
    assert list(operator.outcome().reflexes) == []


def test_an_arm_holds_as_long_as_a_person_is_near(planner, start_operator):
    hand = {"name": "hand", "position_m": [0.4, 0.1, 0.4], "velocity_m_per_s": [0.01, 0.0, 0.0], "moves_for_s": 1.0}
    operator = start_operator("arm_1", robot_model="indy7", time_scale=10.0)
    operator.instruct("wait(20);", [hand])
    operator.instruct("wait(30);", urgency=1, world="")
    for number in (1, 2):
        outcome = operator.outcome(number)
        assert outcome.error_code != ErrorCode.NONE
        assert [reflex.action for reflex in outcome.reflexes] == ["stop();"] * len(outcome.reflexes)


def test_a_partial_plan_is_flown_and_held(planner, start_operator):
    operator = start_operator("drone_14")
    operator.instruct("partial mf(50);mr(50);mb(50);", overrun=2, budget_scope=1, time_budget_s=5.0)
    outcome = operator.outcome()
    assert (outcome.error_code, outcome.plan) == (ErrorCode.PLAN_PARTIAL, "mf(50);mr(50);")
    assert statuses(outcome) == [msgs.SegmentOutcome.SUCCEEDED] * 2
    assert not any(s.segment.is_last for s in outcome.segments)
    (request,) = [r for r in planner.server.seen if r.request_id == outcome.goal_id]
    assert (request.overrun.name, request.budget_scope.name) == ("PARTIAL", "WHOLE_PLAN")


def test_a_robot_that_lost_its_planner_finishes_and_then_keeps_safe(start_planner, start_operator):
    planner = start_planner("mortal")
    operator = start_operator("drone_8", planner="/mortal", server_timeout_s=1.5, time_scale=20.0)
    operator.instruct("hang mf(100);")
    wait_until(lambda: planner.server.requests)
    wait_until(lambda: planner.server.reports)
    planner.die()
    outcome = operator.outcome()
    assert outcome.error_code == ErrorCode.SERVER_UNREACHABLE
    assert statuses(outcome) == [msgs.SegmentOutcome.SUCCEEDED]
    wait_until(lambda: operator.robot._robot._driver.state.pose.z_m == pytest.approx(0.0), what="landing")


def test_a_scenario_is_followed(planner, start_operator, tmp_path):
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("drone_9: [{instruction: 'mf(20);'}, {at_s: 0.5, instruction: 'mb(20);'}]\nother: []\n")
    operator = start_operator("drone_9", scenario=str(scenario))
    assert [operator.outcome(n).plan for n in (1, 2)] == ["mf(20);", "mb(20);"]


@pytest.mark.parametrize(
    ("name", "instruction", "objects", "code"),
    [
        ("drone_31", "mf(100);tc(90);", [CHAIR], ErrorCode.NONE),
        ("drone_32", "mf(100);g('unicorn');", [CHAIR], ErrorCode.SKILL_FAILED),
        ("drone_33", "d(20);", [BALL], ErrorCode.SKILL_FAILED),
    ],
)
def test_an_outcome_waits_for_no_timer(planner, start_operator, monkeypatch, name, instruction, objects, code):
    """A robot that polls for its end keeps a processor busy, and twenty of them two."""
    monkeypatch.setattr(robot_node, "PERIOD_S", 3600.0)
    operator = start_operator(name, time_scale=10.0)
    operator.instruct(instruction, objects)
    assert operator.outcome().error_code == code


@pytest.mark.parametrize(
    ("model", "shown"),
    [("tello", "  1  tc(90);  (turn clockwise (to the right) (90 degrees))"), ("our_rover", "  1  tc(90);")],
)
def test_plans_to_choose_from_are_shown_for_a_robot_model_that_only_the_planner_has_too(model, shown):
    outcome = msgs.PlanOutcome(robot_model=model, candidates=["tc(90);"])
    assert send._choices(outcome) == shown
