# SPDX-License-Identifier: Apache-2.0
"""A robot node of a campaign: the product's, with a journal of every call that its driver gets."""

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from llm_planner.core.request import PlanRequest
from llm_planner.core.segment import Segment, SegmentReport
from llm_planner.core.skill import SkillCall
from llm_planner.robot_connection import RobotConnection
from llm_planner.robots.driver import SkillResult, SkillStatus
from llm_planner.robots.model import Pose
from llm_planner.robots.robot_driver import RobotDriver
from llm_planner.robots.world import World
from llm_planner.ros import process, robot_node
from llm_planner.ros.plan_handle import PlanHandle
from llm_planner.ros.planner_client import PlannerClient
from llm_planner.ros.robot_control import RobotControl
from llm_planner_lab.bench.chaos import machine, messages, mutations
from llm_planner_lab.bench.chaos.calls import words
from llm_planner_lab.bench.chaos.journal import BREAK, Journal
from llm_planner_lab.bench.chaos.patching import put, take

STARVED_PERIOD_S, LEAST_STARVED_S = 0.2, 0.1  # between two looks, and what is noted: less changes nothing


class JournaledDriver:
    """A driver that notes what it is told, and when a call has ended."""

    def __init__(self, driver: RobotDriver, journal: Journal) -> None:
        self._driver, self._journal = driver, journal
        self._is_running = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def start(self, call: SkillCall, now_s: float) -> None:
        """Begins a call."""
        self._journal.note("call", call=words(call))
        self._is_running = True
        self._driver.start(call, now_s)

    def tick(self, now_s: float) -> SkillResult:
        """Returns how the call stands."""
        result = self._driver.tick(now_s)
        if self._is_running and result.status is not SkillStatus.RUNNING:
            self._is_running = False
            self._journal.note("call_ended", status=result.status.value, reason=result.reason)
        return result

    def halt(self, now_s: float) -> None:
        """Ends the call at once."""
        if self._is_running:
            self._is_running = False
            self._journal.note("call_ended", status="halted", reason="")
        self._driver.halt(now_s)


class JournaledConnection:
    """A body whose drivers keep a journal."""

    def __init__(self, connection: RobotConnection, journal: Journal) -> None:
        self._connection, self._journal = connection, journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def enter(self, world: World, pose: Pose | None, epoch_s: float, /) -> JournaledDriver:
        """Returns the driver for a world."""
        return JournaledDriver(self._connection.enter(world, pose, epoch_s), self._journal)


class JournaledControl(RobotControl):
    """A robot that notes which goal it carries out, what comes of it, and how it stands."""

    journal: Journal

    def __init__(self, *arguments: Any, report: Callable[[SegmentReport], None], **rest: Any) -> None:
        def noting(said: SegmentReport) -> None:
            self.journal.note("report", goal=said.request_id, index=said.index, status=said.status.name)
            report(said)

        self._was_active = False
        self._looked_s, self._waited_s = time.monotonic(), machine.processor_wait_s()
        super().__init__(*arguments, report=noting, **rest)

    def begin(self, goal_id: str, *, is_chat: bool = False, answer_within_s: float | None = None) -> None:
        """Starts a new goal."""
        with self._lock:
            super().begin(goal_id, is_chat=is_chat, answer_within_s=answer_within_s)
            self.journal.note("begin", goal=goal_id, is_chat=is_chat)
            self._was_active = True

    def add(self, goal_id: str, segment: Segment) -> None:
        """Takes a segment."""
        self.journal.note("received", goal=goal_id, index=segment.index, text=segment.text)
        super().add(goal_id, segment)

    def complete(self, goal_id: str, num_segments: int, *, is_partial: bool = False) -> None:
        """Notes that nothing follows."""
        self.journal.note("complete", goal=goal_id, num_segments=num_segments)
        super().complete(goal_id, num_segments, is_partial=is_partial)

    def receive(self, at_s: float) -> None:
        """Notes when the planner last showed life."""
        self.journal.note("life", received_s=at_s)
        super().receive(at_s)

    def tick(self) -> float:
        """Goes on; notes if the kernel has given this process no processor."""
        now_s = time.monotonic()
        if now_s - self._looked_s > STARVED_PERIOD_S:
            waited_s = machine.processor_wait_s()
            starved_s = min(waited_s - self._waited_s, now_s - self._looked_s)
            if starved_s > LEAST_STARVED_S:
                self.journal.note("starved", seconds=starved_s, since_s=self._looked_s)
            self._looked_s, self._waited_s = now_s, waited_s
        with self._lock:
            period_s = super().tick()
            if self._was_active and not self.is_active:
                self.journal.note("inactive", goal=self.goal_id)
            self._was_active = self.is_active
        return period_s


class JournaledClient(PlannerClient):
    """A client that notes what it asks."""

    journal: Journal

    def ask(self, request: PlanRequest, *, on_segment: Callable[[Segment], None] | None = None) -> PlanHandle:
        """Asks for a plan."""
        self.journal.note("asked", goal=request.request_id, instruction=request.instruction[:200])
        return super().ask(request, on_segment=on_segment)


def main() -> int:
    """Runs a robot node; returns the exit status."""
    name = next((a.removeprefix("__node:=") for a in sys.argv if a.startswith("__node:=")), "robot")
    journal = Journal.of(f"robot_{name}")
    connect_body = take(robot_node, "connect_body")

    def connect(*arguments: Any) -> JournaledConnection:
        return JournaledConnection(connect_body(*arguments), journal)

    JournaledControl.journal = JournaledClient.journal = journal
    put(robot_node, "connect_body", connect)
    put(robot_node, "RobotControl", JournaledControl)
    put(robot_node, "PlannerClient", JournaledClient)
    messages.install(journal, name)
    mutations.install(os.environ.get(BREAK, ""), name)
    journal.note("started")
    return process.run(robot_node.RobotNode)


if __name__ == "__main__":
    sys.exit(main())
