# SPDX-License-Identifier: Apache-2.0
"""Models of computation and communication of a pipeline from measured micro-batches, by least squares."""

from collections.abc import Sequence
from typing import NamedTuple

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pipeline_times import PipelineTimes
from llm_planner.prediction.fit import nonnegative_fit


class StageSample(NamedTuple):
    """One micro-batch on one stage.

    Attributes:
        num_tokens: It held, >= 1.
        kv_tokens: In the caches of its sequences.
        duration_s: That the stage computed, > 0.
    """

    num_tokens: int
    kv_tokens: int
    duration_s: float


class LinkSample(NamedTuple):
    """One message between stages.

    Attributes:
        num_tokens: Of its micro-batch, >= 1.
        duration_s: From its sending to its arrival, > 0.
    """

    num_tokens: int
    duration_s: float


def fit_pipeline_times(stages: Sequence[StageSample], links: Sequence[LinkSample] = ()) -> PipelineTimes:
    """Returns ``computation_times()`` and ``communication_times()`` of Dynamic Micro-Batch Scheduling, section 4.2.

    Least squares of the relative errors; no coefficient is negative. Without messages, sending takes no time: all
    stages are on one machine.

    Raises:
        PlannerError: INVALID_CONFIG if the micro-batches do not differ in their sizes.
    """
    if len({sample.num_tokens for sample in stages}) < 2 or len({sample.num_tokens for sample in links}) == 1:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG, "a pipeline's times need micro-batches of two sizes or more: measure more"
        )
    base_s, per_token_s, per_kv_s = nonnegative_fit(
        [(1.0, float(s.num_tokens), float(s.kv_tokens)) for s in stages], [s.duration_s for s in stages]
    )
    latency_s = link_s = 0.0
    if links:
        latency_s, link_s = nonnegative_fit([(1.0, float(s.num_tokens)) for s in links], [s.duration_s for s in links])
    return PipelineTimes(
        compute_base_s=base_s,
        compute_per_token_s=per_token_s,
        compute_per_kv_token_s=per_kv_s,
        link_latency_s=latency_s,
        link_per_token_s=link_s,
    )
