# SPDX-License-Identifier: Apache-2.0
"""Keeps every robot of a fleet busy, with emergencies and cancels at every moment, and notes how each goal ends."""

import functools
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rclpy.node import Node
from std_msgs.msg import Empty

import llm_planner.msg as msgs
from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.core.segment import ReportStatus, Segment
from llm_planner.ros import qos
from llm_planner.ros.bridge import Bridge
from llm_planner.ros.composition import Robot
from llm_planner.ros.plan_handle import PlanHandle
from llm_planner.ros.planner_client import PlannerClient
from llm_planner.ros.steady import steady_timer
from llm_planner.srv import Instruct
from llm_planner_lab.bench.chaos.goals import SCRIPT, Burst, Goal, sentence, tag, write_plan

TICK_S = 0.02
ANSWER_S = 5.0  # for a robot to answer; then it is asked for something else
RETRY_S = 0.5  # after a refusal
EMERGENCIES, CANCELS = 0.15, 0.07  # shares of goals to which this happens at any moment of their lives
LATEST_S = 3.0  # of these, after the robot has taken the goal


@dataclass(slots=True)
class _Desk:
    """What is going on with one robot."""

    robot: Robot
    client: Any
    stop: Any
    goals: list[Goal]
    asked: Goal | None = None  # whose answer is to come
    next_s: float = 0.0
    disturb_s: float = float("inf")
    disturbance: str = ""


