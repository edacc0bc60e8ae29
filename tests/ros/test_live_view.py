# SPDX-License-Identifier: Apache-2.0
"""The live view over real DDS: spoken only to listeners, and what `llm-planner top` makes of it."""

import json
import time
from dataclasses import replace

import pytest
import rclpy
from typer.testing import CliRunner

from llm_planner.cli.main import app
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.ros.live_view import PERIOD_S, ViewListener
from llm_planner.serving.meter import Totals
from llm_planner.serving.planner_view import PlannerView
from tests.cli.test_top_screen import make_goal, make_view
from tests.ros.nodes import Spinner, wait_until

pytestmark = pytest.mark.ros


@pytest.fixture
def listen(ros):
    nodes = []

    def start(planner):
        node = rclpy.create_node("viewer")
        listener = ViewListener(node, planner)
        nodes.append((node, Spinner(node)))
        return listener

    yield start
    for node, spinner in nodes:
        spinner.stop()
        node.destroy_node()


class Counting:
    """Gives a scripted server another view at every look."""

    def __init__(self, server):
        self.view = make_view(make_goal("drone_1")).loop
        self.server, self.num_looks = server, 0
        server.look = self.look

    def look(self):
        self.num_looks += 1
        totals = Totals(num_steps=10 * self.num_looks, num_output_tokens=30 * self.num_looks)
        self.server.view = replace(self.view, at_s=0.25 * self.num_looks, totals=totals)


def test_a_view_survives_the_wire():
    view = make_view(make_goal("drone_1", falls_in_s=None), make_goal("drone_2"))
    assert PlannerView.from_json(view.to_json()) == view


@pytest.mark.parametrize("text", ['{"version": 2}', "[]", "", '{"version": 1}'])
def test_another_format_is_refused(text):
    with pytest.raises(PlannerError) as refused:
        PlannerView.from_json(text)
    assert refused.value.code is ErrorCode.VERSION_MISMATCH


def test_a_newer_planner_may_add_fields():
    view = make_view(make_goal("drone_1"))
    assert PlannerView.from_json(json.dumps(json.loads(view.to_json()) | {"colour": "red"})) == view


def test_only_listeners_cost_anything(start_planner, start_robot, listen):
    planner = start_planner("watched")
    counting = Counting(planner.server)
    robot = start_robot("drone_1", planner="/watched")
    next(iter(robot.client.plan("hang mf(20);")))
    time.sleep(3 * PERIOD_S)
    assert counting.num_looks == 0
    listener = listen("/watched")
    view = listener.first(10.0)
    assert (view.planner, view.state, view.is_ready) == ("/watched", "ACTIVE", True)
    assert view.loop is not None
    assert view.loop.goals == counting.view.goals
    newer = listener.fresh(view, 10.0)
    assert newer.loop.at_s > view.loop.at_s


def test_a_robot_that_has_done_its_goal_is_idle(start_planner, start_robot, listen):
    start_planner("idler")
    robot = start_robot("drone_7", planner="/idler")
    handle = robot.client.plan("hang mf(20);")
    next(iter(handle))
    listener = listen("/idler")
    assert listener.first(10.0).num_goals == 1
    handle.cancel()
    assert handle.result(10.0).error_code is ErrorCode.CANCELLED
    wait_until(lambda: (view := listener.next(1.0)) is not None and view.num_goals == 0)
    (idle,) = listener.first(10.0).idle_robots
    assert (idle.robot_id, idle.error_code) == (robot.client.robot_id, ErrorCode.CANCELLED)
    assert 0 <= idle.idle_s < 60


def test_the_command_prints_one_view(start_planner):
    Counting(start_planner("shown").server)
    result = CliRunner().invoke(app, ["top", "--planner", "/shown", "--json"])
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["planner"], answer["state"]) == (0, "/shown", "ACTIVE")
    assert answer["loop"]["goals"][0]["robot_id"] == "drone_1"
    assert answer["rates"]["tokens_per_s"] == pytest.approx(120.0)
    result = CliRunner().invoke(app, ["top", "--planner", "/shown", "--once"])
    assert result.exit_code == 0
    assert "drone_1" in result.stdout


def test_a_planner_without_a_model_says_so(start_planner, listen):
    start_planner("empty", autostart=False)
    view = listen("/empty").first(10.0)
    assert (view.state, view.is_ready, view.loop) == ("INACTIVE", False, None)


@pytest.mark.parametrize("name", ["/a b", "/9lives", "/planner?"])
def test_an_impossible_name_is_refused(ros, name):
    result = CliRunner().invoke(app, ["top", "--planner", name, "--timeout", "0.1"])
    assert isinstance(result.exception, PlannerError)
    assert result.exception.code is ErrorCode.INVALID_CONFIG


def test_no_planner_no_view(ros):
    result = CliRunner().invoke(app, ["top", "--planner", "/absent", "--timeout", "0.5"])
    assert isinstance(result.exception, PlannerError)
    assert result.exception.code is ErrorCode.SERVER_UNREACHABLE
    assert "/absent" in str(result.exception)
