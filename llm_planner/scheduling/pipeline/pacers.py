# SPDX-License-Identifier: Apache-2.0
"""The pacers that a configuration can name."""

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pipeline_times import PipelineTimes
from llm_planner.scheduling.pipeline.balanced import BalancedPacer
from llm_planner.scheduling.pipeline.pacer import Pacer, PaperPacer, StaticPacer, UrgentFirst

STATIC, TOKEN_BUDGET, BOTH, BALANCED = "static", "token_budget", "both", "balanced"
PACERS = {
    STATIC: "a fixed budget, whatever is ready in the first micro-batch",
    TOKEN_BUDGET: "Algorithm 1 of the paper",
    BOTH: "Algorithms 1 and 2 of the paper",
    BALANCED: "ours",
}


def make_pacer(name: str, num_stages: int, max_num_batched_tokens: int, times: PipelineTimes) -> Pacer:
    """Returns a pacer that holds back no urgent sequence.

    Args:
        name: One of ``PACERS``.
        num_stages: Of the pipeline, >= 1.
        max_num_batched_tokens: Of every micro-batch, >= 1.
        times: Computation and communication models; only ``both`` and ``balanced`` ask them.

    Raises:
        PlannerError: INVALID_CONFIG, naming those that there are.
    """
    require_pacer(name)
    if name == STATIC:
        return StaticPacer(num_stages, max_num_batched_tokens)
    pacer: Pacer
    if name == BALANCED:
        pacer = BalancedPacer(num_stages, max_num_batched_tokens, times)
    else:
        pacer = PaperPacer(num_stages, max_num_batched_tokens, times if name == BOTH else None)
    return UrgentFirst(pacer, max_num_batched_tokens)


def require_pacer(name: str) -> None:
    """Raises if no pacer has this name.

    Raises:
        PlannerError: INVALID_CONFIG, naming those that there are.
    """
    if name not in PACERS:
        known = ", ".join(f"{known} ({what})" for known, what in PACERS.items())
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"no division of micro-batches {name!r}; known are {known}")
