# SPDX-License-Identifier: Apache-2.0
"""More than the engine can do: every class is still served, and the longest wait is bounded."""

from dataclasses import replace
from itertools import count

import pytest

from lab.tests.simulation.builders import PROFILE, ROBOTS, SCRIPTS, a_config, a_request, a_trace
from llm_planner.core.errors import ErrorCode
from llm_planner.scheduling.policies import policy_names
from llm_planner_lab.bench.timely.metrics import policy_metrics
from llm_planner_lab.simulation.simulator import simulate
from llm_planner_lab.simulation.workload import compose, workload

FOURFOLD = compose(workload("wid2").scaled(4.0), 0, ROBOTS)
FOURFOLD = a_trace(*(request for request in FOURFOLD.requests if request.time_s < 40.0))


@pytest.mark.parametrize("policy", policy_names())
def test_at_four_times_the_load_every_class_is_served(policy):
    run = simulate(FOURFOLD, a_config(policy), SCRIPTS)
    metrics = policy_metrics([run])
    assert {"normal", "urgent", "1", "8"} <= set(metrics)
    assert all(m["share_served"] == 1 for m in metrics.values())
    assert all(0 < m["longest_wait_s"] < 30 for m in metrics.values())
    assert 0 <= metrics["all"]["share_waited_for"] < 1
    assert metrics["all"]["longest_wait_s"] == max(m["longest_wait_s"] for m in metrics.values())


def flood(seconds, per_s):
    """One normal request, and from the beginning on more urgent ones than the engine can serve."""
    numbers = count(1)
    times_s = [i / per_s for i in range(round(seconds * per_s))]
    urgent = [
        a_request(next(numbers), urgency="urgent", plan="mb(100);mu(50);", durations_s=(1.0, 1.0), time_s=time_s)
        for time_s in times_s
    ]
    normal = a_request(0, time_s=1.0)
    return a_trace(*sorted((normal, *urgent), key=lambda request: request.time_s))


BASE = PROFILE.decode.base_s
SLOW = replace(PROFILE, decode=replace(PROFILE.decode, base_s=replace(BASE, value=10 * BASE.value)))


@pytest.mark.parametrize(("policy", "bound_s"), [("fcfs_segment", 10.0), ("edf_segment", 10.0), ("tardiness", 60.0)])
def test_normal_requests_are_served_under_a_flood_of_urgent_ones(policy, bound_s):
    """A segment takes a second here, so an urgent one costs 5 per second more: that ages away in ten seconds."""
    seconds, per_s = 150.0, 1.0
    run = simulate(flood(seconds, per_s), a_config(policy, profile=SLOW, max_num_seqs=1), SCRIPTS)
    assert run.end_s > 1.5 * seconds  # an overload indeed
    normal = next(record for record in run.requests if record.request_id == "r0")
    assert normal.error_code is ErrorCode.NONE
    assert normal.longest_wait_s < bound_s < seconds
    assert all(record.error_code is ErrorCode.NONE for record in run.requests)
