# SPDX-License-Identifier: Apache-2.0
"""The theorems of A_min checked by simulation: ratios to H-SF for lengths of known distributions."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from llm_planner.prediction.length import LengthInterval
from llm_planner.scheduling.admission import make_admission
from llm_planner_lab.simulation.admission.jobs import TrueJob
from llm_planner_lab.simulation.admission.run import AdmissionRun
from llm_planner_lab.simulation.admission.step_time import UnitSteps

NUM_JOBS = 3000
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


def claims(rng: random.Random, num_jobs: int = NUM_JOBS) -> Iterator[Claim]:
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


def check(claim: Claim, seed: int = 0) -> dict[str, Any]:
    """Returns the measured ratio with the claim; prompts are empty, as in the proofs."""
    kv_tokens = max(2 * max(claim.outputs), sum(claim.outputs) // WAVES)
    latency = {
        name: _mean_latency(name, claim.outputs, claim.interval, kv_tokens, seed) for name in ("h_sf", claim.policy)
    }
    ratio = latency[claim.policy] / latency["h_sf"]
    return {
        "theorem": claim.theorem,
        "policy": claim.policy,
        "distribution": claim.parameter,
        "kv_tokens": kv_tokens,
        "ratio": ratio,
        "expected": claim.expected,
        "bound": claim.bound,
        "holds": ratio <= claim.bound,
    }


def _mean_latency(name: str, outputs: Sequence[int], interval: LengthInterval, kv_tokens: int, seed: int) -> float:
    jobs = [TrueJob(prompt_tokens=0, output_tokens=output) for output in outputs]
    policy = make_admission(name, kv_tokens, random.Random(seed))
    return AdmissionRun(jobs, [interval] * len(jobs), policy, kv_tokens, UnitSteps()).run().mean_latency_s


def _geometric(q: float, rng: random.Random) -> int:
    length = 1
    while rng.random() < q:
        length += 1
    return length
