# SPDX-License-Identifier: Apache-2.0
from collections import Counter
from dataclasses import replace

import pytest

from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanRequest
from llm_planner.serving.fake import FakeBackend, FakeTiming
from llm_planner_lab.bench.idle import COLD_S
from llm_planner_lab.bench.overhead import SEGMENTED, WHOLE, Stopwatch, _loop, run_overhead, table2_requests
from llm_planner_lab.reports import render
from tests.serving.builders import make_loop

PLAN = "mf(50);tc(90);mb(100);l('done');"


def generated(policy, plan=PLAN, step_s=0.004, sleep=lambda _: None):
    backend = FakeBackend(plans={"go": plan}, timing=FakeTiming(step_s=step_s, prompt_token_s=0.0, decode_s=0.0))
    watch = Stopwatch(make_loop(backend=backend, policy=policy), sleep)
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


def test_an_engine_cools_before_each_resumption_and_never_within_a_whole_plan():
    whole_s, segmented_s = [], []
    generated(WHOLE, sleep=whole_s.append)
    metrics = generated(SEGMENTED, sleep=segmented_s.append).result.metrics
    assert whole_s == []
    assert segmented_s == [COLD_S] * metrics.num_suspensions, "robots move for longer than an engine takes to cool"


def test_one_request_after_the_other_can_be_timed():
    watch = Stopwatch(make_loop({"go": PLAN}, policy=SEGMENTED), lambda _: None)
    for name in ("a", "b"):
        request = PlanRequest(request_id=name, robot_id="r", robot_model="tello", instruction="go")
        assert watch.generate(request).result.error_code is ErrorCode.NONE


def request(plan):
    return PlanRequest(request_id=plan, robot_id=plan, robot_model="tello", instruction=f"exactly: {plan}")


def test_behind_a_plan_nothing_waits():
    """Also where the loop looks whether a robot has fallen silent."""
    waits_s = []
    watch = Stopwatch(_loop(PlannerConfig(backend="fake"), WHOLE, [], Counter()), waits_s.append)
    for number in range(4):
        plan = request("?s(keys){->keys;}?s(wallets){->wallets;}->False;")
        assert watch.generate(replace(plan, request_id=str(number))).result.error_code is ErrorCode.NONE
    assert waits_s == []


def measured(tasks, num_repeats=2, sleep=lambda _: None):
    return run_overhead(PlannerConfig(backend="fake"), num_repeats, tasks, sleep=sleep)


@pytest.fixture
def known_times(monkeypatch):
    """Every plan takes these seconds in each repeat, the first of which warms up; of the processor, their square."""
    wall_s = {WHOLE: (9.0, 1.0, 1.0, 1.0), SEGMENTED: (0.1, 1.4, 1.1, 1.2)}
    generate = Stopwatch.generate

    def known(watch, request):
        found = generate(watch, request)
        policy = SEGMENTED if found.result.metrics.num_suspensions else WHOLE
        took_s = wall_s[policy][int(request.request_id.rpartition("/")[2])]
        return replace(found, wall_s=took_s, cpu_s=took_s**2)

    monkeypatch.setattr(Stopwatch, "generate", known)


@pytest.mark.usefixtures("known_times")
def test_the_document_gives_ratio_and_spread_for_all_plans_and_for_each_task():
    slept_s = []
    tasks = {"1 there": [request(PLAN), request("mf(20);mb(30);")], "2 nowhere": [request("fly(1);")]}
    document = measured(tasks, 3, slept_s.append)
    assert slept_s, "robots move before their plans are complete"
    assert (document["num_plans"], document["num_left_out"], document["num_segments"]) == (2, 1, 6)
    assert document["num_suspensions"] > 0
    assert document["num_steps"][WHOLE] == document["num_steps"][SEGMENTED] > 6
    assert document["overhead"]["wall_s"] == pytest.approx({"median": 0.2, "p10": 0.12, "p90": 0.36})
    assert document["overhead"]["cpu_s"] == pytest.approx({"median": 0.44, "p10": 0.256, "p90": 0.856})
    assert document["overhead_s"] == pytest.approx({"median": 0.4, "p10": 0.24, "p90": 0.72})
    assert document["total_s"] == pytest.approx({WHOLE: 2.0, SEGMENTED: 2.4})
    assert document["tasks"] == {"1 there": {key: document[key] for key in document["tasks"]["1 there"]}}


def test_if_no_plan_came_out_the_same_both_ways_it_says_so():
    with pytest.raises(PlannerError, match="no plan"):
        measured({"nowhere": [request("fly(1);")]})


def test_every_task_of_table_2_is_asked_for():
    tasks = table2_requests()
    assert [int(name.split()[0]) for name in tasks] == list(range(1, 12))
    assert all(tasks.values())


def test_the_page_shows_each_task_with_the_papers_figures_beside_it():
    document = measured({"3 Check the book on the cabinet": [request(PLAN)]})
    page = render("overhead", document)
    (row,) = (line for line in page.splitlines() if line.startswith("| 3 Check the book on the cabinet |"))
    assert row.endswith("| 19.9 ms, 5.6 % |")
    assert "| all | 1 |" in page
