# SPDX-License-Identifier: Apache-2.0
"""When did which stage compute: the timelines of Fig. 2."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llm_planner_lab.bench.pipeline.offline import run_workload
from llm_planner_lab.bench.pipeline.published import Workload
from llm_planner_lab.simulation.pipeline.profile import PipelineProfile
from llm_planner_lab.simulation.pipeline.stages import Passage

WORKLOAD = Workload(64, 1024, 1024)
NUM_BINS = 360
ZOOM_S = 2.5


@dataclass(frozen=True, slots=True)
class Timeline:
    """One scheduler on ``WORKLOAD``.

    Attributes:
        name: Of the scheduler.
        completion_s: In all.
        bin_s: Length of a bin.
        busy: Share of each bin that each stage computes, ``(num_stages, num_bins)``.
        zoom_s: Where the close-up begins.
        zoom: Passages of the close-up.
    """

    name: str
    completion_s: float
    bin_s: float
    busy: np.ndarray
    zoom_s: float
    zoom: tuple[Passage, ...]


def timelines(profile: PipelineProfile, names: Sequence[str]) -> list[Timeline]:
    """Returns one timeline per scheduler, on one scale."""
    runs = {name: run_workload(WORKLOAD, name, profile, is_recorded=True) for name in names}
    bin_s = max(run.completion_s for run in runs.values()) / NUM_BINS
    made = []
    for name, run in runs.items():
        zoom_s = run.completion_s / 2
        zoom = tuple(p for p in run.passages if zoom_s <= p.began_s < zoom_s + ZOOM_S)
        busy = busy_shares(run.passages, profile.num_stages, bin_s, NUM_BINS)
        made.append(Timeline(name, run.completion_s, bin_s, busy, zoom_s, zoom))
    return made


def busy_shares(passages: Sequence[Passage], num_stages: int, bin_s: float, num_bins: int) -> np.ndarray:
    """Returns the share of each bin that each stage computes, ``(num_stages, num_bins)``."""
    busy = np.zeros((num_stages, num_bins + 1))
    for passage in passages:
        at_s = passage.began_s
        while at_s < passage.ended_s:
            index = min(int(at_s / bin_s), num_bins)
            until_s = min(passage.ended_s, (index + 1) * bin_s) if index < num_bins else passage.ended_s
            until_s = max(until_s, np.nextafter(at_s, np.inf))
            busy[passage.stage, index] += until_s - at_s
            at_s = until_s
    return busy[:, :num_bins] / bin_s
