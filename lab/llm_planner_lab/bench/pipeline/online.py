# SPDX-License-Identifier: Apache-2.0
"""The online scenario, section 5.2.2: Poisson arrivals of mixed lengths; TTFT and ITL satisfaction over time."""

import random
import statistics
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from llm_planner.core.time_utility import NORMAL, URGENT
from llm_planner_lab.bench.timely.metrics import quantile
from llm_planner_lab.simulation.pipeline.profile import PipelineProfile
from llm_planner_lab.simulation.pipeline.request import PipelineRequest
from llm_planner_lab.simulation.pipeline.request import Sequence as Served
from llm_planner_lab.simulation.pipeline.schedulers import (
    BASELINE,
    BOTH,
    OURS,
    OURS_URGENT,
    TOKEN_BUDGET,
    VLLM_TODAY,
    build_scheduler,
)
from llm_planner_lab.simulation.pipeline.simulator import simulate
from llm_planner_lab.simulation.pipeline.stages import Stages

OVERLOADED = (BOTH, OURS, OURS_URGENT)
OVERLOAD_PER_S = 0.3
ONLINE = (BASELINE, TOKEN_BUDGET, BOTH, VLLM_TODAY, OURS, OURS_URGENT)
URGENT_SHARE = 0.125
OUTPUT_TOKENS = (256, 1024)
WINDOW_S = 10.0
SAMPLE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """What satisfies; the paper does not print its own.

    Attributes:
        ttft_s: From arrival to the first token.
        itl_s: Per token, on the mean over the last ``WINDOW_S``.
    """

    ttft_s: float
    itl_s: float

    @property
    def name(self) -> str:
        """For tables."""
        return f"TTFT {self.ttft_s:g} s, ITL {1000 * self.itl_s:g} ms"


TARGETS = (Targets(ttft_s=10.0, itl_s=0.2), Targets(ttft_s=5.0, itl_s=0.15), Targets(ttft_s=20.0, itl_s=0.3))
"""The first ones are those of the figure."""


def draw_online(
    rng: random.Random, *, rate_per_s: float = 0.1, num_requests: int = 128, urgent_share: float = 0.0
) -> list[PipelineRequest]:
    """Returns the paper's online workload: prompts of 512 to 2,048 tokens, outputs of 256 to 1,024, both uniform.

    A scheduler knows of an output what its client would ask for: the most tokens, not how many come.
    """
    requests = []
    now_s = 0.0
    for number in range(num_requests):
        now_s += rng.expovariate(rate_per_s)
        requests.append(
            PipelineRequest(
                request_id=number,
                arrival_s=now_s,
                num_prompt_tokens=rng.randint(512, 2048),
                num_output_tokens=rng.randint(*OUTPUT_TOKENS),
                max_output_tokens=max(OUTPUT_TOKENS),
                time_utility=URGENT if rng.random() < urgent_share else NORMAL,
            )
        )
    return requests


def run_online(
    profile: PipelineProfile,
    seeds: Iterable[int],
    on_progress: Callable[[str], None],
    rate_per_s: float = 0.1,
    names: Sequence[str] = ONLINE,
) -> dict[str, Any]:
    """Returns satisfaction, TTFT and ITL per scheduler, and the series of the first seed.

    Args:
        profile: The pipeline.
        seeds: One trace each.
        on_progress: Told what is simulated.
        rate_per_s: Arrivals; the paper's is 0.1.
        names: Schedulers; the others are compared with the first.
    """
    everything: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    series: dict[str, Any] = {}
    below: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for seed in seeds:
        on_progress(f"online, {rate_per_s:g} per second, seed {seed}")
        requests = draw_online(random.Random(seed), rate_per_s=rate_per_s, urgent_share=URGENT_SHARE)
        served = {}
        for name in names:
            run = simulate(requests, build_scheduler(name, profile), Stages(profile.num_stages, profile.times))
            served[name] = run.sequences
            everything[name].append({**_times(run.sequences), "completion_s": run.completion_s, "idle_s": run.idle_s})
        times_s = [SAMPLE_S * i for i in range(int(max(map(_end_s, served.values())) / SAMPLE_S) + 1)]
        ratios = {name: [satisfaction(s, t, TARGETS[0]) for t in times_s] for name, s in served.items()}
        for name in names:
            everything[name][-1]["satisfaction"] = {
                t.name: _mean([satisfaction(served[name], at_s, t) for at_s in times_s]) for t in TARGETS
            }
            below[name].append(_below(ratios[name], ratios[names[0]]))
        series = series or {"time_s": times_s, **ratios}
    return {
        "rate_per_s": rate_per_s,
        "targets": {"ttft_s": TARGETS[0].ttft_s, "itl_s": TARGETS[0].itl_s},
        "window_s": WINDOW_S,
        "urgent_share": URGENT_SHARE,
        "num_seeds": len(everything[names[0]]),
        "schedulers": {name: _merged(everything[name], below[name]) for name in names},
        "series": series,
    }


