# SPDX-License-Identifier: Apache-2.0
"""/metrics of a planner node over HTTP."""

import socket
import urllib.request

import pytest

from llm_planner.core.errors import ErrorCode
from tests.ros.nodes import wait_until
from tests.ros.test_live_view import Counting

pytestmark = pytest.mark.ros


@pytest.fixture
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def scrape(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return answer.read().decode()


def test_a_scrape_shows_slots_and_how_goals_ended(start_planner, start_robot, free_port):
    planner = start_planner("measured", metrics_port=free_port)
    Counting(planner.server)
    robot = start_robot("drone_1", planner="/measured")
    handle = robot.client.plan("hang mf(20);")
    next(iter(handle))
    wait_until(lambda: "vllm:num_requests_running{" in scrape(free_port), 10.0)
    handle.cancel()
    assert handle.result(10.0).error_code is ErrorCode.CANCELLED
    ended = 'llm_planner:goals_ended_total{code="CANCELLED",model_name="planner-small"} 1.0'
    wait_until(lambda: ended in scrape(free_port), 10.0)


def test_a_port_that_is_taken_is_a_numbered_error_and_the_planner_plans(start_planner, start_robot):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        planner = start_planner("unmeasured", metrics_port=port)
        failure = planner.node._metrics.failure
        assert failure.code is ErrorCode.ADDRESS_IN_USE
        assert f"127.0.0.1:{port}" in failure.message
        robot = start_robot("drone_2", planner="/unmeasured")
        assert next(iter(robot.client.plan("hang mf(20);"))).text == "mf(20);"


def test_nothing_listens_by_default(planner):
    assert planner.node._metrics._http is None
    assert planner.node._metrics.failure is None
