# SPDX-License-Identifier: Apache-2.0
"""When a plan's length is waited for: only where it matters before the prefill. In virtual time."""

from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import BudgetScope
from llm_planner.prediction.length import LengthDistribution
from llm_planner.serving.awaited_length import AwaitedLength
from llm_planner.serving.expected_lengths import ExpectedLengths
from tests.serving.budget_run import LONG, WHOLE, EvictablePreparer, Run
from tests.serving.builders import make_request

SCENE = "go " + "and see the cup " * 200


@dataclass
class LatePrediction:
    """Predictions that take for ever unless a caller waits; then they say 7 tokens."""

    futures: list[Future] = field(default_factory=list)
    num_waited: int = 0

    def prediction(self):
        self.futures.append(Future())
        return AwaitedLength(self._predict, self.futures[-1])

    def _predict(self):
        self.num_waited += 1
        return self.seven

    @property
    def seven(self):
        return LengthDistribution.from_buckets([0.0] * 6 + [1.0], 1)


def make_run(policy="fcfs_stream", **settings):
    run, late = Run(policy=policy, **settings), LatePrediction()

    class Predicting(EvictablePreparer):
        def prepare(self, request):
            return replace(super().prepare(request), length=late.prediction())

    run.loop._preparer = Predicting(run.backend)
    return run, late


@pytest.mark.parametrize("fields", [{}, {"time_budget_s": 0.6}, {"time_budget_s": 10.0, **WHOLE}])
def test_no_request_waits_for_a_prediction_that_changes_nothing(fields):
    """Without a budget, for a first segment, and where even a plan of five times the usual length fits."""
    run, late = make_run()
    result = run.submit(instruction=SCENE, **fields).go().result()
    assert result.error_code is ErrorCode.NONE
    assert late.num_waited == 0
    assert result.metrics.predicted_output_tokens is None


def test_a_prediction_that_is_no_longer_needed_is_cancelled():
    run, late = make_run()
    run.loop.warm_up([make_request("warm-up", SCENE)])
    run.submit(instruction=SCENE).go().result()
    assert len(late.futures) == 2
    assert all(future.cancelled() for future in late.futures)
    assert late.num_waited == 0


@pytest.mark.parametrize("policy", ["fcfs", "fcfs_stream"])
def test_where_a_plan_would_be_harmed_or_refused_the_prediction_is_waited_for(policy):
    """Without it, 40 tokens are expected: a plan of 1.2 s would be capped, and one of 0.55 s refused."""
    run, late = make_run(policy)
    result = run.submit(instruction=SCENE, time_budget_s=1.2, **WHOLE).go().result()
    assert (result.error_code, result.metrics.measures) == (ErrorCode.NONE, ())
    assert (late.num_waited, result.metrics.predicted_output_tokens) == (1, 7)
    assert result.metrics.plan_time_s <= result.metrics.wcet_s <= 1.2


def test_what_comes_in_the_middle_counts_from_then_on():
    run, late = make_run()
    run.submit("a", "long", time_budget_s=10.0, **WHOLE).go(2)
    goal = run.loop._goals["a"]
    assert (goal.length, goal.wcet_s, goal.generation.output_interval) == (None, None, None)
    late.futures[0].set_result(LengthDistribution.from_buckets([0.0] * 33 + [1.0], 1))
    run.go(1)
    assert goal.generation.output_interval == (34, 34)
    result = run.go().result("a")
    assert (result.plan, result.metrics.predicted_output_tokens) == (LONG, 34)
    assert result.metrics.plan_time_s == pytest.approx(result.metrics.predicted_time_s, rel=0.2)
    assert result.metrics.plan_time_s <= result.metrics.wcet_s


def test_a_first_segment_under_a_policy_that_delivers_whole_plans_is_a_whole_plan():
    run, late = make_run("fcfs")
    run.submit(instruction=SCENE, time_budget_s=1.2).go()
    assert late.num_waited == 1


@pytest.mark.parametrize("num_done", [0, 3, 6])
def test_the_end_token_of_a_plan_takes_a_step_too(num_done):
    goal = SimpleNamespace(
        generation=SimpleNamespace(num_output_tokens=num_done), length=LatePrediction().seven, request=make_request()
    )
    plan = ExpectedLengths().remaining(goal, BudgetScope.WHOLE_PLAN)
    assert (plan.lower, plan.expected, plan.upper) == (8 - num_done, 8 - num_done, 8 - num_done)
