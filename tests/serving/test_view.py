# SPDX-License-Identifier: Apache-2.0
"""The view of a loop: states, robots, and what is lost when."""

import pickle

import pytest

from llm_planner.core.clock import ManualClock
from llm_planner.core.request import Urgency
from llm_planner.core.time_utility import NORMAL, URGENT, TimeUtility
from llm_planner.serving.fake import FakeBackend, FakeTiming
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.view import MAX_GOALS, GoalView
from tests.serving.builders import make_loop, make_request, started, succeeded

PLAN = "a(1);b(2);c(3);"


def goals(loop: PlannerLoop, now_s: float) -> dict[str, GoalView]:
    return {goal.request_id: goal for goal in loop.look(now_s).goals}


def step_until(loop: PlannerLoop, condition, now_s: float = 0.0) -> float:
    for _ in range(200):
        if condition():
            return now_s
        loop.step(now_s)
        now_s += 0.02
    raise AssertionError("it never came to that")


def test_a_goal_from_waiting_to_planned():
    loop = make_loop({"go": PLAN}, policy="fcfs_segment")
    loop.submit(make_request("r1", "go", urgency=Urgency.URGENT, time_utility=URGENT, time_budget_s=2.0), 0.0)
    view = goals(loop, 0.1)["r1"]
    assert (view.state, view.urgency, view.robot_id) == ("waiting", "urgent", "robot_r1")
    assert (view.num_segments, view.num_executed, view.num_kv_blocks) == (0, 0, 0)
    assert (view.age_s, view.falls_in_s, view.ends_in_s) == pytest.approx((0.1, 0.1, 1.9))
    assert view.utility == URGENT.beta

    now_s = step_until(loop, lambda: goals(loop, 0.0)["r1"].num_segments == 1)
    loop.report(started("r1", 0), now_s)
    view = goals(loop, now_s)["r1"]
    assert view.state == "suspended"
    assert view.num_kv_blocks > 0
    assert view.num_output_tokens >= 2
    assert 0.9 < view.robot_busy_s <= 1.0  # it carries out segment 0
    assert view.falls_in_s == pytest.approx(view.robot_busy_s)
    assert view.ends_in_s is not None
    assert view.ends_in_s > 30.0  # its robot's silence

    late = goals(loop, now_s + 1.5)["r1"]
    assert (late.num_executed, late.state) == (0, "ready")
    assert late.falls_in_s is not None
    assert late.falls_in_s < 0
    assert late.utility is not None
    assert late.utility < URGENT.beta

    loop.report(succeeded("r1", 0), now_s + 1.0)
    assert goals(loop, now_s + 1.0)["r1"].num_executed == 1
    now_s = step_until(loop, lambda: goals(loop, 0.0)["r1"].state == "planned", now_s + 1.0)
    view = goals(loop, now_s)["r1"]
    assert (view.num_segments, view.utility, view.falls_in_s) == (3, None, None)


def test_a_utility_that_never_falls_loses_nothing():
    loop = make_loop()
    loop.submit(make_request("r1", time_utility=TimeUtility(1.0, 0.0, 1.0)), 0.0)
    view = goals(loop, 100.0)["r1"]
    assert (view.falls_in_s, view.utility) == (None, 1.0)


def test_running_ones_come_first_then_who_loses_first_and_the_rest_is_counted():
    loop = make_loop({"go": PLAN}, max_num_seqs=2)
    for number in range(MAX_GOALS + 10):
        utility = NORMAL if number % 2 else URGENT
        loop.submit(make_request(f"r{number}", "go", time_utility=utility), 0.01 * number)
    loop.step(1.0)
    view = loop.look(1.0)
    assert len(view.goals) == MAX_GOALS
    assert (view.status.num_goals, view.status.num_running, view.max_num_seqs) == (MAX_GOALS + 10, 2, 2)
    assert [goal.state for goal in view.goals[:3]] == ["running", "running", "waiting"]
    falls_in_s = [goal.falls_in_s for goal in view.goals[2:]]
    assert falls_in_s == sorted(falls_in_s)
    assert falls_in_s[0] == pytest.approx(0.02 + URGENT.ert_s - 1.0)  # r2: the two before it run


def test_memory_adds_up_also_when_some_is_in_host_memory():
    backend = FakeBackend(plans={"go": PLAN}, num_kv_blocks=14, block_size=4)
    loop = make_loop(backend=backend)
    for number in range(12):
        loop.submit(make_request(f"r{number}", "go"), 0.0)
    seen = 0
    for step in range(60):
        loop.step(0.02 * step)
        view = loop.look(0.02 * step)
        held = sum(goal.num_kv_blocks for goal in view.goals)
        assert held + view.num_prefix_kv_blocks + view.status.num_free_kv_blocks == view.status.num_kv_blocks
        assert (view.num_offloaded_kv_blocks > 0) == any(goal.is_offloaded for goal in view.goals)
        seen += view.num_offloaded_kv_blocks
    assert seen > 0


def test_totals_count_steps_tokens_and_decisions():
    class Watch(ManualClock):
        def now_s(self) -> float:
            self.advance(0.001)
            return super().now_s()

    backend = FakeBackend(plans={"go": PLAN}, timing=FakeTiming(step_s=0.02, prompt_token_s=0.0, decode_s=0.0))
    loop = make_loop(backend=backend, policy="fcfs_stream", stopwatch=Watch())
    assert loop.look(0.0).totals.num_steps == 0
    loop.submit(make_request("r1", "go"), 0.0)
    step_until(loop, lambda: goals(loop, 0.0)["r1"].state == "planned")
    totals = loop.look(1.0).totals
    assert totals.num_decisions == totals.num_steps > 0
    assert totals.decision_s == pytest.approx(0.001 * totals.num_decisions)
    assert totals.busy_s == pytest.approx(0.02 * totals.num_steps)
    assert totals.num_output_tokens == len(backend.tokenizer.encode(PLAN))
    assert totals.num_computed_tokens > totals.num_output_tokens


def test_a_view_travels_between_processes():
    loop = make_loop()
    loop.submit(make_request(), 0.0)
    view = loop.look(0.5)
    assert pickle.loads(pickle.dumps(view)) == view
