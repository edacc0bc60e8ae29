# SPDX-License-Identifier: Apache-2.0
"""Load shedding in the loop: opt-in, with a number and a sentence, counted, and of no goal that had begun."""

from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import OverrunStrategy
from tests.serving.budget_run import WHOLE
from tests.serving.budget_run import Run as BudgetRun
from tests.serving.builders import make_loop
from tests.serving.loop_run import Run

PLAN = "mf(50);mf(60);mf(70);mf(80);mf(90);ld();"


def overloaded(*, sheds_load):
    """One slot, plans of half a second and more, and forty goals at once, each worth nothing after 1.5 s."""
    run = Run(make_loop({"go": PLAN}, policy="fcfs", max_num_seqs=1, sheds_load=sheds_load), seconds=0.0)
    for number in range(40):
        run.submit(f"r{number}", "go")
    run.go()
    return run


def test_without_the_setting_every_goal_is_served_however_late():
    run = overloaded(sheds_load=False)
    assert {run.result(f"r{n}").error_code for n in range(40)} == {ErrorCode.NONE}
    assert run.loop.status.num_shed == 0


def test_with_it_what_is_worth_nothing_is_refused_by_number_and_counted():
    run = overloaded(sheds_load=True)
    results = [run.result(f"r{n}") for n in range(40)]
    shed = [result for result in results if result.error_code is ErrorCode.LOAD_SHED]
    served = [result for result in results if result.error_code is ErrorCode.NONE]
    assert shed
    assert served
    assert len(shed) + len(served) == 40
    assert run.loop.status.num_shed == len(shed)
    assert all("scheduler.sheds_load" in result.error_msg and "send" in result.error_msg for result in shed)
    assert all(result.metrics.num_output_tokens == 0 and not result.segments for result in shed)
    assert run.loop.status.num_goals == 0


def test_a_goal_whose_budget_was_admitted_is_never_shed():
    """It waits for memory, without a slot, until the one before it is done."""
    run = BudgetRun(policy="tardiness", max_num_seqs=2, can_evict=False, num_kv_blocks=300, sheds_load=True)
    run.backend.plans["huge"] = "x(1);" * 3000
    run.submit("huge", "huge" + " see" * 1500, max_tokens=200, time_budget_s=60.0, **WHOLE)
    run.submit("other0").submit("other1").go(until_s=0.5)
    admitted = []
    run.loop.tell_admissions(lambda goal: admitted.append(goal.request.request_id))
    run.submit("late", "go" + " see" * 3000, time_budget_s=60.0, overrun=OverrunStrategy.KILL).go()
    assert admitted == ["late"]
    assert run.result("late").error_code is ErrorCode.NONE
