# SPDX-License-Identifier: Apache-2.0
"""Measures what the steps of an engine take longer behind a time in which it did nothing."""

import math
import statistics
import time
from collections.abc import Callable

from llm_planner.prediction.fit import measured
from llm_planner.prediction.prober import Prober
from llm_planner.prediction.profile import NO_IDLE_COST, IdleCost

NUM_TOKENS = 100
"""Of the prompts: about as many as those of robots have behind their static part."""
NUM_STEPS = 4
COLD_S, COOLING_S = 0.3, 0.05
"""Idle times behind which an engine is cold, and about half way there."""
LEAST_SHARE = 0.01
"""Of a warm step: what a cold one takes longer beyond it is no noise."""


def measure_idle(prober: Prober, num_repeats: int, sleep: Callable[[float], None] = time.sleep) -> IdleCost:
    """Returns what an engine's steps take longer behind an idle time; warm and cold ones in turn.

    Args:
        prober: Of the engine.
        num_repeats: Of each idle time.
        sleep: Waits.
    """
    idle_times_s = (0.0, COOLING_S, COLD_S)
    decodes: dict[float, list[list[float]]] = {idle_s: [] for idle_s in idle_times_s}
    prompts: dict[float, list[float]] = {idle_s: [] for idle_s in idle_times_s}
    for _ in range(num_repeats):
        for idle_s in idle_times_s:
            decodes[idle_s].append(prober.behind(lambda s=idle_s: sleep(s), NUM_TOKENS, NUM_STEPS))  # type: ignore[misc]
            prompts[idle_s].append(prober.behind(lambda s=idle_s: sleep(s), NUM_TOKENS, 0)[0])  # type: ignore[misc]
    whole = {idle_s: [row for row in rows if len(row) == NUM_STEPS] for idle_s, rows in decodes.items()}
    if not all(whole.values()):  # its plans end too soon
        return NO_IDLE_COST
    steps = {idle_s: [statistics.median(place) for place in zip(*rows, strict=True)] for idle_s, rows in whole.items()}
    extra = {idle_s: [step - warm for step, warm in zip(steps[idle_s], steps[0.0], strict=True)] for idle_s in steps}
    prompt_s = max(0.0, statistics.median(prompts[COLD_S]) - statistics.median(prompts[0.0]))
    if extra[COLD_S][0] < LEAST_SHARE * steps[0.0][0]:
        return NO_IDLE_COST
    kept = sum(extra[COLD_S][1:]) / sum(extra[COLD_S][:-1])
    cold = min(0.99, max(0.01, extra[COOLING_S][0] / extra[COLD_S][0]))
    return IdleCost(
        prompt_s=measured(prompt_s),
        decode_s=measured(extra[COLD_S][0]),
        kept=measured(min(1.0, max(0.0, kept))),
        cools_s=measured(-COOLING_S / math.log(1.0 - cold)),
    )
