# SPDX-License-Identifier: Apache-2.0
"""What does it gain, in a pipeline, to know or to predict how many tokens requests will bring?"""

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llm_planner.scheduling.pipeline.balanced import BalancedPacer
from llm_planner.scheduling.pipeline.pacer import PipelineLoad
from llm_planner_lab.bench.pipeline.published import Workload
from llm_planner_lab.bench.pipeline.sweeps import LEAST_TOKENS, MOST_TOKENS
from llm_planner_lab.simulation.pipeline import request as pipeline_request
from llm_planner_lab.simulation.pipeline.profile import PipelineProfile
from llm_planner_lab.simulation.pipeline.request import PipelineRequest
from llm_planner_lab.simulation.pipeline.scheduler import Admission, PipelineScheduler
from llm_planner_lab.simulation.pipeline.simulator import simulate
from llm_planner_lab.simulation.pipeline.stages import Stages

NOTHING, BOUND, FLEET, PREDICTED, EXACT, LEAVING = "nothing", "bound", "fleet", "predicted", "exact", "leaving"
KNOWN = {
    NOTHING: "nothing: a request begins if its prompt has room, as on vLLM",
    BOUND: f"the limit of {MOST_TOKENS} tokens",
    FLEET: "how long plans are, not which",
    PREDICTED: "a prediction for each request, corrected as its tokens come",
    EXACT: "the length",
    LEAVING: "the length, and the pacer no longer counts those whose last token is in flight",
}
EXPLAINED = 0.662
"""Share of the variance of lengths that predictions explain: the R2 of an earlier bundled predictor."""
SKEWS = (0.5, 1.0)
CASES = (
    (Workload(128, 256, 256), 1.0),
    (Workload(128, 512, 512), 1.0),
    (Workload(64, 1024, 1024), 1.0),
    (Workload(256, 512, 40), 1.0),
    (Workload(256, 512, 40), 0.25),
)
"""Workloads, and the share of the profile's KV memory; the last two are as long as plans."""
_NORMAL = statistics.NormalDist()


@dataclass(frozen=True, slots=True)
class Belief:
    """A log-normal distribution of the tokens that a request brings in all."""

    mu: float
    sigma: float

    def num_left(self, num_tokens: int) -> int:
        """Returns the mean of what is left, >= 1, given that ``num_tokens`` have come."""
        mean = math.exp(self.mu + self.sigma * self.sigma / 2)
        if num_tokens > 0:
            level = (math.log(num_tokens) - self.mu) / self.sigma
            mean *= _NORMAL.cdf(self.sigma - level) / max(1e-12, _NORMAL.cdf(-level))
        return max(1, round(min(MOST_TOKENS, mean) - num_tokens))


class InformedScheduler(PipelineScheduler):
    """Ours, with something else known of the lengths.

    Args:
        profile: Of the pipeline.
        known: One of ``KNOWN``.
        beliefs: Per request, for those that need one.
        num_blocks: KV blocks of every stage.
    """

    def __init__(self, profile: PipelineProfile, known: str, beliefs: Mapping[int, Belief], num_blocks: int) -> None:
        pacer = BalancedPacer(profile.num_stages, profile.max_num_batched_tokens, profile.times)
        admission = Admission.WHOLE_PROMPT if known == NOTHING else Admission.LOOKAHEAD
        super().__init__(pacer, num_blocks, profile.block_size, admission)
        self._known, self._beliefs = known, beliefs

    def num_left(self, sequence: pipeline_request.Sequence) -> int:
        """Returns how many tokens a sequence still brings, as far as is known."""
        if self._known in {EXACT, LEAVING}:
            return sequence.request.num_output_tokens - sequence.num_output_tokens
        belief = self._beliefs.get(sequence.request.request_id)
        return super().num_left(sequence) if belief is None else belief.num_left(sequence.num_output_tokens)

    def _load(self) -> PipelineLoad:
        load = super()._load()
        if self._known != LEAVING:
            return load
        leaving = [s for s in self._running if s.num_unscheduled == 0 and self.num_left(s) == 1]
        kv_tokens = load.kv_tokens - sum(s.num_tokens for s in leaving)
        return replace(load, num_decodes=load.num_decodes - len(leaving), kv_tokens=kv_tokens)


def drawn(workload: Workload, skew: float, seed: int) -> tuple[list[PipelineRequest], dict[int, Belief]]:
    """Returns requests with log-normal lengths, and what a predictor says of each.

    Args:
        workload: The mean lengths.
        skew: Standard deviation of the logarithm of a length, > 0.
        seed: Of all that is drawn.
    """
    rng, requests, beliefs = random.Random(seed), [], {}
    foreseen, unforeseen = skew * math.sqrt(EXPLAINED), skew * math.sqrt(1.0 - EXPLAINED)

    def length(mean: int, deviation: float) -> int:
        return max(LEAST_TOKENS, min(MOST_TOKENS, round(mean * math.exp(deviation - skew * skew / 2))))

    for number in range(workload.num_requests):
        said = foreseen * rng.gauss(0.0, 1.0)
        beliefs[number] = Belief(math.log(workload.num_output_tokens) - skew * skew / 2 + said, unforeseen)
        requests.append(
            PipelineRequest(
                request_id=number,
                num_prompt_tokens=length(workload.num_prompt_tokens, skew * rng.gauss(0.0, 1.0)),
                num_output_tokens=length(workload.num_output_tokens, said + unforeseen * rng.gauss(0.0, 1.0)),
                max_output_tokens=MOST_TOKENS,
            )
        )
    return requests, beliefs


def run_lengths(profile: PipelineProfile, num_seeds: int, on_progress: Callable[[str], None]) -> list[dict[str, Any]]:
    """Returns one row per workload and skew: for all that may be known, the mean figures of the seeds."""
    rows = []
    for workload, share in CASES:
        for skew in SKEWS:
            on_progress(f"{workload.name}, skew {skew:g}, {share:.0%} of the memory")
            num_blocks = int(share * profile.num_kv_tokens) // profile.block_size
            runs = [_run(profile, workload, skew, seed, num_blocks) for seed in range(num_seeds)]
            row: dict[str, Any] = {"name": workload.name, "skew": skew, "memory": share}
            rows.append(row | {known: _mean(runs, known) for known in KNOWN})
    return rows


def _run(
    profile: PipelineProfile, workload: Workload, skew: float, seed: int, num_blocks: int
) -> dict[str, dict[str, float]]:
    requests, predicted = drawn(workload, skew, seed)
    mu = math.log(workload.num_output_tokens) - skew * skew / 2
    fleet = dict.fromkeys(predicted, Belief(mu, skew))
    figures = {}
    for known in KNOWN:
        beliefs = {FLEET: fleet, PREDICTED: predicted}.get(known, {})
        scheduler = InformedScheduler(profile, known, beliefs, num_blocks)
        run = simulate(requests, scheduler, Stages(profile.num_stages, profile.times))
        figures[known] = {
            "completion_s": run.completion_s,
            "mean_end_s": statistics.fmean(s.token_times_s[-1] for s in run.sequences),
            "num_preemptions": run.num_preemptions,
        }
    return figures


def _mean(runs: Sequence[dict[str, dict[str, float]]], known: str) -> dict[str, Any]:
    """Returns the means over the runs, and completions relative to knowing nothing in the same run."""
    ratios = [run[known]["completion_s"] / run[NOTHING]["completion_s"] for run in runs]
    means = {name: statistics.fmean(run[known][name] for run in runs) for name in runs[0][known]}
    return {**means, "relative": statistics.fmean(ratios), "relative_range": (min(ratios), max(ratios))}
