# SPDX-License-Identifier: Apache-2.0
"""A segment fails, the robot waits where it is, and the plan goes on another way."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.core.pose import Pose
from llm_planner.core.segment import ReportStatus, Situation, make_replan
from llm_planner.robots.executor import ExecutorState
from tests.robots.builders import segment
from tests.robots.test_executor import Robot

STARTED, SUCCEEDED, FAILED = ReportStatus.STARTED, ReportStatus.SUCCEEDED, ReportStatus.FAILED
LOST = Situation(scene="chair", pose=Pose(x_m=1.0))


def test_a_robot_that_looks_waits_where_a_segment_failed():
    robot = Robot(look=lambda: LOST)
    robot.add(segment(0, "_1=iv(chair);"), segment(1, "a(unicorn);"), segment(2, "mf(100);"))
    robot.expect(3)  # of the plan that fails: it must not end the goal
    robot.run(3)
    assert robot.events() == [(0, STARTED), (0, SUCCEEDED), (1, STARTED), (1, FAILED)]
    assert robot.reports[-1].situation == LOST
    assert robot.executor.state is ExecutorState.ACTIVE
    assert robot.driver._num_calls["h"] == 1  # it holds meanwhile
    robot.add(segment(3, "mb(100);"))  # void too: the planner did not know of it yet
    robot.run(3)
    robot.expect(4)
    robot.add(segment(5, "?_1==True{mu(50);}"), make_replan(4))
    robot.run(4)
    assert robot.events()[4:] == [(5, STARTED), (5, SUCCEEDED)]
    assert robot.driver.state.pose.z_m == pytest.approx(1.5)  # variables are what they were
    assert robot.executor.state is ExecutorState.ACTIVE
    robot.expect(6)
    robot.run(0.1)
    assert robot.executor.state is ExecutorState.DONE


def test_while_it_waits_it_lands_if_the_planner_is_silent_and_obeys_a_cancel():
    robot = Robot(look=lambda: LOST)
    robot.add(segment(0, "a(unicorn);"))
    robot.run(80)
    assert robot.driver.state.pose.z_m == 0.0
    robot = Robot(look=lambda: LOST)
    robot.add(segment(0, "a(unicorn);"))
    robot.run(2)
    robot.executor.cancel(robot.now_s)
    assert robot.executor.state is ExecutorState.FAILED
    robot.add(make_replan(1), segment(2))
    robot.run(2)
    assert robot.events() == [(0, STARTED), (0, FAILED)]


def test_a_reflex_a_chat_and_who_does_not_look_give_up():
    robot = Robot(look=lambda: LOST)
    robot.add(segment(0, "mf(500);"))
    robot.run(1)
    robot.executor.reflex(robot.now_s)
    assert robot.reports[-1].situation is None
    assert robot.executor.state is ExecutorState.FAILED
    robot = Robot()
    robot.add(segment(0, "a(unicorn);"))
    robot.run(1)
    assert robot.reports[-1].situation is None
    assert robot.executor.state is ExecutorState.FAILED


@settings(max_examples=100, deadline=None)
@given(st.permutations(range(7)), st.integers(0, 6), st.integers(0, 20))
def test_whatever_the_order_what_is_void_is_never_run(order, repeated, pause):
    texts = ["mf(20);", "a(unicorn);", "mb(500);", "mb(500);", "", "mu(20);", "mu(20);"]
    robot = Robot(look=lambda: LOST)
    for count, index in enumerate([*order, repeated]):
        robot.add(make_replan(index) if not texts[index] else segment(index, texts[index]))
        robot.run(pause / 10 if count % 2 else 0.05)
    robot.expect(7)
    robot.run(10)
    assert robot.executor.state is ExecutorState.DONE
    assert [i for i, status in robot.events() if status is SUCCEEDED] == [0, 5, 6]
    assert robot.driver.state.pose.x_m == pytest.approx(0.2)
