# SPDX-License-Identifier: Apache-2.0
"""The theorems of A_min checked by simulation: ratios to H-SF for lengths of known distributions."""

import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from llm_planner.prediction.length import LengthInterval
from llm_planner_lab.simulation.admission.algorithms import make_admission
from llm_planner_lab.simulation.admission.jobs import TrueJob
from llm_planner_lab.simulation.admission.run import AdmissionRun
from llm_planner_lab.simulation.admission.step_time import UnitSteps

NUM_JOBS = (1000, 4000)
"""Sample sizes: the memory grows with them, so that what is of order 1 / M shows."""
NUM_SAMPLES = 10
WAVES = 25
"""M is chosen so that the jobs come in about this many rounds."""
UPPER = 40
GEOMETRIC_BOUND = 1.7
LINEAR_BOUND = 14 / 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What the paper says about a policy on a distribution, as M grows.

    Attributes:
        theorem: Where.
        policy: Of which.
        parameter: Of the distribution, in words.
        outputs: A sample of it.
        interval: What is predicted for all.
        bound: No ratio to H-SF is above it.
        expected: The ratio itself, where the paper gives it.
    """

    theorem: str
    policy: str
    parameter: str
    outputs: tuple[int, ...]
    interval: LengthInterval
    bound: float
    expected: float | None = None


def a_l_bound(alpha: float) -> float:
    """Returns the bound of Theorem 7."""
    return 1.0 + alpha / (2.0 * (1.0 - alpha)) if alpha <= 0.5 else 1.0 + 2.0 * alpha**2


def linear_ratio(q: float) -> float:
    """Returns the ratio of Theorem 8."""
    above = (1 + q) ** 2 * (1 + 3 * q + 6 * q**2 + 3 * q**3 + q**4)
    return above / (1 + 2 * q + 11 * q**2 + 8 * q**3 + 11 * q**4 + 2 * q**5 + q**6)


def claims(rng: random.Random, num_jobs: int) -> Iterator[Claim]:
    """Yields what is checked; two-point mixes are those that make the ratio of A_min largest: x_l / x_u = u / l."""
    for alpha in (0.2, 0.4, 0.5, 0.8):
        lower = round(alpha * UPPER)
        outputs = tuple(rng.choices((lower, UPPER), (1.0, alpha), k=num_jobs))
        interval = LengthInterval(lower, UPPER)
        for theorem, policy, bound in (("6", "a_min", (3 - alpha) / 2), ("7", "a_l", a_l_bound(alpha))):
            yield Claim(
                theorem=theorem,
                policy=policy,
                parameter=f"two points, alpha = {alpha:g}",
                outputs=outputs,
                interval=interval,
                bound=bound,
            )
    for q in (0.5, 0.8, 0.95):
        outputs = tuple(_geometric(q, rng) for _ in range(num_jobs))
        linear = tuple(_geometric(q, rng) + _geometric(q, rng) - 1 for _ in range(num_jobs))
        for theorem, name, sample, bound, expected in (
            ("5.2", "geometric", outputs, GEOMETRIC_BOUND, None),
            ("8", "linearly weighted geometric", linear, LINEAR_BOUND, linear_ratio(q)),
        ):
            yield Claim(
                theorem=theorem,
                policy="a_min",
                parameter=f"{name}, q = {q:g}",
                outputs=sample,
                interval=LengthInterval(1, max(sample)),
                bound=bound,
                expected=expected,
            )


def checked(num_jobs: Sequence[int], num_samples: int) -> list[dict[str, Any]]:
    """Returns for each claim and sample size the ratios over several samples."""
    rows = []
    for size in num_jobs:
        samples = [list(claims(random.Random(seed), size)) for seed in range(num_samples)]
        for alike in zip(*samples, strict=True):
            ratios = [ratio_to_h_sf(claim, seed) for seed, claim in enumerate(alike)]
            first = alike[0]
            rows.append(
                {
                    "theorem": first.theorem,
                    "policy": first.policy,
                    "distribution": first.parameter,
                    "n": size,
                    "kv_tokens": kv_tokens(first),
                    "ratio": statistics.fmean(ratios),
                    "spread": statistics.stdev(ratios) if len(ratios) > 1 else 0.0,
                    "expected": first.expected,
                    "lemma_2": lemma_2(first.outputs, first.interval.lower) if first.policy == "a_min" else None,
                    "bound": first.bound,
                    "num_above": sum(ratio > first.bound for ratio in ratios),
                    "num_samples": num_samples,
                }
            )
    return rows


def kv_tokens(claim: Claim) -> int:
    """Returns M: as much as makes the jobs come in ``WAVES`` rounds, and at least room for two."""
    return max(2 * max(claim.outputs), sum(claim.outputs) // WAVES)


def ratio_to_h_sf(claim: Claim, seed: int = 0) -> float:
    """Returns the measured ratio of mean latencies; prompts are empty, as in the proofs."""
    own, best = (
        _mean_latency(name, claim.outputs, claim.interval, kv_tokens(claim), seed) for name in (claim.policy, "h_sf")
    )
    return own / best


def lemma_2(outputs: Sequence[int], lower: int) -> float:
    """Returns the ratio of A_min to H-SF as M grows, of these outputs without prompts: Lemma 2 with s = 0."""
    upper = max(outputs)
    share = [0.0] * (upper + 1)
    for output in outputs:
        share[output] += 1.0 / len(outputs)
    above = below = 0.0
    for k in range(lower, upper + 1):
        delta = float(lower) if k == lower else 1.0
        left = range(k, upper + 1)
        served = sum((delta + 2.0 * (i - k)) / i * share[i] for i in left)
        above += delta * sum(i * share[i] for i in left) * served
        below += k * k * share[k] * (share[k] + 2.0 * sum(share[k + 1 :]))
    return above / below


def _mean_latency(
    name: str, outputs: Sequence[int], interval: LengthInterval, capacity_tokens: int, seed: int
) -> float:
    jobs = [TrueJob(prompt_tokens=0, output_tokens=output) for output in outputs]
    policy = make_admission(name, capacity_tokens, random.Random(seed))
    return AdmissionRun(jobs, [interval] * len(jobs), policy, capacity_tokens, UnitSteps()).run().mean_latency_s


def _geometric(q: float, rng: random.Random) -> int:
    length = 1
    while rng.random() < q:
        length += 1
    return length
