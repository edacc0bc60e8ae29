# SPDX-License-Identifier: Apache-2.0
"""The distribution of output lengths, learned while jobs run: by interval, and by the size of the prompt."""

import math

import numpy as np
from numpy.typing import NDArray

from llm_planner.scheduling.admission.job import Job

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

NUM_CELLS = 32
"""Cells of an interval, each as much longer than the one before as the interval is skewed."""
PRIOR_JOBS = 2.0
"""Jobs that the prior stands for; within an interval, lengths in proportion are as probable."""
CLASS_JOBS = 2.0
"""Jobs that the distribution of a wider class of prompts stands for, in a narrower one."""
CLASSES_PER_DOUBLING = (5,)
"""Of prompt sizes, from wide to narrow."""
SMALLEST_PROMPT = 16
NARROW = 2.0
"""Intervals with u / l below it say enough by themselves: nothing is learned within them."""
_LAST_HAZARD = 3.0


class LearnedLengths:
    """Survival functions in cells, one row for each interval, and for classes of prompts in a wide one.

    In each cell the hazard is ends over exposure, shrunk towards that of a wider class of prompts, that of all prompts
    towards the prior. Jobs that have not ended count with the tokens that they have: short ones end first, and nothing
    would be learned of the others.

    Attributes:
        edges: (num_rows, NUM_CELLS + 1), tokens; the first is l - 1, the last u.
        survival: (num_rows, NUM_CELLS + 1): the probability of more tokens than that; 1 first, 0 last.
        time: The integral of survival from 0 to each edge.
        area: The integral of survival times tokens.
    """

    def __init__(self) -> None:
        self._row_of: dict[tuple[int, ...], int] = {}
        self._edges: list[Floats] = []
        self._priors: list[Floats] = []
        self._parents: list[int] = []
        self._depths: list[int] = []
        self._hazards = np.empty((0, NUM_CELLS))
        self.edges = self.survival = self.time = self.area = np.empty((0, NUM_CELLS + 1))

    def row(self, job: Job) -> int:
        """Returns the row of a job; a new one is made if there is none."""
        interval = (job.lower_tokens, job.upper_tokens)
        row = self._make(interval, interval, -1)
        if job.upper_tokens < NARROW * job.lower_tokens:
            return row
        doublings = math.log2(job.prompt_tokens + SMALLEST_PROMPT)
        for num_classes in CLASSES_PER_DOUBLING:
            row = self._make((*interval, num_classes, round(num_classes * doublings)), interval, row)
        return row

    def _make(self, key: tuple[int, ...], interval: tuple[int, int], parent: int) -> int:
        if key not in self._row_of:
            lower, upper = interval
            shares = np.arange(NUM_CELLS + 1) / NUM_CELLS
            left = 1.0 - shares
            self._row_of[key] = len(self._edges)
            self._edges.append(lower * ((upper + 1.0) / lower) ** shares - 1.0)
            self._priors.append(np.append(np.log(left[:-2] / left[1:-1]), _LAST_HAZARD))
            self._parents.append(parent)
            self._depths.append(0 if parent < 0 else self._depths[parent] + 1)
        return self._row_of[key]

    def fit(self, rows: Rows, attained: Floats, is_done: NDArray[np.bool_]) -> None:
        """Learns from all jobs that have run: what they have generated, and whether that is all.

        Args:
            rows: (num_jobs,): as ``row`` gave them.
            attained: (num_jobs,): tokens so far.
            is_done: (num_jobs,).
        """
        edges, parents = np.array(self._edges), np.array(self._parents)
        ends, exposure = np.zeros((2, len(edges), NUM_CELLS))
        own = edges[rows]
        np.add.at(exposure, rows, ((attained[:, None] - own[:, :-1]) / np.diff(own, axis=1)).clip(0.0, 1.0))
        cells = ((own[:, 1:] < attained[:, None] - 1e-6).sum(axis=1)).clip(0, NUM_CELLS - 1)
        np.add.at(ends, (rows[is_done], cells[is_done]), 1.0)
        levels = [np.flatnonzero(np.array(self._depths) == d) for d in range(1, len(CLASSES_PER_DOUBLING) + 1)]
        for level in reversed(levels):
            np.add.at(ends, parents[level], ends[level])
            np.add.at(exposure, parents[level], exposure[level])
        hazards = (ends + PRIOR_JOBS * np.array(self._priors)) / (exposure + PRIOR_JOBS)
        for level in levels:
            wider = hazards[parents[level]]
            hazards[level] = (ends[level] + CLASS_JOBS * wider) / (exposure[level] + CLASS_JOBS)
        self._integrate(edges, hazards)

    def extend(self) -> None:
        """Gives rows that came since the last fit what is known of their like: a wider class, or the prior."""
        known, new = len(self._hazards), slice(len(self._hazards), None)
        hazards: list[Floats] = []
        for prior, parent in zip(self._priors[new], self._parents[new], strict=True):
            hazards.append(
                prior if parent < 0 else self._hazards[parent] if parent < known else hazards[parent - known]
            )
        if hazards:
            before = (self._hazards, self.edges, self.survival, self.time, self.area)
            self._integrate(np.array(self._edges[new]), np.array(hazards))
            after = (self._hazards, self.edges, self.survival, self.time, self.area)
            self._hazards, self.edges, self.survival, self.time, self.area = map(
                np.vstack, zip(before, after, strict=True)
            )

    @property
    def has_new_rows(self) -> bool:
        """Whether ``extend`` or ``fit`` must be called before the next look at the tables."""
        return len(self._edges) > len(self.edges)

    def _integrate(self, edges: Floats, hazards: Floats) -> None:
        first = edges[:, :1]
        survival = np.exp(-np.cumsum(hazards, axis=1))
        survival[:, -1] = 0.0
        survival = np.hstack([np.ones_like(first), survival])
        time = np.diff(edges, axis=1) * (survival[:, 1:] + survival[:, :-1]) / 2.0
        area = time * (edges[:, 1:] + edges[:, :-1]) / 2.0
        self._hazards, self.edges, self.survival = hazards, edges, survival
        self.time = np.hstack([first, first + np.cumsum(time, axis=1)])
        self.area = np.hstack([first**2 / 2.0, first**2 / 2.0 + np.cumsum(area, axis=1)])
