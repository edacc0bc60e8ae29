# SPDX-License-Identifier: Apache-2.0
"""Eq. (3) of A_min: does the whole future of an admitted set fit into the KV memory?"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One admitted job: at step ``t <= finish`` it holds ``base + t`` tokens, ``base = s - p`` and p its start."""

    base: int
    finish: int


class FutureMemory:
    """The memory that admitted jobs hold at every step ahead, if each ends when it is assumed to.

    Between two assumed ends usage rises by the number of jobs that are left, so it is highest at an end, and only those
    steps are kept: sorted arrays of ends and of the usage there. A job that outlives its assumed end has at least one
    token to come and counts at the next step. ``fits``, ``add`` and ``remove`` take a binary search and one pass over
    the ends before the job's own: at most linear in the jobs that run, a few microseconds for thousands.

    Args:
        capacity_tokens: M.
    """

    def __init__(self, capacity_tokens: int) -> None:
        self.capacity_tokens = capacity_tokens
        self._entries: dict[int, _Entry] = {}
        self._total_base = 0
        self._finish: _Integers = np.empty(0, np.int64)
        self._usage: _Integers = np.empty(0, np.int64)  # at the end of the same index, all that end then or later

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._entries

    def used_tokens(self, step: int) -> int:
        """Returns what the jobs that are in hold at ``step`` if none of them ends before."""
        return self._total_base + step * len(self._entries)

    def advance(self, step: int) -> None:
        """Drops the ends up to ``step``: they did not come true for jobs that are still in."""
        num_past = int(np.searchsorted(self._finish, step, "right"))
        if num_past:
            self._finish, self._usage = self._finish[num_past:], self._usage[num_past:]

    def fits(self, held_tokens: int, step: int, output_tokens: int) -> bool:
        """Returns whether one more job can start and Eq. (3) holds at every step from ``step + 1`` on.

        Args:
            held_tokens: What it holds as it starts: its prompt, and the tokens that it had generated before.
            step: Now; ``advance`` was called for it.
            output_tokens: How many more it is assumed to generate, >= 1.
        """
        base, finish = held_tokens - step, step + output_tokens
        if self.used_tokens(step + 1) + held_tokens + 1 > self.capacity_tokens:
            return False
        num_before = int(np.searchsorted(self._finish, finish, "right"))
        if num_before:
            earlier = self._usage[:num_before] + self._finish[:num_before]
            if int(earlier.max()) + base > self.capacity_tokens:
                return False
        return self._later_usage(num_before, finish) + base + finish <= self.capacity_tokens

    def fit(self, held_tokens: _Integers, step: int, output_tokens: _Integers) -> NDArray[np.bool_]:
        """Returns ``fits`` for each of many jobs, as if it alone started: linear in these and in those that run."""
        base, finish = held_tokens - step, step + output_tokens
        fits = self.used_tokens(step + 1) + held_tokens + 1 <= self.capacity_tokens
        num_before = np.searchsorted(self._finish, finish, "right")
        earlier = np.maximum.accumulate(self._usage + self._finish)
        highest = np.append(np.iinfo(np.int64).min // 2, earlier)[num_before]
        num_later = len(self._finish) - num_before
        usage, ends = np.append(self._usage, 0)[num_before], np.append(self._finish, 0)[num_before]
        later = usage - num_later * (ends - finish)
        return fits & (highest + base <= self.capacity_tokens) & (later + base + finish <= self.capacity_tokens)

    def add(self, job_id: int, held_tokens: int, step: int, output_tokens: int) -> None:
        """Books a job that starts at ``step``; arguments as in ``fits``."""
        entry = _Entry(held_tokens - step, step + output_tokens)
        self._entries[job_id] = entry
        self._total_base += entry.base
        place = int(np.searchsorted(self._finish, entry.finish, "left"))
        usage = self._later_usage(place, entry.finish)
        self._usage = np.insert(self._usage, place, usage)
        self._finish = np.insert(self._finish, place, entry.finish)
        self._change(entry, +1)

    def remove(self, job_id: int) -> None:
        """Takes a job out that ended, early or not, or yielded."""
        entry = self._entries.pop(job_id)
        self._total_base -= entry.base
        place = int(np.searchsorted(self._finish, entry.finish, "left"))
        if place < len(self._finish) and self._finish[place] == entry.finish:  # else its end is past
            self._change(entry, -1)
            self._finish = np.delete(self._finish, place)
            self._usage = np.delete(self._usage, place)

    def _later_usage(self, place: int, step: int) -> int:
        """Returns what the jobs whose ends have the index ``place`` or more hold at ``step``."""
        num_later = len(self._finish) - place
        return 0 if num_later == 0 else int(self._usage[place]) - num_later * (int(self._finish[place]) - step)

    def _change(self, entry: _Entry, sign: int) -> None:
        """Adds a job's tokens to, or takes them from, the usage at all ends up to its own."""
        num_before = int(np.searchsorted(self._finish, entry.finish, "right"))
        self._usage[:num_before] += sign * (entry.base + self._finish[:num_before])