def satisfaction(served: Sequence[Served], at_s: float, targets: Targets) -> float | None:
    """Returns the share of the requests in flight that satisfy both targets; None if none is in flight."""
    flags = [
        _is_satisfied(sequence, at_s, targets)
        for sequence in served
        if sequence.request.arrival_s <= at_s < sequence.token_times_s[-1]
    ]
    return sum(flags) / len(flags) if flags else None


def _is_satisfied(sequence: Served, at_s: float, targets: Targets) -> bool:
    first_s = sequence.token_times_s[0]
    if min(first_s, at_s) - sequence.request.arrival_s > targets.ttft_s:
        return False
    from_s = max(first_s, at_s - WINDOW_S)
    if at_s <= from_s:
        return True
    times_s = sequence.token_times_s
    num_tokens = bisect_right(times_s, at_s) - bisect_right(times_s, from_s)
    return at_s - from_s <= targets.itl_s * (num_tokens + 1)


def _times(served: Sequence[Served]) -> dict[str, Any]:
    def ttft(sequences: Iterable[Served]) -> list[float]:
        return sorted(s.token_times_s[0] - s.request.arrival_s for s in sequences)

    gaps = sorted(b - a for s in served for a, b in zip(s.token_times_s, s.token_times_s[1:], strict=False))
    urgent = ttft(s for s in served if s.request.time_utility is URGENT)
    whole = sorted(s.token_times_s[-1] - s.request.arrival_s for s in served if s.request.time_utility is URGENT)
    return {
        "ttft_p50_s": quantile(ttft(served), 0.5),
        "ttft_p95_s": quantile(ttft(served), 0.95),
        "itl_p50_s": quantile(gaps, 0.5),
        "itl_p99_s": quantile(gaps, 0.99),
        "urgent_ttft_p50_s": quantile(urgent, 0.5),
        "urgent_ttft_p95_s": quantile(urgent, 0.95),
        "urgent_whole_p50_s": quantile(whole, 0.5),
    }


def _below(ratios: Sequence[float | None], baseline: Sequence[float | None]) -> dict[str, float]:
    """Returns for which share of the time a scheduler satisfies fewer than the baseline, and by how much at worst."""
    pairs = [(a, b) for a, b in zip(ratios, baseline, strict=True) if a is not None and b is not None]
    return {
        "below_share": sum(a < b for a, b in pairs) / len(pairs),
        "above_share": sum(a > b for a, b in pairs) / len(pairs),
        "worst_difference": min(a - b for a, b in pairs),
    }


def _merged(rows: Sequence[dict[str, Any]], below: Sequence[dict[str, float]]) -> dict[str, Any]:
    merged: dict[str, Any] = {
        key: statistics.fmean(row[key] for row in rows) for key in rows[0] if key != "satisfaction"
    }
    merged["satisfaction"] = {
        name: statistics.fmean(row["satisfaction"][name] for row in rows) for name in rows[0]["satisfaction"]
    }
    merged["mean_satisfaction"] = merged["satisfaction"][TARGETS[0].name]
    merged["below_baseline_share"] = statistics.fmean(row["below_share"] for row in below)
    merged["above_baseline_share"] = statistics.fmean(row["above_share"] for row in below)
    merged["worst_against_baseline"] = min(row["worst_difference"] for row in below)
    return merged


def _mean(values: Iterable[float | None]) -> float:
    return statistics.fmean(value for value in values if value is not None)


def _end_s(served: Sequence[Served]) -> float:
    return max(sequence.token_times_s[-1] for sequence in served)
