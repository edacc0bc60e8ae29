# SPDX-License-Identifier: Apache-2.0
"""What a timely benchmark measures: utility, times and shares per policy and class of requests; JSON-ready."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from llm_planner.core.errors import ErrorCode
from llm_planner_lab.bench.intervals import interval95
from llm_planner_lab.simulation.records import RequestRecord, RunRecord

NOTICED_WAIT_S = 0.001
"""Shorter ones count as none."""


def classes_of(record: RequestRecord) -> tuple[str, ...]:
    """Returns the classes that a request counts in."""
    return ("all", record.urgency, str(record.task))


def policy_metrics(runs: Sequence[RunRecord]) -> dict[str, Any]:
    """Returns the metrics of one policy per class, over the runs of all seeds."""
    names = sorted({name for run in runs for record in run.requests for name in classes_of(record)}, key=_class_order)
    return {name: _class_metrics([_members(run, name) for run in runs]) for name in names}


def _class_order(name: str) -> tuple[int, int, str]:
    return (1, int(name), "") if name.isdigit() else (0, 0, name)


def _members(run: RunRecord, name: str) -> list[RequestRecord]:
    return [record for record in run.requests if name in classes_of(record)]


def _class_metrics(by_seed: Sequence[Sequence[RequestRecord]]) -> dict[str, Any]:
    by_seed = [records for records in by_seed if records]
    records = [record for seed in by_seed for record in seed]
    served = [r for r in records if r.segments and r.error_code is ErrorCode.NONE]
    shares = [share_of_max(seed) for seed in by_seed]
    return {
        "n": len(records),
        "utility_sum": math.fsum(r.utility for r in records),
        "utility_mean": _mean(r.utility for r in records),
        "utility_mean_ci95": interval95([_mean(r.utility for r in seed) for seed in by_seed]),
        "utility_share_of_max": share_of_max(records),
        "utility_share_of_max_ci95": interval95(shares),
        "utility_share_of_max_by_trace": shares,
        "utility_share_of_bound": share_of_bound(records),
        "response_time_s": distribution([r.response_time_s for r in records if r.response_time_s is not None]),
        "waiting_time_s": distribution([r.waiting_time_s for r in records if r.waiting_time_s is not None]),
        "longest_wait_s": max((w for r in records if (w := r.longest_wait_s) is not None), default=None),
        "share_waited_for": _share_waited_for(records),
        "deadline_hit": _mean(float(_is_in_time(r)) for r in records),
        "share_served": len(served) / len(records),
        "share_shed": _mean(float(r.error_code is ErrorCode.LOAD_SHED) for r in records),
    }


def _share_waited_for(records: Iterable[RequestRecord]) -> float | None:
    """Returns for which share of the segments behind the first ones a robot waited; None without any."""
    waits_s = [wait_s for record in records for wait_s in record.later_waits_s]
    return _mean(float(wait_s > NOTICED_WAIT_S) for wait_s in waits_s) if waits_s else None


def _is_in_time(record: RequestRecord) -> bool:
    return record.response_time_s is not None and record.response_time_s <= record.time_utility.ert_s


def share_of_max(records: Iterable[RequestRecord]) -> float:
    """Returns the utility as a share of what it is if every response comes in time."""
    return _ratio(records, lambda record: record.time_utility.beta)


def share_of_bound(records: Iterable[RequestRecord]) -> float | None:
    """Returns the utility as a share of what it is if every request has the engine to itself.

    None where that bound is not positive: a share of a loss means nothing.
    """
    records = list(records)
    return _ratio(records, lambda r: r.utility_bound) if math.fsum(r.utility_bound for r in records) > 0 else None


def _ratio(records: Iterable[RequestRecord], of: Callable[[RequestRecord], float]) -> float:
    records = list(records)
    return math.fsum(r.utility for r in records) / math.fsum(of(r) for r in records)


def distribution(values: Sequence[float]) -> Mapping[str, float | None]:
    """Returns mean and percentiles; None for nothing."""
    ordered = sorted(values)
    if not ordered:
        return {"mean": None, "p50": None, "p95": None, "p99": None, "max": None}
    return {
        "mean": _mean(ordered),
        **{f"p{percent}": quantile(ordered, percent / 100) for percent in (50, 95, 99)},
        "max": ordered[-1],
    }


def quantile(ordered: Sequence[float], probability: float) -> float:
    """Returns the quantile of sorted values, linear between neighbours."""
    position = probability * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return math.fsum(values) / len(values)
