# SPDX-License-Identifier: Apache-2.0
"""Fleets in real time on the planner itself: whether it serves as many robots as the curves of its profile claim."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from llm_planner.core.config import PlannerConfig, SchedulerConfig
from llm_planner.prediction.capacity.room import Fleet
from llm_planner_lab.bench.capacity.own_plans import OwnPlans
from llm_planner_lab.bench.live import run_live
from llm_planner_lab.simulation.capacity.saturation import Requests, describe
from llm_planner_lab.simulation.records import RequestRecord


def served_live(
    plans: OwnPlans, planner: PlannerConfig, seed: int, duration_s: float, on_progress: Callable[[str, float], None]
) -> Requests:
    """Returns what a planner makes of fleets with emulated robots.

    Args:
        plans: What its model plans.
        planner: Policy and batch limit are those of the curves.
        seed: Of the fleets' requests.
        duration_s: Of each fleet.
        on_progress: Receives what is going on, and which share of it is done.
    """

    def requests(fleet: Fleet, limits: SchedulerConfig) -> Sequence[RequestRecord]:
        found = plans.survey(fleet, seed, duration_s)
        scheduler = replace(planner.scheduler, policy=limits.policy, max_num_seqs=limits.max_num_seqs)
        config = replace(planner, scheduler=scheduler)
        record = run_live(
            found.trace,
            found.bounds_s,
            config,
            lambda now_s: on_progress(describe(fleet), min(1.0, now_s / duration_s)),
        ).record
        return record.requests

    return requests
