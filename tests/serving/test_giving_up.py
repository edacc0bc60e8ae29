# SPDX-License-Identifier: Apache-2.0
"""Budgets that cannot be kept any more: the robot's reflex is told while there is time."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import OverrunStrategy
from llm_planner.serving.events import Finished
from tests.serving.budget_run import WHOLE, ProfiledFake, Run


class Slowed(ProfiledFake):
    """After a number of steps, everything takes ten times as long: a hot processor, another program."""

    num_steps = 0
    slow_from = 3

    def execute(self, scheduled):
        output = super().execute(scheduled)
        self.num_steps += 1
        if self.num_steps <= self.slow_from:
            return output
        self.busy_s += 9 * output.duration_s
        return replace(output, duration_s=10 * output.duration_s)


def slowed(slow_from=3, **scheduler):
    run = Run(**scheduler)
    run.backend = Slowed(plans=run.backend.plans, can_evict=True)
    run.backend.slow_from = slow_from
    run.loop._backend = run.preparer.backend = run.backend
    return run


def ended_at_s(run, request_id="r1"):
    return next(t for t, e in run.events if isinstance(e, Finished) and e.request_id == request_id)


def test_what_can_no_longer_be_kept_is_given_up_while_the_reflex_has_time():
    run = slowed(policy="fcfs").submit(instruction="long", time_budget_s=2.0).go()
    assert run.result().error_code is ErrorCode.BUDGET_EXCEEDED
    assert "let the reflex act" in run.result().error_msg
    assert ended_at_s(run) < 1.5  # past half of it, because the estimate follows a change with some delay


def test_the_reserve_is_a_setting():
    early, middle, late = (
        ended_at_s(slowed(policy="fcfs", reflex_reserve=reserve).submit(instruction="long", time_budget_s=2.0).go())
        for reserve in (0.9, 0.5, 0.0)
    )
    assert early <= middle < 1.5 < late


@pytest.mark.parametrize("overrun", [OverrunStrategy.SKIP_NEXT, OverrunStrategy.PARTIAL])
def test_who_wants_to_go_on_or_has_something_to_deliver_is_not_given_up(overrun):
    run = slowed(slow_from=8).submit(instruction="long", time_budget_s=2.0, overrun=overrun, **WHOLE).go()
    expected = ErrorCode.NONE if overrun is OverrunStrategy.SKIP_NEXT else ErrorCode.PLAN_PARTIAL
    assert run.result().error_code is expected
    assert run.result().segments


@given(
    budgets_s=st.lists(st.floats(0.02, 1.0), min_size=1, max_size=8),
    slow_from=st.integers(0, 60),
    policy=st.sampled_from(["fcfs", "fcfs_stream", "pud"]),
)
@settings(max_examples=40, deadline=None)
def test_the_reflex_is_told_early_that_no_plan_will_come(budgets_s, slow_from, policy):
    """Nothing out: then the word comes by half of the budget, or at the end of the step that ran at that time."""
    run = slowed(slow_from=slow_from, policy=policy, max_num_seqs=2)
    budget_of = {f"r{i}": budget_s for i, budget_s in enumerate(budgets_s)}
    for name, budget_s in budget_of.items():
        run.submit(name, time_budget_s=budget_s)
    longest_s, before_s = 0.0, 0.0
    while (wakeup_s := run.loop.next_wakeup_s(run.now_s)) is not None:
        run.now_s = max(run.now_s, wakeup_s)
        before_s = run.now_s
        run.step()
        longest_s = max(longest_s, run.now_s - before_s)
    for name, budget_s in budget_of.items():
        result = run.result(name)
        if result.error_code is ErrorCode.BUDGET_INFEASIBLE:
            assert ended_at_s(run, name) == 0.0
        elif not result.segments and slow_from == 0:  # slow from the start: seen before half the budget is over
            assert ended_at_s(run, name) <= 0.5 * budget_s + longest_s
