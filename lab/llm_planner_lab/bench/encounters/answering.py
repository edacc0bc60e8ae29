# SPDX-License-Identifier: Apache-2.0
"""The planner in an encounter: the real loop with the real model, in the encounter's virtual time.

Scheduler, grammar, safety gate and model are those that serve robots. A step takes what the engine's profile says, not
what this machine needs for it, so that the same seed gives the same encounter everywhere.
"""

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from enum import Enum

from llm_planner.assembly import build_loop
from llm_planner.core.config import PlannerConfig
from llm_planner.core.interfaces import Backend
from llm_planner.core.request import PlanRequest
from llm_planner.core.segment import SegmentReport
from llm_planner.core.step import SchedulerOutput, StepOutput
from llm_planner.prediction.profile import Chunk, EngineProfile
from llm_planner.serving.events import Event
from llm_planner.serving.loop import PlannerLoop
from llm_planner_lab.bench.step_log import WatchedBackend
from llm_planner_lab.simulation.profiled_steps import ProfiledSteps

STALL_S = 3.0
TURN_S = 1e-4  # of a turn of the loop in which nothing ran


class Planner(Enum):
    """How the planner is when it is asked for help."""

    IN_TIME = "in time"
    ALONE = "no reflex"  # in time; what the answer is worth by itself
    LATE = "late"  # the engine hangs in the first step of the answer, for longer than any client waits
    DEAD = "dead"  # no process receives the question
    NEITHER = "neither"  # neither planner nor reflex: what would have happened


class ProfiledBackend(WatchedBackend):
    """Runs steps on another backend; they take what a profile says, and what the planner does around them.

    Args:
        backend: Does the work.
        profile: Of an engine that does the same.

    Attributes:
        steps: How long the engine's take.
    """

    def __init__(self, backend: Backend, profile: EngineProfile) -> None:
        super().__init__(backend)
        self._profile = profile
        self._kv_tokens: dict[str, int] = {}
        self.steps = ProfiledSteps(profile)
        self.stall_s = 0.0  # that the next step takes longer
        self.last_s = 0.0  # that the last step took

    def execute(self, scheduled: SchedulerOutput) -> StepOutput:
        """Runs one step, and says how long it would have taken."""
        for name in scheduled.release:
            self._kv_tokens.pop(name, None)
        for sequence in scheduled.new:
            self._kv_tokens[sequence.request_id] = sequence.num_cached_tokens
        ran = scheduled.num_scheduled_tokens
        chunks = [Chunk(count, self._kv_tokens.get(name, 0)) for name, count in ran.items()]
        for name, count in ran.items():
            self._kv_tokens[name] = self._kv_tokens.get(name, 0) + count
        output = super().execute(scheduled)
        host, cold = self._profile.host, self.steps.cold
        duration_s = self.steps.run(chunks) + host.around_step_s(len(chunks)) + self.stall_s
        for sequence in scheduled.new:
            duration_s += host.preparation_s(len(sequence.prompt_token_ids)) + host.prediction_s.value
            duration_s += host.idle_s.value * cold
        self.stall_s, self.last_s = 0.0, duration_s
        return replace(output, duration_s=duration_s)


class Answering:
    """A planner that is asked by one robot after the other, each in a virtual time of its own.

    Args:
        config: Of the planner.
        profile: How long its steps take.
        latency_s: Of the network, one way.
    """

    def __init__(self, config: PlannerConfig, profile: EngineProfile, latency_s: float) -> None:
        self._profile, self._latency_s = profile, latency_s
        self._backends: list[ProfiledBackend] = []
        self._loop: PlannerLoop = build_loop(config, watch=self._watch)
        self._time_s = self._stepped_s = 0.0  # of the loop: it never runs backwards
        self._offset_s = 0.0
        self._arriving: list[tuple[float, int, Callable[[float], list[Event]]]] = []
        self._leaving: list[tuple[float, int, Event]] = []
        self._order = itertools.count()

    def begin(self) -> None:
        """Starts a new encounter, at time 0; the planner is idle."""
        for request_id in tuple(self._loop.request_ids):
            self._loop.cancel(request_id)
        self._arriving.clear()
        self._leaving.clear()
        self._offset_s = self._time_s + 1.0
        self._run(self._offset_s)

    def ask(self, request: PlanRequest, now_s: float, planner: Planner) -> None:
        """Sends a request."""
        if planner is Planner.DEAD:
            return

        def submit(at_s: float) -> list[Event]:
            if planner is Planner.LATE:
                self._backends[-1].stall_s = STALL_S
            return self._loop.submit(request, at_s)

        self._arrive(now_s, submit)

    def report(self, report: SegmentReport, now_s: float) -> None:
        """Sends a robot's word on a segment."""
        self._arrive(now_s, lambda at_s: self._loop.report(report, at_s))

    def _arrive(self, now_s: float, call: Callable[[float], list[Event]]) -> None:
        heapq.heappush(self._arriving, (self._offset_s + now_s + self._latency_s, next(self._order), call))

    def take(self, now_s: float) -> list[Event]:
        """Returns what reaches the robot until now."""
        self._run(self._offset_s + now_s)
        events = []
        while self._leaving and self._leaving[0][0] <= self._offset_s + now_s:
            events.append(heapq.heappop(self._leaving)[2])
        return events

    def close(self) -> None:
        """Frees the engine."""
        self._loop.close()

    def _run(self, until_s: float) -> None:
        """Runs the loop until a time; a step that begins before may end after it."""
        while self._time_s <= until_s:
            arrives_s = max(self._time_s, self._arriving[0][0]) if self._arriving else math.inf
            wakeup_s = self._loop.next_wakeup_s(self._time_s)
            turn_s = math.inf if wakeup_s is None else wakeup_s
            if min(arrives_s, turn_s) > until_s:
                self._time_s = until_s
                return
            self._time_s = max(self._time_s, min(arrives_s, turn_s))
            if arrives_s <= turn_s:
                self._send(heapq.heappop(self._arriving)[2](self._time_s))
            else:
                self._step()

    def _step(self) -> None:
        backend = self._backends[-1]
        backend.last_s = 0.0
        backend.steps.idle(self._time_s - self._stepped_s)
        events = self._loop.step(self._time_s)
        self._time_s = self._stepped_s = self._time_s + max(backend.last_s, TURN_S)
        self._send(events)

    def _send(self, events: list[Event]) -> None:
        for event in events:
            heapq.heappush(self._leaving, (self._time_s + self._latency_s, next(self._order), event))

    def _watch(self, backend: Backend) -> Backend:
        self._backends.append(ProfiledBackend(backend, self._profile))
        return self._backends[-1]
