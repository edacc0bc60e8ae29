# SPDX-License-Identifier: Apache-2.0
"""Builders with every argument defaulted."""

from dataclasses import replace

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.time_utility import NORMAL, URGENT
from llm_planner.prediction.profile import find_profile
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.simulation.script import ScriptLibrary
from llm_planner_lab.simulation.simulator import SimulationConfig
from llm_planner_lab.simulation.trace import Trace, TraceRequest
from llm_planner_lab.simulation.workload import WorkloadSpec, compose

ROBOTS = RobotLibrary()
SCRIPTS = ScriptLibrary(ROBOTS)
PROFILE = find_profile("llama3-8b-rtx4090")
SMALL = WorkloadSpec(
    name="small", events_per_s=0.5, max_tasks_per_event=6, tasks=tuple(range(1, 12)), num_robots=30, duration_s=20.0
)


def a_request(number=0, *, plan="mf(100);tc(90);", durations_s=(3.0, 2.0), urgency="normal", **changes):
    request = TraceRequest(
        time_s=0.0,
        request_id=f"r{number}",
        robot_id=f"robot_{number}",
        robot_model="tello",
        task=1,
        urgency=urgency,
        time_utility=URGENT if urgency == "urgent" else NORMAL,
        instruction="go",
        plan=plan,
        num_static_tokens=1070,
        num_dynamic_tokens=100,
        durations_s=durations_s,
    )
    return replace(request, **changes)


def a_trace(*requests):
    return Trace(name="test", duration_s=10.0, requests=tuple(requests or [a_request()]))


def a_config(policy="fcfs_segment", *, reuses_prefixes=True, profile=PROFILE, **scheduler):
    limits = SchedulerConfig(policy=policy, **scheduler)
    return SimulationConfig(profile=profile, scheduler=limits, reuses_prefixes=reuses_prefixes)


def a_workload(seed=0, spec=SMALL):
    return compose(spec, seed, ROBOTS)
