# SPDX-License-Identifier: Apache-2.0
"""``llm-planner simulate admission``: policies side by side on the same jobs, as in section 6 of A_min."""

import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from llm_planner.core.clock import ProcessorClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.length import LengthInterval
from llm_planner.scheduling.policies import make_policy
from llm_planner_lab.bench.timely.metrics import quantile
from llm_planner_lab.simulation.admission.algorithms import admission_names, make_admission
from llm_planner_lab.simulation.admission.jobs import TrueJob, draw, parse_interval
from llm_planner_lab.simulation.admission.run import AdmissionRun, RunResult
from llm_planner_lab.simulation.admission.scheduler_run import SchedulerRun
from llm_planner_lab.simulation.admission.step_time import UNIT, find_step_time

BASELINE = "h_sf"
LIVE = "live/"
"""Begins the names of the planner's own policies, which run behind its scheduler."""
OURS = f"{LIVE}tardiness_safe"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionExperiment:
    """What is run: each policy under each interval, number of jobs and seed.

    Attributes:
        policies: Names of admission policies, and ``live/NAME`` for policies of the planner; H-SF always runs as well.
        intervals: As ``parse_interval`` reads them.
        num_jobs: Sizes of the random subsets.
        kv_tokens: M.
        step: ``unit``, or a name or file of an engine profile.
        num_seeds: Random subsets per size.
        rate_per_s: Mean arrivals per unit or second, Poisson; 0 for all at the start, as in the paper.
        can_offload: Whether what yields under a policy of the planner moves to the host, or is computed again.
    """

    policies: tuple[str, ...]
    intervals: tuple[str, ...] = ("1:1000",)
    num_jobs: tuple[int, ...] = (200, 400)
    kv_tokens: int = 16492
    step: str = UNIT
    num_seeds: int = 3
    rate_per_s: float = 0.0
    can_offload: bool = True

    def __post_init__(self) -> None:
        for name in self.policies:
            if name.startswith(LIVE):
                make_policy(name.removeprefix(LIVE))
            else:
                make_admission(name, 1, random.Random(0))
        if not (self.policies and self.intervals and self.num_jobs):
            raise PlannerError(ErrorCode.INVALID_CONFIG, "it takes at least one policy, one interval and one n")
        if min(self.num_jobs) < 1 or self.num_seeds < 1 or self.kv_tokens < 1:
            raise PlannerError(ErrorCode.INVALID_CONFIG, "n, the seeds and the KV tokens must be at least 1")
        if not (math.isfinite(self.rate_per_s) and self.rate_per_s >= 0):
            raise PlannerError(ErrorCode.INVALID_CONFIG, f"a rate of {self.rate_per_s}; it takes a number >= 0")


def fitting_jobs(jobs: Sequence[TrueJob], kv_tokens: int) -> list[TrueJob]:
    """Returns the jobs that fit into the memory alone.

    Raises:
        PlannerError: OUT_OF_MEMORY if none does, with the memory that the smallest needs.
    """
    fitting = [job for job in jobs if job.peak_tokens <= kv_tokens]
    if not fitting:
        needed = min(job.peak_tokens for job in jobs)
        raise PlannerError(
            ErrorCode.OUT_OF_MEMORY,
            f"a KV memory of {kv_tokens} tokens holds none of the {len(jobs)} jobs; the smallest needs {needed}, "
            f"the largest {max(job.peak_tokens for job in jobs)}",
        )
    return fitting


