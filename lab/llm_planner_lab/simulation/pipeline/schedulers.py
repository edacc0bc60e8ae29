# SPDX-License-Identifier: Apache-2.0
"""The schedulers that the benchmark compares, by name."""

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.scheduling.pipeline.balanced import BalancedPacer
from llm_planner.scheduling.pipeline.micro_batch import cycle_s
from llm_planner.scheduling.pipeline.pacer import Pacer, PaperPacer, StaticPacer, UrgentFirst
from llm_planner_lab.simulation.pipeline.profile import PipelineProfile
from llm_planner_lab.simulation.pipeline.scheduler import Admission, PipelineScheduler

BASELINE, VLLM_TODAY = "baseline", "vllm_0_32"
TOKEN_BUDGET, BOTH = "token_budget", "both"
OURS, OURS_URGENT = "ours", "ours_urgent"
NAMES = {
    BASELINE: "vLLM 0.9, as the paper describes it: a static budget, as many micro-batches as stages",
    TOKEN_BUDGET: "Algorithm 1 of the paper",
    BOTH: "Algorithms 1 and 2 of the paper",
    VLLM_TODAY: "vLLM 0.32: as 0.9, but no request begins whose whole prompt has no room",
    OURS: "shares from the models of both times; no request begins if any would soon have to be preempted",
    OURS_URGENT: "ours, holding back no urgent request",
}


def build_scheduler(name: str, profile: PipelineProfile) -> PipelineScheduler:
    """Returns a new scheduler.

    Raises:
        PlannerError: INVALID_CONFIG, naming those that there are.
    """
    stages, budget, times = profile.num_stages, profile.max_num_batched_tokens, profile.times
    is_urgent = name == OURS_URGENT
    pacer: Pacer
    admission = Admission.WHOLE_PROMPT
    if name in {BASELINE, VLLM_TODAY}:
        pacer = StaticPacer(stages, budget)
        admission = Admission.FIRST_CHUNK if name == BASELINE else Admission.WHOLE_PROMPT
    elif name in {TOKEN_BUDGET, BOTH}:
        pacer = PaperPacer(stages, budget, times if name == BOTH else None)
    elif name in {OURS, OURS_URGENT}:
        pacer = BalancedPacer(stages, budget, times)
        admission = Admission.LOOKAHEAD
    else:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"no pipeline scheduler {name!r}; known are {', '.join(NAMES)}")
    return PipelineScheduler(
        UrgentFirst(pacer, budget) if is_urgent else pacer,
        profile.num_kv_tokens // profile.block_size,
        profile.block_size,
        admission,
        cycle_s(stages, stages, times, 1.0, 0.0) if is_urgent else None,
    )
