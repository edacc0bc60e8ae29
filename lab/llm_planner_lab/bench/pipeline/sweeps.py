# SPDX-License-Identifier: Apache-2.0
"""What if the links were faster, the stages more, one stage slower, the lengths unequal?"""

import random
from collections.abc import Callable, Sequence
from typing import Any

from llm_planner_lab.bench.pipeline.offline import OFFLINE
from llm_planner_lab.bench.pipeline.published import Workload
from llm_planner_lab.simulation.pipeline.profile import PipelineProfile
from llm_planner_lab.simulation.pipeline.request import PipelineRequest
from llm_planner_lab.simulation.pipeline.schedulers import build_scheduler
from llm_planner_lab.simulation.pipeline.simulator import simulate
from llm_planner_lab.simulation.pipeline.stages import Stages

WORKLOAD = Workload(64, 256, 256)
BANDWIDTHS_MBPS = (25.0, 50.0, 100.0, 250.0, 1000.0, 10_000.0)
STAGES = (4, 5, 8, 10)
STAGE_SKEWS = (1.0, 1.25, 1.5, 2.0)
LENGTH_SKEWS = (0.0, 0.5, 1.0)
LEAST_TOKENS, MOST_TOKENS = 8, 2048


def run_sweeps(profile: PipelineProfile, on_progress: Callable[[str], None]) -> dict[str, Any]:
    """Returns completion and idle times of all schedulers, for each value of what is varied."""
    equal = skewed_lengths(WORKLOAD, 0.0)
    sweeps: dict[str, list[dict[str, Any]]] = {"bandwidth_mbps": [], "stages": [], "stage_skew": [], "length_skew": []}
    for mbps in BANDWIDTHS_MBPS:
        on_progress(f"bandwidth {mbps:g} Mbps")
        sweeps["bandwidth_mbps"].append(_point(mbps, profile.with_bandwidth(mbps), equal))
    for stages in STAGES:
        on_progress(f"{stages} stages")
        sweeps["stages"].append(_point(stages, profile.with_stages(stages), equal))
    for skew in STAGE_SKEWS:
        on_progress(f"last stage {skew:g} times slower")
        speeds = (*(1.0,) * (profile.num_stages - 1), skew)
        sweeps["stage_skew"].append(_point(skew, profile, equal, speeds))
    for skew in LENGTH_SKEWS:
        on_progress(f"skew {skew:g} of lengths")
        sweeps["length_skew"].append(_point(skew, profile, skewed_lengths(WORKLOAD, skew)))
    return {"workload": WORKLOAD.name, **sweeps}


def skewed_lengths(workload: Workload, sigma: float, seed: int = 1) -> list[PipelineRequest]:
    """Returns a workload whose lengths are log-normal with the means of ``workload``; ``sigma`` 0 makes them equal.

    A scheduler knows equal lengths, as all clients ask for the same; of others it knows the limit, ``MOST_TOKENS``.
    """
    rng = random.Random(seed)

    def length(mean: int) -> int:
        drawn = mean * rng.lognormvariate(-sigma * sigma / 2, sigma)
        return max(LEAST_TOKENS, min(MOST_TOKENS, round(drawn)))

    return [
        PipelineRequest(
            request_id=number,
            num_prompt_tokens=length(workload.num_prompt_tokens),
            num_output_tokens=length(workload.num_output_tokens),
            max_output_tokens=MOST_TOKENS if sigma else workload.num_output_tokens,
        )
        for number in range(workload.num_requests)
    ]


def _point(
    value: float, profile: PipelineProfile, requests: Sequence[PipelineRequest], speeds: tuple[float, ...] = ()
) -> dict[str, Any]:
    point: dict[str, Any] = {"value": value}
    for name in OFFLINE:
        run = simulate(requests, build_scheduler(name, profile), Stages(profile.num_stages, profile.times, speeds))
        point[name] = {"completion_s": run.completion_s, "idle_s": run.idle_s}
    return point
