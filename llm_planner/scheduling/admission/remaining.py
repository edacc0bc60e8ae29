# SPDX-License-Identifier: Apache-2.0
"""What is left of requests, learned from those that ended: how pressing that makes each, and how long it is."""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from llm_planner.scheduling.admission.gittins import gittins_index
from llm_planner.scheduling.admission.job import Job
from llm_planner.scheduling.admission.learned_lengths import (
    CLASSES_PER_DOUBLING,
    SMALLEST_PROMPT,
    LearnedLengths,
)

Attained = tuple[Job, int]
"""A request, and how many tokens it has generated."""

MOST_ENDED = 2000
"""Requests that are remembered; what an older one was like says little, and learning takes time for each."""
RELEARNS_AFTER = 0.1
"""Lengths are learned again once as many have ended, as a share of those that were known the last time."""
MOST_VOLUME = 1e12
"""Memory x steps; an index is never zero, for its logarithm ranks."""
STEP_TOKENS = 8
"""What a request has generated is rounded down to a multiple of this: an index is computed once for all alike."""


class Kind(NamedTuple):
    """What the index of a request depends on.

    Attributes:
        lower: Shortest output that was predicted.
        upper: Longest.
        prompt_class: Of ``LearnedLengths``.
        attained_steps: Tokens that it has generated, in steps of ``STEP_TOKENS``.
    """

    lower: int
    upper: int
    prompt_class: int
    attained_steps: int


class RemainingWork:
    """Answers for requests that run, wait or are suspended; learns while they end.

    The distribution of lengths is that of ``LearnedLengths``: by predicted interval, and by the size of the prompt.
    Sizes of prompts are rounded to its classes, so that requests with one ``kind`` have one index.
    """

    def __init__(self) -> None:
        self._ended: deque[Attained] = deque(maxlen=MOST_ENDED)
        self._lengths = LearnedLengths()
        self._num_new = 0
        self._num_known = 0
        self._index: dict[tuple[Kind, float], float] = {}

    def note_ended(self, job: Job, num_tokens: int, others: Iterable[Attained]) -> None:
        """Learns, now and then, from one more request that ended by itself.

        Args:
            job: What was predicted for it.
            num_tokens: That it generated.
            others: Those that have not ended: they are at least as long as what they have. Without them nothing would
                be learned of the long ones, because the short ones end first.
        """
        self._ended.append((job, num_tokens))
        self._num_new += 1
        if self._num_new < max(1.0, RELEARNS_AFTER * self._num_known):
            return
        alive = list(others)
        self._lengths = LearnedLengths()  # rows of intervals that no request has any more are gone
        rows = [self._lengths.row(job) for job, _ in (*self._ended, *alive)]
        attained = np.array([float(num) for _, num in (*self._ended, *alive)])
        is_done = np.arange(len(rows)) < len(self._ended)
        has_run = attained > 0
        self._lengths.fit(np.array(rows)[has_run], attained[has_run], is_done[has_run])
        self._num_new, self._num_known = 0, len(self._ended)
        self._compute_again(alive)

    def _compute_again(self, alive: Iterable[Attained]) -> None:
        """Computes, at once, the indices of the requests that are there from what was learned, and forgets others."""
        jobs = {self.kind(job, num_tokens): job for job, num_tokens in alive}
        keys = [key for key in self._index if key[0] in jobs]
        rows = [self._row(jobs[kind]) for kind, _ in keys]
        self._index = dict(zip(keys, self._compute(rows, keys), strict=True)) if keys else {}

    def _compute(self, rows: Sequence[int], keys: Sequence[tuple[Kind, float]]) -> list[float]:
        """Returns the indices of requests, by their rows in the tables, kinds, and what their KV costs per token."""
        doublings = np.array([kind.prompt_class for kind, _ in keys]) / CLASSES_PER_DOUBLING[-1]
        prompt_tokens = 2.0**doublings - SMALLEST_PROMPT
        attained = np.array([float(kind.attained_steps * STEP_TOKENS) for kind, _ in keys])
        entry_volume = np.array([volume for _, volume in keys]) * (prompt_tokens + attained)
        indices = gittins_index(self._lengths, np.array(rows), prompt_tokens, attained, entry_volume)
        return np.maximum(indices, 1.0 / MOST_VOLUME).tolist()  # type: ignore[no-any-return]

    def kind(self, job: Job, num_tokens: int) -> Kind:
        """Returns what two requests with the same index have in common, but for the cost of their KV."""
        return Kind(job.lower_tokens, job.upper_tokens, _prompt_class(job.prompt_tokens), num_tokens // STEP_TOKENS)

    def index(self, job: Job, num_tokens: int, entry_volume_per_token: float = 0.0) -> float:
        """Returns the Gittins index over memory x steps (``admission.gittins``); > 0, most pressing high.

        Args:
            job: What was predicted.
            num_tokens: That it has generated.
            entry_volume_per_token: What it costs to have its KV on the accelerator, in memory x steps per token; 0
                where it is.
        """
        kind = self.kind(job, num_tokens)
        key = (kind, entry_volume_per_token)
        if key not in self._index:
            (self._index[key],) = self._compute([self._row(job)], [key])
        return self._index[key]

    def expected_tokens(self, job: Job, num_tokens: int) -> int:
        """Returns the expected output length of a request with ``num_tokens``: more than these, at most u otherwise."""
        row = self._row(job)
        edges = self._lengths.edges[row]
        survival = float(np.interp(num_tokens, edges, self._lengths.survival[row]))
        if survival <= 0.0:
            return num_tokens + 1
        time = self._lengths.time[row]
        spent = num_tokens if num_tokens < edges[0] else float(np.interp(num_tokens, edges, time))
        left = (float(time[-1]) - spent) / survival
        return max(num_tokens + 1, min(num_tokens + math.ceil(left), job.upper_tokens))

    def _row(self, job: Job) -> int:
        row = self._lengths.row(job)
        if self._lengths.has_new_rows:
            self._lengths.extend()
        return row


@lru_cache(maxsize=4096)
def _prompt_class(num_tokens: int) -> int:
    return round(CLASSES_PER_DOUBLING[-1] * math.log2(num_tokens + SMALLEST_PROMPT))
