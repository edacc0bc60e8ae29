# SPDX-License-Identifier: Apache-2.0
"""What the soak counts as lost and late, on messages whose fate is known."""

import json
import os
import subprocess
import sys
import time

import pytest
import rclpy
import yaml
from std_msgs.msg import String

import llm_planner.msg as msgs
from llm_planner.ros import qos
from llm_planner.ros.composition import DASHBOARD, Composition, Fleet
from llm_planner.ros.scenario import load_scenario
from llm_planner_lab.ros.processor_time import memory_mb, processor_s, share_of_core
from llm_planner_lab.ros.soak import EVERY_S, _by_role, _require_all, idle, write_scenario
from llm_planner_lab.ros.soak_ear import Ear, Kind
from tests.monitoring.test_rows import accepted, finished, report, segment
from tests.ros.nodes import Spinner, wait_until

pytestmark = pytest.mark.ros


def test_missing_numbers_are_lost_whatever_the_order():
    kind = Kind(None)
    for topic, number in (("/a", 5), ("/a", 8), ("/a", 6), ("/b", 1), ("/b", 2)):
        kind.receive(topic, number, 0.001, 0.001)
    assert kind.report(has_numbers=True)["lost"] == 1
    assert kind.report(has_numbers=False)["lost"] is None


def test_numbers_of_several_publishers_are_not_counted_together(ros):
    node = rclpy.create_node("counted")
    ear = Ear(node, "/planner")
    ear.is_counting = True
    for name in ("diagnostics", "status"):
        for number in (7, 7, 8, 8):  # of two publishers, one each
            ear._kinds.setdefault(name, Kind(1.0)).receive(f"/{name}", number, 0.001, 0.001)
    found = ear.report()
    assert (found["diagnostics"]["lost"], found["status"]["lost"]) == (None, -2)
    assert found["all"]["lost"] == -2
    node.destroy_node()


def test_a_process_that_has_ended_is_reported_with_the_end_of_its_log(tmp_path):
    command = [sys.executable, "-c", "raise SystemExit('port 1 is in use')"]
    with Fleet({DASHBOARD: command}, log_dir=tmp_path) as fleet:
        wait_until(fleet.observers_ended)
        with pytest.raises(RuntimeError, match=r"dashboard ended with status 1:\n.*port 1 is in use"):
            _require_all(fleet, tmp_path)


@pytest.mark.parametrize(
    ("period_s", "way_s", "is_late"),
    [(1.0, 0.004, False), (1.0, 0.006, True), (0.01, 0.0019, False), (0.01, 0.0021, True), (None, 9.0, False)],
)
def test_late_is_more_than_a_fifth_of_the_period_or_5_ms(period_s, way_s, is_late):
    kind = Kind(period_s)
    kind.receive("/a", 1, way_s, 0.0)
    assert kind.num_late(kind.ways_s) == is_late
    assert kind.num_late(kind.transport_s) == 0


def test_what_waits_in_the_listener_is_not_the_fleets_lateness():
    kind = Kind(1.0)
    for way_s, transport_s in ((0.001, 0.001), (0.009, 0.001), (0.009, 0.001), (0.009, 0.008)):
        kind.receive("/a", 1, way_s, transport_s)
    found = kind.report(has_numbers=False)
    assert (found["late_share"], found["late_share_of_transport"], found["late_share_of_listener"]) == (0.75, 0.25, 0.5)
    assert (found["way_p99_ms"], found["transport_p99_ms"]) == (9.0, 8.0)


def test_the_listener_receives_from_robots_and_counts_reports_at_the_planner(ros):
    talker, listener = rclpy.create_node("told"), rclpy.create_node("ear")
    robot = rclpy.create_node("told_robot")
    events = talker.create_publisher(String, "/told/goal_events", qos.GOAL_EVENTS)
    views = robot.create_publisher(String, "/told_robot/view", qos.REPORTS)
    robot.create_publisher(msgs.PlanOutcome, "/told_robot/outcome", qos.OUTCOMES)
    spinner = Spinner(listener)
    wait_until(lambda: {"/told_robot/view", "/told/goal_events"} <= dict(listener.get_topic_names_and_types()).keys())
    ear = spinner.executor.create_task(Ear, listener, "/told")
    wait_until(lambda: ear.done() and events.get_subscription_count() == 1 and views.get_subscription_count() == 1)
    time.sleep(0.2)
    ear = ear.result()
    views.publish(String(data="not counted yet"))
    time.sleep(0.2)
    ear.is_counting = True
    lines = [segment(0.0, request_id="before"), finished(0.0, request_id="before"), accepted(1.0), segment(1.1)]
    lines += [report(1.2, "started"), report(2.0, "succeeded"), finished(2.1)]
    lines += [
        accepted(3.0, "g2"),
        segment(3.1, request_id="g2"),
        finished(4.0, request_id="g2"),
    ]  # two reports are missing
    for line in lines:
        events.publish(String(data=json.dumps(line)))
    for _ in range(3):
        views.publish(String(data="{}"))
    wait_until(lambda: sum(kind.get("received", 0) for kind in ear.report().values()) == len(lines) + 3)
    spinner.stop()
    for node in (talker, listener, robot):
        node.destroy_node()
    found = ear.report()
    assert (found["robot view"]["received"], found["robot view"]["lost"]) == (3, 0)
    assert found["all"]["lost"] == 0
    assert ear.report_of_reports() == {"goals": 2, "expected": 4, "lost": 2}


def test_every_robot_is_told_something_that_it_can_do(tmp_path):
    fleet, path = Composition(drones=2, arms=1), tmp_path / "scenario.yaml"
    write_scenario(path, fleet, 30.0)
    assert set(yaml.safe_load(path.read_text())) == {"drone_1", "drone_2", "arm_1"}
    events = load_scenario(path, "drone_2")
    assert len(events) == 4
    assert events[1].at_s - events[0].at_s == pytest.approx(EVERY_S)


def test_processor_time_is_that_of_the_process():
    before = processor_s(os.getpid())
    while processor_s(os.getpid()) < before + 0.05:
        sum(range(1000))
    assert processor_s(2**30) == 0.0  # no such process
    assert share_of_core({"absent": 2**30}, 0.01) == {"absent": 0.0}


def test_memory_is_that_of_the_process():
    """Of processes of its own: here, what other tests leave behind may be freed in the meantime."""
    script = "import sys; kept = b'x' * (int(sys.argv[1]) << 20); print(flush=True); sys.stdin.read()"
    memory = {}
    for size_mb in (0, 64):
        command = [sys.executable, "-I", "-S", "-c", script, str(size_mb)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            memory[size_mb] = memory_mb(child.pid)
            child.stdin.close()
    assert memory[64] - memory[0] == pytest.approx(64, abs=2)


def test_the_share_of_a_robot_does_not_depend_on_how_many_share_its_process():
    shares = {"planner": 0.1, "robots_1": 0.3, "robots_2": 0.1}
    assert _by_role({"idle": shares}, 8) == {"idle": {"planner": 0.1, "each_robot": 0.05}}


def test_idle_robots_take_something_and_have_memory(ros, tmp_path):
    fleet = Composition(drones=2, arms=0, planner={"backend": "fake"}, robots_per_process=2)
    found = idle(fleet, 2.0, tmp_path)
    assert 0.0 < found["share_of_one_core"]["idle"]["each_robot"] < 1.0
    assert found["robot_memory_mb"] > 1.0