class Workload:
    """Goals for robots, one after the other. Everything runs in the node's executor; the counters may be read anywhere.

    Args:
        node: Spun by the caller.
        robots: The robots that are told.
        pids: Returns the present process of a robot, 0 for none.
        seed: Of plans, emergencies and cancels.
        is_scripted: Whether the engine writes what it is told, to the letter; a model is told sentences.
    """

    def __init__(
        self, node: Node, robots: Sequence[Robot], pids: Callable[[str], int], seed: int, *, is_scripted: bool = True
    ) -> None:
        self._node, self._pids, self._seed, self._is_scripted = node, pids, seed, is_scripted
        self._rng = random.Random(f"workload {seed}")
        self._lock = threading.Lock()
        self.goals: dict[str, Goal] = {}
        self.bursts: list[Burst] = []
        self.counts: Counter[str] = Counter()
        self.is_open = False
        self.active_goal_ids: tuple[str, ...] = ()
        self.is_planner_active = False
        self._bridge = Bridge(node)
        self._burst_client = PlannerClient(node, "tello", robot_id="burst")
        self._desks = [
            _Desk(
                robot,
                node.create_client(Instruct, f"/{robot.name}/instruct"),
                node.create_publisher(Empty, f"/{robot.name}/stop", 10),
                [],
            )
            for robot in robots
        ]
        for robot in robots:
            node.create_subscription(msgs.PlanOutcome, f"/{robot.name}/outcome", self._on_outcome, qos.OUTCOMES)
        node.create_subscription(msgs.PlannerStatus, "/planner/status", self._on_status, qos.STATUS)
        steady_timer(node, TICK_S, self._tick)

    @property
    def num_ended(self) -> int:
        """Goals with an outcome, those of bursts included."""
        return self.counts["outcomes"] + sum(len(burst.codes) for burst in self.bursts)

    @property
    def num_open(self) -> int:
        """Goals that were taken and have no outcome, of processes that live."""
        goals = [goal for desk in self._desks for goal in desk.goals if self._pids(desk.robot.name) == goal.pid]
        return len(goals) + sum(burst.num_asked - len(burst.codes) for burst in self.bursts)

    def knows_robots(self) -> bool:
        """Whether every robot can be told something."""
        return all(desk.client.service_is_ready() for desk in self._desks)

    def post(self, call: Callable[[], None]) -> None:
        """Makes a call in the executor's thread."""
        self._bridge.post(call)

    def burst(self, number: int) -> None:
        """Asks for ``number`` plans at once, each for a robot of its own."""
        self.post(functools.partial(self._burst, number))

    # In the executor's thread

    def _tick(self) -> None:
        now_s = time.monotonic()
        for desk in self._desks:
            if desk.asked is not None and now_s - desk.asked.asked_s > ANSWER_S:
                desk.asked.verdict, desk.asked = "no answer", None
                self.counts["no answer"] += 1
            pid = self._pids(desk.robot.name)
            desk.goals = [goal for goal in desk.goals if goal.code is None and goal.pid == pid]
            if now_s >= desk.disturb_s and desk.goals:
                desk.disturb_s = float("inf")
                self._disturb(desk)
            elif self.is_open and not desk.goals and desk.asked is None and now_s >= desk.next_s:
                self._ask(desk, is_urgent=False)

    def _disturb(self, desk: _Desk) -> None:
        self.counts[desk.disturbance] += 1
        if desk.disturbance == "emergency":
            self._ask(desk, is_urgent=True)
        else:
            desk.stop.publish(Empty())

    def _ask(self, desk: _Desk, *, is_urgent: bool) -> None:
        name, number, now_s = desk.robot.name, len(self.goals), time.monotonic()
        if not desk.client.service_is_ready() or desk.asked is not None or not self._pids(name):
            return
        plan = write_plan(self._seed, number, desk.robot.model) if self._is_scripted else ""
        goal = Goal(
            number=number,
            robot=name,
            is_urgent=is_urgent,
            instruction=SCRIPT + plan if plan else sentence(self._seed, number, desk.robot.model),
            plan=plan,
            asked_s=now_s,
            pid=self._pids(name),
        )
        self.goals[goal.tag] = desk.asked = goal
        urgency = Urgency.URGENT if is_urgent else Urgency.NORMAL
        order = Instruct.Request(instruction=goal.instruction, urgency=urgency.value, tag=tag(number))
        desk.client.call_async(order).add_done_callback(functools.partial(self._on_answer, desk, goal))

    def _on_answer(self, desk: _Desk, goal: Goal, future: Any) -> None:
        if desk.asked is goal:
            desk.asked = None
        now_s, response = time.monotonic(), future.result()
        if response is None or not response.accepted:
            goal.verdict = f"refused {response.error_code if response else ''}"
            self.counts["refused"] += 1
            desk.next_s = now_s + RETRY_S
            return
        goal.accepted_s, goal.verdict = now_s, ""
        self.counts["accepted"] += 1
        if goal.code is None:
            desk.goals.append(goal)
        chance = self._rng.random()
        if chance < EMERGENCIES + CANCELS:
            desk.disturbance = "emergency" if chance < EMERGENCIES else "cancel"
            desk.disturb_s = now_s + self._rng.uniform(0.0, LATEST_S) * self._rng.random()

    def _on_outcome(self, outcome: msgs.PlanOutcome) -> None:
        goal = self.goals.get(outcome.tag)
        if goal is None or goal.code is not None or outcome.robot_id != goal.robot:
            return
        goal.code, goal.ended_s = int(outcome.error_code), time.monotonic()
        self.counts["outcomes"] += 1

    def _on_status(self, status: msgs.PlannerStatus) -> None:
        self.is_planner_active = status.state == msgs.PlannerStatus.ACTIVE
        self.active_goal_ids = tuple(goal.goal_id for goal in status.goals)[:50]

    def _burst(self, number: int) -> None:
        burst = Burst(time.monotonic(), num_asked=number)
        self.bursts.append(burst)
        for index in range(number):
            request = PlanRequest(
                request_id=uuid.uuid4().hex,
                robot_id=f"burst_{len(self.bursts)}_{index}",
                robot_model="tello",
                instruction=f"{SCRIPT}l('burst {index}');",
                client_id=f"burst_{index % 16}",
                urgency=Urgency.NORMAL,
            )
            _carry_out(self._burst_client, request, burst)


def _carry_out(client: PlannerClient, request: PlanRequest, burst: Burst) -> None:
    """Asks for a plan and reports each of its segments at once, as a robot does that needs no time."""
    handles: list[PlanHandle] = []

    def on_segment(segment: Segment) -> None:
        handles[0].report(segment, ReportStatus.SUCCEEDED)

    handles.append(client.ask(request, on_segment=on_segment))
    handles[0].future.add_done_callback(lambda future: burst.codes.append(int(future.result().error_code)))


def codes_of(goals: Mapping[str, Goal]) -> Counter[str]:
    """Returns how many goals ended how."""
    from llm_planner.core.errors import code_name

    return Counter(code_name(goal.code) if goal.code is not None else goal.verdict for goal in goals.values())
