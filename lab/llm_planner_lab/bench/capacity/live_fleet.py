# SPDX-License-Identifier: Apache-2.0
"""Fleets in real time on the planner itself: whether it serves as many robots as the curves of its profile claim."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from llm_planner.core.config import PlannerConfig, SchedulerConfig
from llm_planner.prediction.capacity.demand import Fleet
from llm_planner_lab.bench.live import run_live
from llm_planner_lab.bench.survey import survey
from llm_planner_lab.bench.timely.benchmark import Lab
from llm_planner_lab.simulation.capacity.fleet import fleet_trace
from llm_planner_lab.simulation.capacity.saturation import Requests, describe
from llm_planner_lab.simulation.records import RequestRecord


def served_live(planner: PlannerConfig, seed: int, duration_s: float, lab: Lab) -> Requests:
    """Returns what a planner makes of fleets: same instructions, its own plans, emulated robots.

    What its model cannot plan is left out, as in every live run.

    Args:
        planner: Policy and batch limit are those of the curves.
        seed: Of the fleets' requests.
        duration_s: Of each fleet.
        lab: Robots and progress.
    """

    def requests(fleet: Fleet, limits: SchedulerConfig) -> Sequence[RequestRecord]:
        name = describe(fleet)
        trace = fleet_trace(fleet, seed, duration_s, lab.robots)
        found = survey(trace, planner, lab.robots, partial(lab.on_progress, f"{name}: plans"))
        scheduler = replace(planner.scheduler, policy=limits.policy, max_num_seqs=limits.max_num_seqs)
        config = replace(planner, scheduler=scheduler)
        record = run_live(
            found.trace, found.bounds_s, config, lambda now_s: lab.on_progress(name, min(1.0, now_s / duration_s))
        ).record
        return record.requests

    return requests
