# SPDX-License-Identifier: Apache-2.0
"""A fleet as a load: which robots, what they ask for, and how many tokens that takes."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import Urgency
from llm_planner.core.time_utility import TimeUtility
from llm_planner.prediction.capacity.room import Fleet
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.simulation.capacity.queueing import Demand
from llm_planner_lab.simulation.script import ScriptLibrary
from llm_planner_lab.simulation.tasks import TASKS
from llm_planner_lab.simulation.trace import Trace
from llm_planner_lab.simulation.workload import PLANNING_S, WorkloadSpec, compose

PAUSE_S = 10.0
"""How long a robot has nothing to do between two tasks, on the mean."""
MOST_ROBOTS = 10_000
TYPICAL_S = 200.0

SAMPLE = 40
SAMPLE_S = 100.0
"""The demand of one robot is the mean over this many robots and seconds of their traces."""


def parse_fleet(text: str, robots: RobotLibrary) -> Fleet:
    """Returns the fleet of a text such as ``tello:20,indy7:4``.

    Raises:
        PlannerError: INVALID_CONFIG or UNKNOWN_ROBOT_MODEL, with what is wrong.
    """
    fleet: dict[str, int] = {}
    for part in text.split(","):
        name, _, count = part.strip().partition(":")
        if not count.isdecimal() or not 1 <= int(count) <= MOST_ROBOTS:
            raise PlannerError(
                ErrorCode.INVALID_CONFIG,
                f"robots are given as MODEL:COUNT with commas between, 1 to {MOST_ROBOTS} each; got {part.strip()!r}",
            )
        robots.get(name)
        fleet[name] = fleet.get(name, 0) + int(count)
    return fleet


def fleet_trace(fleet: Fleet, seed: int, duration_s: float, robots: RobotLibrary) -> Trace:
    """Returns what a fleet asks for: each robot does the tasks of Table 2 of TimelyLLM for its model, then pauses.

    Arrivals are a Poisson process per robot model, at the rate at which its robots become free.

    Raises:
        PlannerError: INVALID_CONFIG for a robot model without tasks.
    """
    requests, num_left_out = [], 0
    for name, count in sorted(fleet.items()):
        numbers = tuple(n for n, task in TASKS.items() if task.robot_model == name and task.urgency is not Urgency.CHAT)
        if not numbers:
            known = ", ".join(sorted({task.robot_model for task in TASKS.values()}))
            raise PlannerError(
                ErrorCode.INVALID_CONFIG, f"there are no tasks to plan for {name}; there are for {known}"
            )
        spec = WorkloadSpec(
            name=name, events_per_s=1.0, max_tasks_per_event=1, tasks=numbers, num_robots=count, duration_s=duration_s
        )
        typical = compose(replace(spec, num_robots=MOST_ROBOTS, duration_s=TYPICAL_S), seed, robots)
        busy_s = statistics.fmean(sum(request.durations_s) for request in typical.requests)
        trace = compose(replace(spec, events_per_s=count / (busy_s + PLANNING_S + PAUSE_S)), seed, robots)
        num_left_out += trace.about["num_left_out"]
        requests += [
            replace(r, request_id=f"{name}-{r.request_id}", robot_id=f"{name}-{r.robot_id}") for r in trace.requests
        ]
    requests.sort(key=lambda request: request.time_s)
    about = {"fleet": dict(fleet), "seed": seed, "num_left_out": num_left_out}
    return Trace(name="fleet", duration_s=duration_s, requests=tuple(requests), about=about)


def demands(trace: Trace, scripts: ScriptLibrary) -> Sequence[Demand]:
    """Returns what the requests of a trace demand of the engine."""
    if not trace.requests:
        raise PlannerError(ErrorCode.INVALID_CONFIG, "the fleet asks for nothing in this time; give a longer one")
    prompts: defaultdict[tuple[int, int, TimeUtility], list[int]] = defaultdict(list)
    for request in trace.requests:
        script = scripts.script(request.robot_model, request.plan, request.segment_tokens, request.start_pose)
        prompts[script.ends[0], script.num_tokens + 1, request.time_utility].append(request.num_dynamic_tokens)
    return [
        Demand(
            per_s=len(lengths) / trace.duration_s,
            num_prompt_tokens=statistics.fmean(lengths),
            first_tokens=first_tokens,
            num_tokens=num_tokens,
            time_utility=utility,
        )
        for (first_tokens, num_tokens, utility), lengths in prompts.items()
    ]
