# SPDX-License-Identifier: Apache-2.0
"""Plans that are closed in the midst of a condition: what the robot gets, what the result says, and the rest."""

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import BudgetScope, OverrunStrategy
from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.planning.session import Progress
from llm_planner.serving.events import PlanComplete, SegmentReady
from tests.language.test_closing import leaves
from tests.serving.budget_run import WHOLE
from tests.serving.budget_run import Run as BudgetRun
from tests.serving.test_deadlines import Run, partial

CONDITION = "a(1);?iv(x)==True{" + "".join(f"b({i});" for i in range(20)) + "}c(1);"
POLICIES = ["fcfs", "fcfs_stream", "fcfs_segment"]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_whole_statements_of_a_condition_are_delivered(policy):
    run = Run(plans={"go": CONDITION}, policy=policy)
    run.submit(**partial(0.3))
    result = run.go().result()
    assert result.error_code is ErrorCode.PLAN_PARTIAL
    assert [s.index for s in result.segments] == [0, 1]
    assert result.segments[1].text.startswith("?iv(x)==True{b(0);")
    assert result.segments[1].text.endswith(");}")
    assert result.metrics.measures[-1] == "graceful_truncation"
    assert "within the condition of segment 1" in result.error_msg
    assert run.of(PlanComplete)[0][1] == PlanComplete("r1", 2, is_partial=True)
    assert all(t <= 0.3 for t, _ in run.of(SegmentReady))


def test_a_plan_that_cannot_be_closed_ends_its_goal_alone():
    run = Run(plans={"go": CONDITION})
    run.submit(**partial(0.3))
    run.submit("r2", "go")
    run.loop._goals["r1"].session.close = lambda: 1 / 0
    run.go()
    assert run.result("r1").error_code is ErrorCode.ENGINE_FAILED
    assert run.result("r2").error_code is ErrorCode.NONE


def test_so_it_is_under_a_token_cap():
    run = BudgetRun(policy="fcfs_stream")
    run.backend.plans["go"] = CONDITION
    run.submit(time_budget_s=0.25, **WHOLE).go()
    result = run.result()
    assert result.error_code is ErrorCode.PLAN_PARTIAL
    assert result.metrics.measures[-2:] == ("token_cap", "graceful_truncation")
    assert len(result.segments) == 2


def test_who_has_whole_statements_of_a_condition_is_not_given_up():
    run = BudgetRun(policy="fcfs_stream")
    run.backend.plans["go"] = CONDITION.removeprefix("a(1);")
    run.submit(time_budget_s=0.25, **WHOLE).go()
    assert run.result().error_code is ErrorCode.PLAN_PARTIAL
    assert run.result().plan.startswith("?iv(x)==True{b(0);")


def test_a_loop_is_whole_or_left_out():
    run = Run(plans={"go": CONDITION.replace("?iv(x)==True", "20")})
    run.submit(**partial(0.3))
    result = run.go().result()
    assert (result.plan, result.error_code) == ("a(1);", ErrorCode.PLAN_PARTIAL)
    assert "graceful_truncation" not in result.metrics.measures
    assert "condition" not in result.error_msg


def test_a_first_segment_is_never_cut():
    run = Run(plans={"go": CONDITION.removeprefix("a(1);")})
    run.submit(**partial(0.3, BudgetScope.FIRST_SEGMENT))
    assert (run.go().result().error_code, run.result().segments) == (ErrorCode.BUDGET_EXCEEDED, ())


def test_skip_next_waits_for_the_whole():
    run = Run(plans={"go": CONDITION})
    run.submit(time_budget_s=0.3, overrun=OverrunStrategy.SKIP_NEXT, budget_scope=BudgetScope.WHOLE_PLAN)
    assert (run.go().result().plan, run.result().error_code) == (CONDITION, ErrorCode.NONE)


statement = st.sampled_from(["a(1);", "_1=b(x);", "2{a(1);c(2);}", "l('a;b}');"])
block = st.recursive(
    statement,
    lambda inner: st.lists(inner | inner.map("?iv(x){{{}}}".format), min_size=1, max_size=4).map("".join),
    max_leaves=8,
)


def deliver(plan, strategy, budget_s, jitter, policy):
    run = Run(plans={"go": plan}, policy=policy, jitter=jitter)
    run.submit(time_budget_s=budget_s, overrun=strategy, budget_scope=BudgetScope.WHOLE_PLAN)
    return run.go().result()


@settings(max_examples=200, deadline=None)
@given(
    plan=block,
    strategy=st.sampled_from(OverrunStrategy),
    budget_s=st.floats(0.02, 1.5),
    jitter=st.floats(0, 0.5),
    policy=st.sampled_from(POLICIES),
)
def test_a_plan_that_fits_is_never_another_and_one_that_does_not_is_no_shorter(
    plan, strategy, budget_s, jitter, policy
):
    truncated = deliver(plan, strategy, budget_s, jitter, policy)
    with patch("llm_planner.serving.goal.Goal.truncate", lambda _: Progress()):
        late = deliver(plan, strategy, budget_s, jitter, policy)
    if late.error_code is ErrorCode.NONE:
        assert (truncated.error_code, truncated.plan) == (ErrorCode.NONE, to_text(parse(plan)))
        assert "graceful_truncation" not in truncated.metrics.measures
    before, now, whole = leaves(parse(late.plan)), leaves(parse(truncated.plan)), leaves(parse(plan))
    assert now[: len(before)] == before
    assert whole[: len(now)] == now
    assert ("graceful_truncation" in truncated.metrics.measures) == (len(now) > len(before))
