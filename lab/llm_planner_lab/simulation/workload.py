# SPDX-License-Identifier: Apache-2.0
"""Composes traces: Poisson events, each with up to Max TPE tasks at once (TimelyLLM, section 6 and Table 3)."""

import math
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import Urgency
from llm_planner.language.parser import parse
from llm_planner.language.prose import ProseUnit, reading_time, split_prose
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.simulation.execution import sample_duration_s
from llm_planner_lab.simulation.tasks import TASKS, Task
from llm_planner_lab.simulation.trace import ChatSegments, Trace, TraceRequest

STATIC_TOKENS = 1070
"""Tokens of a prompt that belong to the robot model: the prompt of TimelyLLM, section 4.1, has 1,170 in all."""
DYNAMIC_TOKENS = (80, 120)
"""Least and most tokens that belong to one request (scene and task)."""
CHAT_TOKENS = (100, 140)
"""Of a chat's prompt, which has no part that is shared: who speaks, the scene, the question."""
PLANNING_S = 2.0
"""How long the composer takes planning to last when it looks for a robot that is free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSpec:
    """What a workload is composed of.

    The gaps between events are exponential with mean ``1 / events_per_s`` (a Poisson process: nothing is cut off). An
    event starts ``n`` tasks at once, ``n`` uniform in ``1 ... max_tasks_per_event``: ``(max + 1) / 2`` on average. Each
    task is drawn uniformly from ``tasks`` and given to a robot that is free; if all are busy, it is left out.

    Attributes:
        num_robots: Agent number of Table 3.
        duration_s: Length of the period in which events happen.
        chat_segments: What chats are answered in.
    """

    name: str
    events_per_s: float
    max_tasks_per_event: int
    tasks: tuple[int, ...]
    num_robots: int
    duration_s: float
    chat_segments: ChatSegments = "sentence"

    def __post_init__(self) -> None:
        unknown = sorted(set(self.tasks) - set(TASKS))
        if unknown or not self.tasks:
            raise PlannerError(ErrorCode.INVALID_CONFIG, f"tasks {unknown} are unknown; known are 1 to {len(TASKS)}")
        sizes = (self.events_per_s, self.max_tasks_per_event, self.num_robots, self.duration_s)
        if not all(0 < size < float("inf") for size in sizes):
            raise PlannerError(ErrorCode.INVALID_CONFIG, f"a workload needs positive finite numbers; got {self}")

    def scaled(self, load: float) -> "WorkloadSpec":
        """Returns the same mix with ``load`` times the events, and as many more robots to take them.

        Raises:
            PlannerError: INVALID_CONFIG for a load that is no positive number.
        """
        if not 0 < load < math.inf:
            raise PlannerError(ErrorCode.INVALID_CONFIG, f"a load is a positive finite number, not {load}")
        num_robots = max(1, round(self.num_robots * load))
        return replace(self, events_per_s=self.events_per_s * load, num_robots=num_robots)


WORKLOADS = {
    spec.name: spec
    for spec in (
        WorkloadSpec(
            name="wid1",
            events_per_s=0.25,
            max_tasks_per_event=8,
            tasks=tuple(range(1, 9)),
            num_robots=25,
            duration_s=260.0,
        ),
        WorkloadSpec(
            name="wid2",
            events_per_s=0.25,
            max_tasks_per_event=16,
            tasks=tuple(range(1, 9)),
            num_robots=42,
            duration_s=300.0,
        ),
        WorkloadSpec(
            name="wid3",
            events_per_s=0.1,
            max_tasks_per_event=8,
            tasks=(9, 10, 11),
            num_robots=40,
            duration_s=900.0,
        ),
        WorkloadSpec(
            name="chat", events_per_s=0.1, max_tasks_per_event=8, tasks=(12,), num_robots=80, duration_s=300.0
        ),
    )
}
"""The workloads of Table 3, and one of chats, whose load the paper does not say."""


def workload(name: str) -> WorkloadSpec:
    """Returns a preset: a workload of Table 3, or chats.

    Raises:
        PlannerError: INVALID_CONFIG, naming the presets.
    """
    if name not in WORKLOADS:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"no workload {name!r}; known are {', '.join(WORKLOADS)}, or the path of a trace file",
        )
    return WORKLOADS[name]


def compose(spec: WorkloadSpec, seed: int, robots: RobotLibrary) -> Trace:
    """Returns a trace of ``spec``; the same seed gives the same trace."""
    arrivals, content = random.Random(f"{spec.name}/{seed}/arrivals"), random.Random(f"{spec.name}/{seed}/content")
    free_at_s = [0.0] * spec.num_robots
    requests: list[TraceRequest] = []
    num_left_out = 0
    now_s = arrivals.expovariate(spec.events_per_s)
    while now_s < spec.duration_s:
        for _ in range(arrivals.randint(1, spec.max_tasks_per_event)):
            task = TASKS[arrivals.choice(spec.tasks)]
            free = [index for index, free_s in enumerate(free_at_s) if free_s <= now_s]
            if not free:
                num_left_out += 1
                continue
            index = arrivals.choice(free)
            request = _request(task, now_s, len(requests), f"robot_{index}", content, robots, spec.chat_segments)
            free_at_s[index] = now_s + PLANNING_S + sum(request.durations_s)
            requests.append(request)
        now_s += arrivals.expovariate(spec.events_per_s)
    about = {**asdict(spec), "seed": seed, "num_left_out": num_left_out}
    return Trace(name=spec.name, duration_s=spec.duration_s, requests=tuple(requests), about=about)


def _request(
    task: Task,
    time_s: float,
    number: int,
    robot_id: str,
    rng: random.Random,
    robots: RobotLibrary,
    chat_segments: ChatSegments,
) -> TraceRequest:
    variant = rng.choice(task.variants)
    is_chat = task.urgency is Urgency.CHAT
    num_dynamic_tokens = rng.randint(*(CHAT_TOKENS if is_chat else DYNAMIC_TOKENS))
    if is_chat:
        durations_s = tuple(reading_time(text).p50_s for text in split_prose(variant.plan, ProseUnit(chat_segments)))
    else:
        model = robots.get(task.robot_model)
        durations_s = tuple(sample_duration_s(model, statement, rng) for statement in parse(variant.plan))
    return TraceRequest(
        time_s=time_s,
        request_id=f"r{number:05d}",
        robot_id=robot_id,
        robot_model=task.robot_model,
        task=task.number,
        urgency=_URGENCY_NAMES[task.urgency],
        time_utility=task.urgency.time_utility,
        instruction=variant.instruction,
        scene=variant.scene,
        plan=variant.plan,
        num_static_tokens=0 if is_chat else STATIC_TOKENS,
        num_dynamic_tokens=num_dynamic_tokens,
        durations_s=durations_s,
        chat_segments=chat_segments,
    )


_URGENCY_NAMES: Mapping[Urgency, Literal["normal", "urgent", "chat"]] = {
    Urgency.NORMAL: "normal",
    Urgency.URGENT: "urgent",
    Urgency.CHAT: "chat",
}
