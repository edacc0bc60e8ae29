# SPDX-License-Identifier: Apache-2.0
"""Builders with every argument defaulted."""

from llm_planner.core.pipeline_times import PipelineTimes
from llm_planner.scheduling.pipeline.pacer import Pacer, StaticPacer
from llm_planner_lab.simulation.pipeline.request import PipelineRequest
from llm_planner_lab.simulation.pipeline.scheduler import Admission, PipelineScheduler
from llm_planner_lab.simulation.pipeline.simulator import PipelineRun, simulate
from llm_planner_lab.simulation.pipeline.stages import Stages

TIMES = PipelineTimes(
    compute_base_s=0.018,
    compute_per_token_s=1.5e-4,
    compute_per_kv_token_s=3.5e-7,
    link_latency_s=0.0025,
    link_per_token_s=1.7e-3,
)


def make_requests(num_requests=8, num_prompt_tokens=64, num_output_tokens=16, **kwargs) -> list[PipelineRequest]:
    return [
        PipelineRequest(
            request_id=number, num_prompt_tokens=num_prompt_tokens, num_output_tokens=num_output_tokens, **kwargs
        )
        for number in range(num_requests)
    ]


def make_scheduler(
    pacer: Pacer | None = None, num_blocks=64, block_size=16, admission=Admission.FIRST_CHUNK, hold_back_s=None
) -> PipelineScheduler:
    return PipelineScheduler(pacer or StaticPacer(4, 2048), num_blocks, block_size, admission, hold_back_s)


def run(requests, scheduler=None, num_stages=4, times=TIMES, **kwargs) -> PipelineRun:
    return simulate(requests, scheduler or make_scheduler(), Stages(num_stages, times, **kwargs))