def run_experiment(
    experiment: AdmissionExperiment, jobs: Sequence[TrueJob], on_progress: Callable[[str, float], None]
) -> dict[str, Any]:
    """Returns the JSON document: ``runs`` and ``ratio_to_h_sf``; latencies in units or seconds.

    Raises:
        PlannerError: If an interval does not hold the lengths, or the memory none of the jobs.
    """
    fitting = fitting_jobs(jobs, experiment.kv_tokens)
    names = tuple(dict.fromkeys((BASELINE, *experiment.policies)))
    cases = [(i, n, seed) for i in experiment.intervals for n in experiment.num_jobs for seed in _seeds(experiment)]
    runs: list[dict[str, Any]] = []
    for number, (interval, num_jobs, seed) in enumerate(cases):
        on_progress(f"{interval}, n = {num_jobs}, seed {seed}", number / len(cases))
        drawn = _with_arrivals(draw(fitting, num_jobs, random.Random(seed)), experiment.rate_per_s, seed)
        predict = parse_interval(interval)
        predicted = [predict(job.output_tokens) for job in drawn]
        outside = [
            j.output_tokens for j, i in zip(drawn, predicted, strict=True) if not i[0] <= j.output_tokens <= i[1]
        ]
        if outside:
            raise PlannerError(
                ErrorCode.INVALID_CONFIG, f"interval {interval} does not hold an output of {max(outside)} tokens"
            )
        for name in names:
            result = _run(experiment, name, drawn, predicted, seed)
            runs.append({"policy": name, "interval": interval, "n": num_jobs, "seed": seed, **_figures(result)})
    return {
        "runs": runs,
        "ratio_to_h_sf": {name: dict(_ratios(runs, name, experiment.intervals)) for name in names},
        "setup": {
            "kv_tokens": experiment.kv_tokens,
            "step": experiment.step,
            "num_seeds": experiment.num_seeds,
            "rate_per_s": experiment.rate_per_s,
            "can_offload": experiment.can_offload,
            "jobs": len(jobs),
            "left_out": len(jobs) - len(fitting),
        },
    }


def _run(
    experiment: AdmissionExperiment,
    name: str,
    jobs: Sequence[TrueJob],
    intervals: Sequence[LengthInterval],
    seed: int,
) -> RunResult:
    kv_tokens, step_time, clock = experiment.kv_tokens, find_step_time(experiment.step), ProcessorClock()
    if name.startswith(LIVE):
        policy = name.removeprefix(LIVE)
        can_offload = experiment.can_offload
        return SchedulerRun(jobs, intervals, policy, kv_tokens, step_time, can_offload=can_offload, clock=clock).run()
    admission = make_admission(name, kv_tokens, random.Random(seed))
    return AdmissionRun(jobs, intervals, admission, kv_tokens, step_time, clock=clock).run()


def _seeds(experiment: AdmissionExperiment) -> range:
    return range(experiment.num_seeds)


def _with_arrivals(jobs: list[TrueJob], rate_per_s: float, seed: int) -> list[TrueJob]:
    """Returns the jobs with exponential gaps between them, or as they are at a rate of 0."""
    if rate_per_s == 0:
        return jobs
    rng, now_s, arriving = random.Random(seed), 0.0, []
    for job in jobs:
        now_s += rng.expovariate(rate_per_s)
        arriving.append(TrueJob(prompt_tokens=job.prompt_tokens, output_tokens=job.output_tokens, arrival_s=now_s))
    return arriving


def _figures(result: RunResult) -> dict[str, Any]:
    decisions_ms = sorted(1000.0 * decision_s for decision_s in result.decision_s)
    return {
        "mean_latency": result.mean_latency_s,
        "overflows": result.overflows,
        "cancellations": result.cancellations,
        "decision_ms_p99": quantile(decisions_ms, 0.99),
        "end": result.end_s,
        "suspensions": result.suspensions,
        "moved_tokens": result.moved_tokens,
        "peak_host_tokens": result.peak_host_tokens,
    }


def _ratios(
    runs: Sequence[dict[str, Any]], policy: str, intervals: Sequence[str]
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yields by interval the mean and the largest ratio to H-SF on the same jobs."""
    for interval in intervals:
        latency = {
            (run["policy"], run["n"], run["seed"]): run["mean_latency"] for run in runs if run["interval"] == interval
        }
        ratios = [
            value / latency[BASELINE, num_jobs, seed]
            for (name, num_jobs, seed), value in latency.items()
            if name == policy
        ]
        yield interval, {"mean": statistics.fmean(ratios), "max": max(ratios)}


def default_policies() -> tuple[str, ...]:
    """Returns all policies but those that only proofs need, and ours."""
    return (*(name for name in admission_names() if name != "a_random"), OURS)
