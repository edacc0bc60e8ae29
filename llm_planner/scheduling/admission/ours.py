# SPDX-License-Identifier: Apache-2.0
"""Ours: jobs that yield are suspended, not cancelled; the order is a Gittins index over memory, learned as jobs run."""

import heapq
import random
from enum import IntEnum

import numpy as np

from llm_planner.scheduling.admission.gittins import gittins_index
from llm_planner.scheduling.admission.interface import Decision, Job
from llm_planner.scheduling.admission.learned_lengths import LearnedLengths

HEADROOM_TOKENS = 3
"""Tokens kept free per running job when another one starts, to avoid its immediate preemption."""
PUSHES_OUT = 8.0
"""A waiting job takes the memory of a running one if its index is this many times as high."""
MOVED_TOKENS_PER_STEP = 2900.0
"""KV that crosses the bus in the time of one step (``simulation.admission.step_time``)."""
RELEARNS_AFTER = 1.1
"""The distribution is learned again when the number of ended jobs has grown by this factor."""


class _State(IntEnum):
    WAITING = 0
    RUNNING = 1
    SUSPENDED = 2
    DONE = 3


class Ours:
    """Fills the memory with the jobs of the highest index, and suspends the lowest when it overflows.

    What the paper does not use: KV that moves to the host is not lost; the distribution of lengths shows itself while
    jobs run, also how it depends on the prompt; a job with a long prompt takes more of the memory. Moving KV delays
    all jobs, so its cost counts in the index of a suspended job, and a running job is only pushed out by one that
    is much better.
    """

    name = "ours"
    knows_lengths = False

    def __init__(self, capacity_tokens: int, rng: random.Random) -> None:  # noqa: ARG002
        self._capacity_tokens = capacity_tokens
        self._move_volume = 2.0 * capacity_tokens / MOVED_TOKENS_PER_STEP  # per token: out, and back in
        self._lengths = LearnedLengths()
        self._ids: list[int] = []
        self._place: dict[int, int] = {}
        self._rows = np.empty(0, np.int64)
        self._prompts, self._attained, self._began, self._index = np.empty((4, 0))
        self._state = np.empty(0, np.int64)
        self._line: list[tuple[float, int]] = []  # heap: -index, place; stale if the job runs or was ranked again
        self._incoming: list[Job] = []
        self._num_done, self._next_fit = 0, 1.0

    def submit(self, job: Job) -> None:
        """Takes a job in."""
        self._incoming.append(job)

    def decide(self, step: int) -> Decision:
        """Returns which jobs are suspended and which start."""
        if self._incoming:
            self._take_in()
        running = np.flatnonzero(self._state == _State.RUNNING)
        self._attained[running] = step - self._began[running]
        if self._num_done >= self._next_fit:
            self._learn()
        held = self._prompts[running] + self._attained[running]
        used_tokens = float(held.sum()) + len(running)
        if used_tokens <= self._capacity_tokens and not self._has_line:
            return Decision()
        index = self._indices(running)
        order = np.argsort(-index, kind="stable")
        return self._exchange(step, list(running[order]), list(index[order]), used_tokens)

    def finish(self, job_id: int) -> None:
        """Counts a job as done."""
        place = self._place[job_id]
        self._attained[place] += 1.0  # the token of the step since the last decision
        self._state[place] = _State.DONE
        self._num_done += 1

    def _exchange(self, step: int, running: list[int], index: list[float], used_tokens: float) -> Decision:
        """Suspends the last of those that run until the rest fits, and starts the first in line while there is room.

        Args:
            step: Now.
            running: The highest index first.
            index: Of each.
            used_tokens: After the next step.
        """
        suspended: list[int] = []
        started: list[int] = []
        while used_tokens > self._capacity_tokens:
            index.pop()
            used_tokens -= self._suspend(suspended, running.pop())
        num_running = len(running)
        while self._has_line:
            candidate = self._line[0][1]
            own_index = -self._line[0][0]
            own_tokens = self._prompts[candidate] + self._attained[candidate] + 1.0
            room = self._capacity_tokens - HEADROOM_TOKENS * num_running - own_tokens
            first = self._first_pushed_out(running, index, own_index, used_tokens - room)
            if first is None and (num_running or used_tokens + own_tokens > self._capacity_tokens):
                break
            while first is not None and len(running) > first:
                index.pop()
                used_tokens -= self._suspend(suspended, running.pop())
                num_running -= 1
            heapq.heappop(self._line)
            self._state[candidate], self._began[candidate] = _State.RUNNING, step - self._attained[candidate]
            started.append(self._ids[candidate])
            used_tokens += own_tokens
            num_running += 1
        return Decision(start=tuple(started), suspend=tuple(suspended))

    def _first_pushed_out(
        self, running: list[int], index: list[float], own_index: float, missing_tokens: float
    ) -> int | None:
        """Returns the place in ``running`` from which jobs yield to one short of ``missing_tokens``; None: it waits."""
        first = len(running)
        while missing_tokens > 0.0:
            first -= 1
            if first < 0 or own_index < PUSHES_OUT * index[first]:
                return None
            missing_tokens -= self._prompts[running[first]] + self._attained[running[first]] + 1.0 + HEADROOM_TOKENS
        return first

    def _suspend(self, suspended: list[int], place: int) -> float:
        """Moves a job to the host; returns how many tokens the next step needs less."""
        suspended.append(self._ids[place])
        self._state[place] = _State.SUSPENDED
        self._index[place] = self._indices(np.array([place]))[0]
        heapq.heappush(self._line, (-self._index[place], place))
        return float(self._prompts[place] + self._attained[place] + 1.0)

    @property
    def _has_line(self) -> bool:
        """Whether a job waits; what is stale at the front of the line goes."""
        while self._line:
            negative_index, place = self._line[0]
            is_idle = self._state[place] in (_State.WAITING, _State.SUSPENDED)
            if is_idle and self._index[place] == -negative_index:
                return True
            heapq.heappop(self._line)
        return False

    def _take_in(self) -> None:
        num_new, jobs = len(self._incoming), self._incoming
        self._incoming = []
        for job in jobs:
            self._place[job.job_id] = len(self._ids)
            self._ids.append(job.job_id)
        self._rows = np.append(self._rows, [self._lengths.row(job) for job in jobs])
        self._prompts = np.append(self._prompts, [float(job.prompt_tokens) for job in jobs])
        self._state = np.append(self._state, np.full(num_new, _State.WAITING))
        self._attained, self._began, self._index = (
            np.append(values, np.zeros(num_new)) for values in (self._attained, self._began, self._index)
        )
        if self._lengths.has_new_rows:
            self._lengths.extend()
        self._rank_again(np.arange(len(self._ids) - num_new, len(self._ids)))

    def _learn(self) -> None:
        seen = np.flatnonzero(self._attained)
        self._lengths.fit(self._rows[seen], self._attained[seen], self._state[seen] == _State.DONE)
        self._next_fit = self._num_done * RELEARNS_AFTER + 1.0
        self._line.clear()
        self._rank_again(np.flatnonzero((self._state == _State.WAITING) | (self._state == _State.SUSPENDED)))

    def _rank_again(self, places: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> None:
        self._index[places] = self._indices(places)
        self._line += zip((-self._index[places]).tolist(), places.tolist(), strict=True)
        heapq.heapify(self._line)

    def _indices(
        self, places: "np.ndarray[tuple[int], np.dtype[np.int64]]"
    ) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        prompts, attained = self._prompts[places], self._attained[places]
        moves = np.where(self._state[places] == _State.SUSPENDED, self._move_volume * (prompts + attained), 0.0)
        return gittins_index(self._lengths, self._rows[places], prompts, attained, moves)
