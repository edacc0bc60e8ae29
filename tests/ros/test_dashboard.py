# SPDX-License-Identifier: Apache-2.0
"""The dashboard node with a planner: what browsers are told, and what happens when its port is taken."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.parameter import Parameter
from std_msgs.msg import String

import llm_planner.msg as msgs
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.ros import qos
from llm_planner.ros.dashboard_node import DashboardNode
from llm_planner.ros.guarded_executor import note_error, num_callback_errors
from tests.monitoring.lines import lines
from tests.monitoring.test_rows import accepted, finished, segment
from tests.ros.hostile import messages
from tests.ros.nodes import Spinner, wait_until
from tests.ros.test_live_view import Counting
from tests.ros.test_planner_node import raised
from tests.ros.test_robot_node import CHAIR, start_operator  # noqa: F401 -- a fixture

pytestmark = pytest.mark.ros


class Browser:
    """Reads the stream of documents, as a page does."""

    def __init__(self, url):
        self._answer = urllib.request.urlopen(f"{url}events", timeout=10)

    def document(self):
        for line in self._answer:
            if line.startswith(b"data: "):
                return json.loads(line[6:])
        raise AssertionError("the stream has ended")

    def close(self):
        self._answer.close()


@pytest.fixture
def start_dashboard(ros):
    started = []

    def start(name, **parameters):
        overrides = [Parameter(n, value=v) for n, v in ({"port": 0} | parameters).items()]
        node = DashboardNode(name, parameter_overrides=overrides)
        started.append((node, Spinner(node)))
        return node

    yield start
    for node, spinner in started:
        spinner.stop()
        node.close()


def test_a_dashboard_without_viewers_forgets_too(start_dashboard):
    node = start_dashboard("dashboard_for_hours", planner="/planner_for_hours")
    with node._board.changing() as (state, now_s):
        for number in range(2000):
            goal = {"request_id": f"goal_{number}"}
            for line in (accepted(10.0 * number), segment(10.0 * number + 1.0), finished(10.0 * number + 2.0)):
                state.receive_event(line | goal, now_s)
        assert len(state.rows.spans) > 2000
    wait_until(lambda: len(state.rows.spans) < 100, what="an end of what is too old to be shown")


def test_the_button_stops_a_robot(start_planner, start_operator, start_dashboard):  # noqa: F811
    start_planner("shown_stop")
    operator = start_operator("live_9", planner="/shown_stop", time_scale=1.0)
    node = start_dashboard("dashboard_9", planner="/shown_stop")
    operator.instruct("hang mf(500);")
    robot = operator.robot._robot
    wait_until(lambda: robot.pose.x_m > 0.1, what="flight")

    def press(token):
        headers = {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"{node.url}stop", b"live_9", headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            return refused.code

    assert press("wrong") == 403
    assert robot.is_active
    wait_until(lambda: press(node.token) == {"live_9": ""}, what="the robot to be found")
    assert not robot.is_active
    assert operator.outcome().error_code == ErrorCode.STOPPED
    assert operator.outcome().error_msg == "stopped in the dashboard"


def test_a_browser_sees_the_planner_its_robot_and_what_it_did(start_planner, start_operator, start_dashboard):  # noqa: F811
    planner = start_planner("shown_live")
    counting = Counting(planner.server)
    operator = start_operator("live_1", planner="/shown_live")
    node = start_dashboard("dashboard_1", planner="/shown_live")
    assert counting.num_looks == 0  # no client looks: no node is asked
    browser = Browser(node.url)
    assert browser.document()["is_whole"]
    operator.instruct("mf(100);mb(50);", [CHAIR])
    operator.outcome()
    seen = {"spans": {}, "robots": {}}

    def is_complete():
        document = browser.document()
        seen["spans"] |= {span[0]: span for span in document["spans"]}
        seen["robots"] |= {robot["robot_id"]: robot for robot in document["robots"] if "things" in robot}
        done = [span for span in seen["spans"].values() if span[2] == "execution" and span[4] is not None]
        return document["loop"] and len(done) == 2 and "live_1" in seen["robots"] and document["ended"]

    wait_until(is_complete, 15.0, "everything that is shown")
    assert [span[5] for span in seen["spans"].values() if span[2] == "execution"] == ["mf(100);", "mb(50);"]
    assert seen["robots"]["live_1"]["things"][0]["name"] == "chair"
    browser.close()


def test_what_makes_no_sense_is_counted_and_nothing_breaks(start_dashboard):
    node = start_dashboard("dashboard_2", planner="/odd")
    talker = rclpy.create_node("odd")
    events = talker.create_publisher(String, "/odd/goal_events", qos.GOAL_EVENTS)
    views = talker.create_publisher(String, "/odd/view", qos.VIEW)
    browser = Browser(node.url)
    for text in ("{", "[]", '{"event": "accepted", "time_s": "NaN"}', "null"):
        events.publish(String(data=text))
    wait_until(lambda: browser.document()["num_broken"] == 4)
    before = browser.document()["num_broken"]

    def speak():
        views.publish(String(data='{"version": 1, "pose": NaN}'))
        return browser.document()["num_broken"] > before

    wait_until(speak)
    browser.close()
    talker.destroy_node()


def test_a_port_that_is_taken_is_a_numbered_error(ros):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PlannerError, match=f"127.0.0.1:{port}") as refused:
            DashboardNode("dashboard_3", parameter_overrides=[Parameter("port", value=port)])
        assert refused.value.code is ErrorCode.ADDRESS_IN_USE


def test_the_process_ends_with_status_1_if_its_port_is_taken_and_with_0_at_a_signal():
    command = [sys.executable, "-m", "llm_planner.ros.dashboard_node", "--ros-args", "-p"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run([*command, f"port:={port}"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "ADDRESS_IN_USE" in done.stderr
    with subprocess.Popen([*command, f"port:={port}"], stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: is_served(port), 30.0)
            os.kill(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, "Traceback" in errors) == (0, False)


def is_served(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2) as page:
            return page.status == 200
    except urllib.error.URLError:
        return False


# Strangers


class Talker:
    """A node that says anything on all topics that a dashboard listens to."""

    def __init__(self, planner, robot):
        self.node = rclpy.create_node("talker")
        self.events = self.node.create_publisher(String, f"{planner}/goal_events", qos.GOAL_EVENTS)
        self.view = self.node.create_publisher(String, f"{planner}/view", qos.VIEW)
        self.outcome = self.node.create_publisher(msgs.PlanOutcome, f"{robot}/outcome", qos.OUTCOMES)  # it is a robot
        self.robot_view = self.node.create_publisher(String, f"{robot}/view", qos.VIEW)
        self.reflex = self.node.create_publisher(msgs.Reflex, f"{robot}/reflex", qos.REPORTS)
        self.diagnostics = self.node.create_publisher(DiagnosticArray, "/diagnostics", 10)

    @property
    def publishers(self):
        return (self.events, self.view, self.robot_view, self.reflex, self.diagnostics)


@pytest.fixture
def talker(ros):
    talker = Talker("/wild", "/wild_robot")
    yield talker
    talker.node.destroy_node()


DOCUMENT_KEYS = {"planner", "robots", "spans", "alerts", "log", "ended", "num_broken", "loop"}


def test_any_message_leaves_it_alive_and_serving(start_dashboard, talker):
    node = start_dashboard("dashboard_wild", planner="/wild")
    browser = Browser(node.url)
    wait_until(lambda: all(publisher.get_subscription_count() for publisher in talker.publishers))

    @given(
        st.lists(lines(), max_size=5),
        lines(),
        lines(),
        messages(msgs.Reflex, "wild_robot"),
        messages(DiagnosticArray),
    )
    @settings(max_examples=60)
    def talk(events, view, robot_view, reflex, diagnosis):
        for event in events:
            talker.events.publish(String(data=event))
        talker.view.publish(String(data=view))
        talker.robot_view.publish(String(data=robot_view))
        talker.reflex.publish(reflex)
        talker.diagnostics.publish(diagnosis)
        assert browser.document().keys() >= DOCUMENT_KEYS

    talk()
    with urllib.request.urlopen(f"{node.url}state.json", timeout=10) as answer:
        json.loads(answer.read(), parse_constant=pytest.fail)  # what no browser could read
    assert num_callback_errors(node) == 0  # not because failures were passed over
    browser.close()


def test_its_failed_callbacks_are_told_to_diagnostics(start_dashboard, talker):
    node = start_dashboard("dashboard_failing", planner="/wild")
    note_error(node, raised(OverflowError("int too large")))
    received = []
    talker.node.create_subscription(DiagnosticArray, "/diagnostics", lambda m: received.extend(m.status), 10)
    spinner = Spinner(talker.node)
    wait_until(lambda: any(status.name == "dashboard_failing: callbacks" for status in received))
    spinner.stop()
    status = next(status for status in received if status.name == "dashboard_failing: callbacks")
    assert (status.level, status.values[0].value) == (DiagnosticStatus.WARN, "1")
