# SPDX-License-Identifier: Apache-2.0
"""One planner node per test module; without ROS this folder is skipped, with the reason in the header."""

import importlib.util

import pytest

HAS_ROS = all(importlib.util.find_spec(name) for name in ("rclpy", "llm_planner.msg"))
collect_ignore_glob = [] if HAS_ROS else ["test_*.py"]


def pytest_report_header():
    return None if HAS_ROS else "tests/ros: skipped, rclpy or the compiled interfaces are missing"


if HAS_ROS:
    import rclpy

    from tests.ros.nodes import Planner, Robot, starting, wait_until


@pytest.fixture(scope="session")
def ros():
    """ROS for the whole session; the laboratory's tests take this fixture too, as one of their own."""
    if rclpy.ok():
        yield
        return
    rclpy.init()
    yield
    rclpy.shutdown()


@pytest.fixture(scope="module")
def planner(ros):
    planner = Planner()
    wait_until(planner.is_active)
    yield planner
    planner.stop()


@pytest.fixture
def start_planner(ros):
    started = []

    def start(name, **parameters):
        started.append(Planner(name, **parameters))
        if parameters.get("autostart", True):
            wait_until(started[-1].is_active)
        return started[-1]

    yield start
    for planner in started:
        planner.stop()


@pytest.fixture
def start_robot(ros):
    with starting(Robot) as start:
        yield start
