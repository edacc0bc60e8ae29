# SPDX-License-Identifier: Apache-2.0
"""The planner of ``llm-planner bench budgets``: the real one, whose engine process keeps a journal of its turns.

Times are those of the machine's monotonic clock, which all of its processes share.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO, cast

from llm_planner.assembly import build_admission, build_loop
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.config import PlannerConfig
from llm_planner.core.interfaces import Clock
from llm_planner.engine_profile import measured_profile
from llm_planner.ros import process
from llm_planner.ros.planner_node import PlannerNode
from llm_planner.serving.child import ChildServer
from llm_planner.serving.events import Event, Finished
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.goal_record import GoalRecord
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.replica import Factories
from llm_planner.serving.server import PlanServer


@dataclass(frozen=True, slots=True)
class Turn:
    """A step of the loop, or what it did instead of one.

    Attributes:
        began_s: Before anything was decided.
        ended_s: When it was over.
        num_running: Goals that had a slot behind it.
        num_wanting: These, and those that would have taken one.
        ended: Goals that ended in it, and their codes.
        arrived: Goals that the engine got since the turn before, and when each arrived at the planner.
    """

    began_s: float
    ended_s: float
    num_running: int
    num_wanting: int
    ended: Mapping[str, int]
    arrived: Mapping[str, float]


class JournalledLoop:
    """A loop that writes a line after every step.

    Args:
        loop: Does the work.
        path: Of the journal.
    """

    def __init__(self, loop: PlannerLoop, path: Path) -> None:
        self._loop = loop
        self._arrived: dict[str, float] = {}
        self._file: TextIO = path.open("a", buffering=1, encoding="utf-8")

    def open(self, record: GoalRecord, now_s: float) -> list[Event]:
        """Begins a goal."""
        self._arrived[record.request_id] = record.arrival_s
        return self._loop.open(record, now_s)

    def step(self, now_s: float, clock: Clock | None = None) -> list[Event]:
        """Runs one step and writes it down."""
        events = self._loop.step(now_s, clock)
        ended = {event.request_id: int(event.result.error_code) for event in events if isinstance(event, Finished)}
        status = self._loop.status
        num_wanting = status.num_running + status.num_ready
        line = (now_s, time.monotonic(), status.num_running, num_wanting, ended, self._arrived)
        self._file.write(json.dumps(line) + "\n")
        self._arrived = {}
        return events

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


def read_journal(lines: Iterable[str]) -> list[Turn]:
    """Returns the turns of a journal; a last line that is not whole is left out."""
    return [Turn(*json.loads(line)) for line in lines if line.endswith("\n")]


def _build_loop(config: PlannerConfig, path: Path) -> PlannerLoop:
    loop = JournalledLoop(build_loop(config, own_profile=measured_profile), path)
    return cast("PlannerLoop", loop)  # in everything that is asked of it


def serve(arguments: Sequence[str]) -> int:
    """Runs the planner node: a journal's path, then arguments of ROS; returns the exit status."""
    path = Path(arguments[0])

    def build(config: PlannerConfig, book: GoalBook) -> PlanServer:
        book.admission = build_admission(config)
        return ChildServer([Factories(partial(_build_loop, config, path))], book=book, clock=MonotonicClock())

    return process.run(lambda: PlannerNode(build), arguments[1:])
