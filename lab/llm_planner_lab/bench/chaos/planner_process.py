# SPDX-License-Identifier: Apache-2.0
"""The planner node of a campaign: the product's, with a journal of what its gate admits and what leaves the node."""

import os
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from llm_planner.assembly import build_admission, build_loop
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.config import PlannerConfig
from llm_planner.core.pose import Pose
from llm_planner.core.request import PlanRequest
from llm_planner.core.skill import SkillCall
from llm_planner.language.printer import to_text
from llm_planner.language.syntax import Part
from llm_planner.planning.safety.gate import Mark
from llm_planner.planning.session import Gate, PlanSession
from llm_planner.robots.model import RobotModel
from llm_planner.ros import process
from llm_planner.ros.plan_action import PlanAction
from llm_planner.ros.planner_node import PlannerNode
from llm_planner.serving.child import ChildServer
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.plan_preparer import PlanPreparer
from llm_planner.serving.replica import Factories
from llm_planner_lab.bench.chaos import messages
from llm_planner_lab.bench.chaos.calls import words
from llm_planner_lab.bench.chaos.journal import Journal
from llm_planner_lab.bench.chaos.patching import put, take


class JournaledGate:
    """The safety gate of one goal; notes what it admits, before it leaves the gate."""

    def __init__(self, gate: Gate, goal: str, journal: Journal) -> None:
        self._gate, self._goal, self._journal = gate, goal, journal

    @property
    def mark(self) -> Mark:
        """Where it stands now."""
        return self._gate.mark

    def restart(self, mark: Mark, pose: Pose | None, *, is_whole: bool) -> None:
        """Goes on from where the robot is."""
        self._gate.restart(mark, pose, is_whole=is_whole)

    def admit(self, part: Part) -> tuple[SkillCall, ...]:
        """Returns what the gate returns; raises what it raises."""
        calls = self._gate.admit(part)
        self._journal.note("admitted", goal=self._goal, text=to_text(part), calls=list(map(words, calls)))
        return calls


def build_journaled_loop(config: PlannerConfig) -> PlannerLoop:
    """Returns the loop of an engine process, whose gates keep a journal."""
    journal = Journal.of("engine")
    new_session = take(PlanPreparer, "_session")

    def journaled(preparer: PlanPreparer, model: RobotModel, request: PlanRequest, *rest: Any, **options: Any) -> Any:
        session: PlanSession = new_session(preparer, model, request, *rest, **options)
        session._gate = JournaledGate(session._gate, request.request_id, journal)  # noqa: SLF001
        return session

    loop = build_loop(config)
    put(PlanPreparer, "_session", journaled)  # the rehearsals before are goals of no robot
    journal.note("ready", load_s=age_s())
    return loop


def age_s() -> float:
    """Returns for how long this process has existed."""
    ticks = int(Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def build_server(config: PlannerConfig, book: GoalBook) -> ChildServer:
    """Returns the product's server around ``build_journaled_loop``."""
    loop = partial(build_journaled_loop, config)
    book.admission = build_admission(config)
    return ChildServer([Factories(loop)], book=book, clock=MonotonicClock())


class JournaledAction(PlanAction):
    """The planner's action, with the event log of its goals in the journal too."""

    journal: Journal

    def _log(self, line: Mapping[str, Any]) -> None:
        self.journal.note("event", event=line)
        super()._log(line)


def main() -> int:
    """Runs the planner node; returns the exit status."""
    from llm_planner.ros import planner_node

    JournaledAction.journal = Journal.of("planner")
    put(planner_node, "PlanAction", JournaledAction)
    messages.install(JournaledAction.journal, "planner")
    return process.run(lambda: PlannerNode(build_server))


if __name__ == "__main__":
    from llm_planner_lab.bench.chaos.planner_process import (
        main as run,  # what is pickled for the engine has a name there
    )

    sys.exit(run())
