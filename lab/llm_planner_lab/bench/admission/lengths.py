# SPDX-License-Identifier: Apache-2.0
"""Lengths like those of the paper's chats, which are not ours to ship: drawn with their published moments."""

import math
import random

from llm_planner_lab.simulation.admission.jobs import TrueJob

NUM_JOBS = 2000
PROMPT_MEAN, PROMPT_MEDIAN, PROMPT_MAX = 41, 11, 468
OUTPUT_MEAN, OUTPUT_MEDIAN, OUTPUT_MAX = 85, 43, 883


def chat_like_jobs(seed: int = 0, num_jobs: int = NUM_JOBS) -> list[TrueJob]:
    """Returns jobs with the mean, median and largest lengths of section 6: log-normal, drawn again beyond the largest.

    Prompt and output are independent; the paper does not say how they depend on each other.
    """
    rng = random.Random(seed)
    return [
        TrueJob(
            prompt_tokens=_log_normal(PROMPT_MEAN, PROMPT_MEDIAN, PROMPT_MAX, rng),
            output_tokens=_log_normal(OUTPUT_MEAN, OUTPUT_MEDIAN, OUTPUT_MAX, rng),
        )
        for _ in range(num_jobs)
    ]


def _log_normal(mean: float, median: float, largest: int, rng: random.Random) -> int:
    while True:
        length = round(median * math.exp(rng.gauss(0.0, math.sqrt(2.0 * math.log(mean / median)))))
        if 1 <= length <= largest:
            return length
