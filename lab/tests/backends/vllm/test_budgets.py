# SPDX-License-Identifier: Apache-2.0
"""Time budgets on vLLM, with a profile that was measured on it."""

from dataclasses import replace

import pytest

pytest.importorskip("vllm")

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import BudgetScope, OverrunStrategy
from llm_planner.prediction.execution_time import ProfiledTimes, check_fits
from llm_planner.prediction.measurement import make_profile
from llm_planner.prediction.prober import Prober
from llm_planner.prediction.whole_steps import WholeSteps
from llm_planner.robots.library import RobotLibrary
from llm_planner.scheduling.budget import Measure
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.loop import PlannerLoop
from llm_planner_lab.bench.planner_profile import measure
from tests.backends.vllm.test_loop import Timed, plans
from tests.backends.vllm.test_loop import make_run as make_loop_run
from tests.serving.builders import make_request
from tests.serving.loop_run import Run
from tests.serving.test_loop_with_engine import INSTRUCTIONS, ShortPlans


@pytest.fixture(scope="module")
def profile(running_backend):
    """Measured as ``llm-planner profile`` does it."""
    prober = Prober(WholeSteps(running_backend), num_repeats=3)
    samples = measure(prober)
    assert not running_backend._scheduler.requests
    return make_profile(samples, running_backend, "tiny", "for a test", hides_prompts=False)


def make_run(backend, profile):
    scheduler = Scheduler(
        SchedulerConfig(policy="tardiness"), make_policy("tardiness"), backend.info, ProfiledTimes(profile)
    )
    preparer = ShortPlans(backend=backend, tokenizer=backend.tokenizer, library=RobotLibrary())
    return Run(PlannerLoop(backend=Timed(backend), scheduler=scheduler, preparer=preparer))


def ask(run, name, **budget):
    run.take(run.loop.submit(make_request(name, INSTRUCTIONS[0], max_tokens=48, **budget), run.now_s))
    run.go()
    run.loop.step(run.now_s)
    return run.result(name)


def test_the_profile_fits_this_engine_and_says_how_long_things_take(backend, profile):
    check_fits(profile, backend.info)
    assert "vLLM" in profile.device
    assert profile.decode.base_s.value > 0
    assert profile.prefill.c_s.value >= 0
    assert not profile.evict.per_token_s.value


def test_a_budget_is_kept(backend, profile):
    result = ask(make_run(backend, profile), "whole_plan", time_budget_s=60.0, budget_scope=BudgetScope.WHOLE_PLAN)
    assert result.error_code in {ErrorCode.NONE, ErrorCode.PLAN_TRUNCATED}
    assert result.metrics.wcet_s is not None
    assert result.metrics.eviction_ratio == 0.0


def test_one_that_cannot_be_kept_is_refused_before_it_costs_anything(backend, profile):
    run = make_run(backend, profile)
    result = ask(run, "impossible", time_budget_s=profile.decode.base_s.value / 2, overrun=OverrunStrategy.KILL)
    assert result.error_code is ErrorCode.BUDGET_INFEASIBLE
    assert not run.loop._backend.handed_over


@pytest.mark.parametrize("budget_s", [0.2, 0.4])
def test_a_short_one_is_kept_by_a_slot_and_a_cap_in_place_of_eviction(backend, budget_s):
    run = make_loop_run(backend, "tardiness")
    plans(run)  # so that the engine's pace is known: 10 ms a step
    result = ask(
        run,
        "short",
        time_budget_s=budget_s,
        budget_scope=BudgetScope.WHOLE_PLAN,
        overrun=OverrunStrategy.PARTIAL,
    )
    assert result.metrics.measures == (Measure.RESERVED_SLOT.value, Measure.TOKEN_CAP.value)
    assert result.metrics.wcet_s <= budget_s
    # how many steps a grammar takes to be compiled is chance: the plan is closed in time, or was given up in time
    assert result.error_code in {ErrorCode.PLAN_PARTIAL, ErrorCode.BUDGET_EXCEEDED}


def test_a_profile_of_another_engine_is_refused(backend, profile):
    with pytest.raises(PlannerError, match="measure this engine") as error:
        check_fits(replace(profile, device="some GPU"), backend.info)
    assert error.value.code is ErrorCode.INVALID_CONFIG
