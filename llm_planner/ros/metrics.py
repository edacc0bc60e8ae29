# SPDX-License-Identifier: Apache-2.0
"""PlanMetrics to its message and back; what is unknown is None here, and there NaN or 0, as the message says."""

import math

import llm_planner.msg as msgs
from llm_planner.core.request import PlanMetrics


def from_metrics(metrics: PlanMetrics) -> msgs.PlanMetrics:
    """Returns the message of metrics."""
    return msgs.PlanMetrics(
        response_time_s=_or_nan(metrics.response_time_s),
        waiting_time_s=metrics.waiting_time_s,
        execution_time_s=metrics.execution_time_s,
        time_utility=_or_nan(metrics.time_utility),
        num_prompt_tokens=metrics.num_prompt_tokens,
        num_cached_tokens=metrics.num_cached_tokens,
        num_output_tokens=metrics.num_output_tokens,
        num_suspensions=metrics.num_suspensions,
        num_replans=metrics.num_replans,
        num_inserted_tokens=metrics.num_inserted_tokens,
        confidence=_or_nan(metrics.confidence),
        plan_time_s=_or_nan(metrics.plan_time_s),
        predicted_output_tokens=metrics.predicted_output_tokens or 0,
        predicted_time_s=_or_nan(metrics.predicted_time_s),
        wcet_s=_or_nan(metrics.wcet_s),
        eviction_ratio=metrics.eviction_ratio,
        measures=list(metrics.measures),
    )


def to_metrics(message: msgs.PlanMetrics) -> PlanMetrics:
    """Returns the metrics in a message."""
    return PlanMetrics(
        response_time_s=_or_none(message.response_time_s),
        waiting_time_s=message.waiting_time_s,
        execution_time_s=message.execution_time_s,
        time_utility=_or_none(message.time_utility),
        num_prompt_tokens=message.num_prompt_tokens,
        num_cached_tokens=message.num_cached_tokens,
        num_output_tokens=message.num_output_tokens,
        num_suspensions=message.num_suspensions,
        num_replans=message.num_replans,
        num_inserted_tokens=message.num_inserted_tokens,
        confidence=_or_none(message.confidence),
        plan_time_s=_or_none(message.plan_time_s),
        predicted_output_tokens=message.predicted_output_tokens or None,
        predicted_time_s=_or_none(message.predicted_time_s),
        wcet_s=_or_none(message.wcet_s),
        eviction_ratio=message.eviction_ratio,
        measures=tuple(message.measures),
    )


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
