# SPDX-License-Identifier: Apache-2.0
"""Jobs with budgets in virtual time, in front of scripted plans: what each strategy does to the next job."""

import pytest

from llm_planner.core.config import PlannerConfig, SchedulerConfig
from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import BudgetScope, OverrunStrategy
from llm_planner.prediction.profile import find_profile
from llm_planner.serving.admission import Admission
from llm_planner.serving.fake import FakeBackend, FakeTiming
from llm_planner_lab.bench.timebill.approaches import fixed
from llm_planner_lab.bench.timebill.drive import Arrival, make_driver, periodic
from tests.serving.builders import StubPreparer, make_request

SHORT, LONG = "a(1);b(2);", "x(1);" * 20  # 4 and 34 tokens, 10 ms each
BUDGET_S = 0.1


def make_driver_of(alpha_index=0):
    timing = FakeTiming(step_s=0.01, prompt_token_s=0.0, decode_s=0.0)
    backend = FakeBackend(plans={"go": SHORT, "long": LONG}, timing=timing)
    scheduler = SchedulerConfig(max_num_seqs=1, network_latency_s=0.0)
    admission = Admission(PlannerConfig(), ["tello"])
    profile = find_profile("llama3-8b-rtx4090")
    return make_driver(backend, StubPreparer(backend), fixed()[alpha_index], profile, admission, scheduler)


def run(instructions, overrun, prepare_s=0.0):
    driver = make_driver_of()
    driver.warm_up(make_request("w", "go", robot_id="robot"))
    start_s = driver.now_s
    requests = [
        make_request(
            f"r{number}",
            instruction,
            robot_id="robot",
            time_budget_s=BUDGET_S,
            budget_scope=BudgetScope.WHOLE_PLAN,
            overrun=overrun,
        )
        for number, instruction in enumerate(instructions)
    ]
    answers = driver.run(periodic([(request, prepare_s) for request in requests], start_s))
    return [answers[request.request_id] for request in requests]


def codes(answers):
    return [answer.result.error_code for answer in answers]


@pytest.mark.parametrize("overrun", OverrunStrategy)
def test_what_is_short_is_complete_in_time(overrun):
    answers = run(["go", "go", "go"], overrun)
    assert codes(answers) == [ErrorCode.NONE] * 3
    assert all(0 < answer.ended_s - answer.arrival_s <= BUDGET_S for answer in answers)
    assert [answer.result.plan for answer in answers] == [SHORT] * 3


def test_killed_at_the_end_of_its_budget_and_the_next_one_is_served():
    long, short = run(["long", "go"], OverrunStrategy.KILL)
    assert codes([long, short]) == [ErrorCode.BUDGET_EXCEEDED, ErrorCode.NONE]
    assert BUDGET_S <= long.ended_s - long.arrival_s < BUDGET_S + 0.02
    assert not long.is_skipped


def test_while_one_overruns_the_next_ones_are_skipped():
    long, *skipped, last = run(["long", "go", "go", "go", "go"], OverrunStrategy.SKIP_NEXT)
    assert long.result.error_code is ErrorCode.NONE
    assert long.result.plan == LONG
    assert 0.3 < long.ended_s - long.arrival_s < 0.4
    assert [answer.is_skipped for answer in skipped] == [True] * 3
    assert last.result.plan == SHORT


def test_a_plan_that_is_closed_is_in_time():
    long, short = run(["long", "go"], OverrunStrategy.PARTIAL)
    assert codes([long, short]) == [ErrorCode.PLAN_PARTIAL, ErrorCode.NONE]
    assert long.ended_s - long.arrival_s <= BUDGET_S
    assert long.result.plan
    assert LONG.startswith(long.result.plan)


def test_preparing_takes_time_of_the_budget():
    (answer,) = run(["go"], OverrunStrategy.KILL, prepare_s=0.05)
    assert answer.ended_s - answer.arrival_s == pytest.approx(0.05 + 0.01 * len(SHORT) / 2, abs=0.02)
    (late,) = run(["go"], OverrunStrategy.KILL, prepare_s=0.09)
    assert late.result.error_code is ErrorCode.BUDGET_EXCEEDED


def test_robots_that_ask_at_the_same_moment_are_served_one_after_the_other():
    driver = make_driver_of()
    answers = driver.run([Arrival(make_request(f"r{n}", "go", robot_id=f"robot{n}"), 0.0, 0.0) for n in range(3)])
    ends_s = [answers[f"r{n}"].ended_s for n in range(3)]
    assert ends_s == sorted(ends_s)
    assert len(set(ends_s)) == 3
