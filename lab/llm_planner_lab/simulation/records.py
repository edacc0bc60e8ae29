# SPDX-License-Identifier: Apache-2.0
"""What a simulated run leaves behind: one record per request, and totals of the engine."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from llm_planner.core.errors import ErrorCode
from llm_planner.core.time_utility import TimeUtility

SAME_TIME_S = 1e-3
"""Times that differ by less are the same."""


@dataclass(frozen=True, slots=True)
class SegmentTimes:
    """One segment: when it left the planner, when the robot began and ended it, and how long it was generated."""

    delivered_s: float
    started_s: float
    ended_s: float
    generation_time_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class RequestRecord:
    """One request; W(s_k) and the response time are those of TimelyLLM, Fig. 3.

    Attributes:
        arrival_s: When the planner received it.
        segments: What the robot carried out.
        finished_s: When the planner ended it; None if it never did.
        error_code: How it ended.
        bound_s: Response time with the engine to itself.
    """

    request_id: str
    robot_id: str
    task: int
    urgency: str
    time_utility: TimeUtility
    arrival_s: float
    bound_s: float
    segments: list[SegmentTimes] = field(default_factory=list)
    finished_s: float | None = None
    error_code: ErrorCode = ErrorCode.NONE

    @property
    def response_time_s(self) -> float | None:
        """From the request's arrival at the planner to the robot's first action; None without one."""
        return self.segments[0].started_s - self.arrival_s if self.segments else None

    @property
    def waiting_time_s(self) -> float | None:
        """How long the robot stood still waiting for the planner: the sum of W(s_k); None if it never acted."""
        if not self.segments:
            return None
        idle_s, waiting_s = self.arrival_s, 0.0
        for segment in self.segments:
            waiting_s += segment.started_s - idle_s
            idle_s = segment.ended_s
        return waiting_s

    @property
    def later_waits_s(self) -> list[float]:
        """W(s_k) of every segment behind the first one: how late its generation resumed for its robot."""
        return [later.started_s - ended.ended_s for ended, later in itertools.pairwise(self.segments)]

    @property
    def resumptions(self) -> list[tuple[int, float]]:
        """The numbers of the segments whose generation was resumed, and how long the robot waited for each of them.

        These are the ones that began to be generated later than the segment before them was complete.
        """
        return [
            (number, later.started_s - ended.ended_s)
            for number, (ended, later) in enumerate(itertools.pairwise(self.segments), start=1)
            if later.delivered_s - later.generation_time_s > ended.delivered_s + SAME_TIME_S
        ]

    @property
    def longest_wait_s(self) -> float | None:
        """The longest W(s_k) of its segments; without any, the time until it was refused; None if neither came."""
        if not self.segments:
            return None if self.finished_s is None else self.finished_s - self.arrival_s
        idle_s = (self.arrival_s, *(segment.ended_s for segment in self.segments))
        return max(segment.started_s - since_s for segment, since_s in zip(self.segments, idle_s, strict=False))

    @property
    def utility(self) -> float:
        """TUF of the response time; 0 if it was refused or never served."""
        response_s = self.response_time_s
        return 0.0 if response_s is None else self.time_utility(response_s)

    @property
    def utility_bound(self) -> float:
        """Its utility with the engine to itself."""
        return self.time_utility(self.bound_s)


@dataclass(frozen=True, slots=True)
class StepTimes:
    """One step of the engine."""

    start_s: float
    duration_s: float
    num_prompt_tokens: int
    num_decodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run.

    Attributes:
        busy_s: Time in which the engine computed.
        end_s: When the last thing happened.
        steps: Every step, if the simulation was to keep them.
    """

    requests: Sequence[RequestRecord]
    busy_s: float
    end_s: float
    num_steps: int
    steps: Sequence[StepTimes] = ()

    @property
    def busy_share(self) -> float:
        """Share of the time in which the engine computed."""
        return self.busy_s / self.end_s if self.end_s else 0.0
