# SPDX-License-Identifier: Apache-2.0
import pytest

from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanRequest
from llm_planner.serving.fake import FakeBackend, FakeTiming
from llm_planner_lab.bench.overhead import SEGMENTED, WHOLE, Stopwatch, run_overhead, table2_requests
from llm_planner_lab.reports import render
from tests.serving.builders import make_loop

PLAN = "mf(50);tc(90);mb(100);l('done');"


def generated(policy, plan=PLAN, step_s=0.004):
    backend = FakeBackend(plans={"go": plan}, timing=FakeTiming(step_s=step_s, prompt_token_s=0.0, decode_s=0.0))
    watch = Stopwatch(make_loop(backend=backend, policy=policy))
    return watch.generate(PlanRequest(request_id="r", robot_id="r", robot_model="tello", instruction="go"))


def test_the_same_plan_comes_whole_and_in_segments_with_suspensions():
    whole, segmented = generated(WHOLE), generated(SEGMENTED)
    assert whole.result.error_code is segmented.result.error_code is ErrorCode.NONE
    assert whole.result.plan == segmented.result.plan == PLAN
    assert whole.result.metrics.num_suspensions == 0
    assert segmented.result.metrics.num_suspensions >= 3
    assert segmented.wall_s > 0.0


def test_waiting_for_the_robot_does_not_count():
    segmented = generated(SEGMENTED)
    assert segmented.wall_s < segmented.result.metrics.execution_time_s / 2


def test_one_request_after_the_other_can_be_timed():
    watch = Stopwatch(make_loop({"go": PLAN}, policy=SEGMENTED))
    for name in ("a", "b"):
        request = PlanRequest(request_id=name, robot_id="r", robot_model="tello", instruction="go")
        assert watch.generate(request).result.error_code is ErrorCode.NONE


def request(plan):
    return PlanRequest(request_id=plan, robot_id=plan, robot_model="tello", instruction=f"exactly: {plan}")


def test_the_document_gives_ratio_and_spread_for_all_plans_and_for_each_task():
    tasks = {"1 there": [request(PLAN), request("mf(20);mb(30);")], "2 nowhere": [request("fly(1);")]}
    document = run_overhead(PlannerConfig(backend="fake"), 2, tasks)
    assert (document["num_plans"], document["num_left_out"], document["num_segments"]) == (2, 1, 6)
    assert document["num_suspensions"] > 0
    assert document["num_steps"][WHOLE] == document["num_steps"][SEGMENTED] > 6
    for clock in ("wall_s", "cpu_s"):
        spread = document["overhead"][clock]
        assert spread["p10"] <= spread["median"] <= spread["p90"]
    assert document["total_s"][WHOLE] == pytest.approx(document["total_s"][SEGMENTED], rel=1.0)
    assert document["tasks"] == {"1 there": {key: document[key] for key in document["tasks"]["1 there"]}}
    assert document["tasks"]["1 there"]["overhead_s"]["median"] > -document["total_s"][WHOLE]


def test_if_no_plan_came_out_the_same_both_ways_it_says_so():
    with pytest.raises(PlannerError, match="no plan"):
        run_overhead(PlannerConfig(backend="fake"), 2, {"nowhere": [request("fly(1);")]})


def test_every_task_of_table_2_is_asked_for():
    tasks = table2_requests()
    assert [int(name.split()[0]) for name in tasks] == list(range(1, 12))
    assert all(tasks.values())


def test_the_page_shows_each_task_with_the_papers_figures_beside_it():
    document = run_overhead(PlannerConfig(backend="fake"), 2, {"3 Check the book on the cabinet": [request(PLAN)]})
    page = render("overhead", document)
    (row,) = (line for line in page.splitlines() if line.startswith("| 3 Check the book on the cabinet |"))
    assert row.endswith("| 19.9 ms, 5.6 % |")
    assert "| all | 1 |" in page
