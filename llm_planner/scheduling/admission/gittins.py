# SPDX-License-Identifier: Apache-2.0
"""The Gittins index of jobs that hold memory while they run: the chance to end soon, per token of memory and step."""

import numpy as np

from llm_planner.scheduling.admission.learned_lengths import NUM_CELLS, Floats, LearnedLengths, Rows


def gittins_index(
    lengths: LearnedLengths, rows: Rows, prompts: Floats, attained: Floats, entry_volume: Floats
) -> Floats:
    """Returns for each job ``sup_b P(o <= b | o > a) / E[memory x steps until min(o, b) | o > a]``, most urgent high.

    Gittins, Journal of the Royal Statistical Society B 41(2), 1979. Deviation: the effort is not time but what a job
    takes of the resource that is short, memory times steps, which grows as the job does: ``s + k`` at its k-th token.
    With known lengths this is the shortest remaining volume first.

    Args:
        lengths: What is known of output lengths.
        rows: (num_jobs,): of the tables of ``lengths``.
        prompts: (num_jobs,): s.
        attained: (num_jobs,): a.
        entry_volume: (num_jobs,): what it costs to bring the job's KV back first, in memory x steps.
    """
    edges, survival = lengths.edges[rows], lengths.survival[rows]
    jobs = np.arange(len(rows))
    cells = ((edges <= attained[:, None]).sum(axis=1) - 1).clip(0, NUM_CELLS - 1)
    start, end = edges[jobs, cells], edges[jobs, cells + 1]
    at_start, at_end = survival[jobs, cells], survival[jobs, cells + 1]
    alive = at_start + (at_end - at_start) * ((attained - start) / (end - start)).clip(0.0, 1.0)
    time = lengths.time[rows, cells] + (attained - start) * (at_start + alive) / 2.0
    area = lengths.area[rows, cells] + (attained - start) * (at_start + alive) * (attained + start) / 4.0
    is_sure = attained < start  # not even the lower bound is reached
    alive, time = np.where(is_sure, 1.0, alive), np.where(is_sure, attained, time)
    area = np.where(is_sure, attained**2 / 2.0, area)
    volume = prompts[:, None] * (lengths.time[rows] - time[:, None]) + lengths.area[rows] - area[:, None]
    volume += (entry_volume * alive)[:, None]
    is_ahead = edges > attained[:, None]
    rates: Floats = np.where(is_ahead, (alive[:, None] - survival) / np.maximum(volume, 1e-9), 0.0)
    best: Floats = rates.max(axis=1)
    return best
