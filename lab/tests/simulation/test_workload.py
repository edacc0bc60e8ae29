# SPDX-License-Identifier: Apache-2.0
import statistics
from dataclasses import replace
from itertools import pairwise

import pytest

from lab.tests.simulation.builders import ROBOTS, SCRIPTS, SMALL, a_workload
from llm_planner.core.errors import PlannerError
from llm_planner.core.request import Urgency
from llm_planner_lab.simulation.script import split_tokens
from llm_planner_lab.simulation.tasks import TASKS
from llm_planner_lab.simulation.workload import WORKLOADS, compose, workload

PLANS = [number for number, task in TASKS.items() if task.urgency is not Urgency.CHAT]


@pytest.mark.parametrize("number", PLANS)
def test_every_plan_passes_parser_and_gate_and_has_variants(number):
    task = TASKS[number]
    assert len({variant.plan for variant in task.variants}) >= 3
    for variant in task.variants:
        script = SCRIPTS.script(task.robot_model, variant.plan)
        assert script.num_tokens == len(split_tokens(variant.plan))
        assert script.ends[-1] <= script.num_tokens


def test_plans_have_the_published_lengths():
    def mean_length(*numbers):
        variants = (variant for number in numbers for variant in TASKS[number].variants)
        return statistics.mean(len(split_tokens(variant.plan)) for variant in variants)

    assert mean_length(*range(1, 9)) == pytest.approx(20, abs=3)
    assert mean_length(9, 10, 11) == pytest.approx(100, abs=25)


def test_an_evasion_begins_with_its_move():
    for task in TASKS.values():
        if task.urgency is Urgency.URGENT:
            assert {SCRIPTS.script("tello", v.plan).ends[0] for v in task.variants} == {4}


def test_events_are_poisson_and_sizes_uniform():
    spec = replace(SMALL, duration_s=3000.0, num_robots=300, tasks=(7,))
    trace = compose(spec, 1, ROBOTS)
    requests = trace.requests
    assert trace.about["num_left_out"] == 0
    times_s = sorted({request.time_s for request in requests})
    gaps_s = [b - a for a, b in pairwise(times_s)]
    assert statistics.mean(gaps_s) == pytest.approx(1 / spec.events_per_s, rel=0.07)
    assert statistics.stdev(gaps_s) == pytest.approx(1 / spec.events_per_s, rel=0.1)  # exponential: equal to the mean
    assert len(requests) / len(times_s) == pytest.approx((spec.max_tasks_per_event + 1) / 2, rel=0.05)


def test_the_same_seed_gives_the_same_trace():
    assert a_workload(3) == a_workload(3)
    assert a_workload(3).requests != a_workload(4).requests


def test_a_robot_has_one_task_at_a_time():
    busy_until_s = {}
    for request in compose(workload("wid1"), 0, ROBOTS).requests:
        assert request.time_s >= busy_until_s.get(request.robot_id, 0.0)
        busy_until_s[request.robot_id] = request.time_s + sum(request.durations_s)


def test_table_3():
    sizes = {n: (s.events_per_s, s.max_tasks_per_event, s.num_robots, s.duration_s) for n, s in WORKLOADS.items()}
    sizes.pop("chat")
    assert sizes == {"wid1": (0.25, 8, 25, 260), "wid2": (0.25, 16, 42, 300), "wid3": (0.1, 8, 40, 900)}


def test_load_scales_events_and_robots():
    double = workload("wid1").scaled(2.0)
    assert (double.events_per_s, double.num_robots) == (0.5, 50)


@pytest.mark.parametrize("changes", [{"tasks": (13,)}, {"tasks": ()}, {"events_per_s": 0.0}, {"duration_s": -1.0}])
def test_an_impossible_workload_is_refused(changes):
    with pytest.raises(PlannerError):
        replace(SMALL, **changes)


def test_an_unknown_workload_lists_the_known_ones():
    with pytest.raises(PlannerError, match="wid1, wid2, wid3"):
        workload("wid9")
