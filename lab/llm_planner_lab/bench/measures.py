# SPDX-License-Identifier: Apache-2.0
"""What each measure saves of an urgent goal's time, computed from an engine profile: nothing runs here."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from llm_planner.core.execution_time import CoBatch
from llm_planner.prediction.execution_time import ProfiledTime
from llm_planner.prediction.profile import EngineProfile
from llm_planner.scheduling.budget import Lengths, Setup, Task, execution_s

STEPS_PER_TOKEN = 0.43
"""With forced tokens and drafts: of the bundled model (docs/engine.md). Of another model it has to be measured."""
CONTEXTS = (1_000, 8_000, 32_000)
BATCHES = (1, 16, 64)
EVICTED = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An urgent goal, and the engine that it meets.

    Attributes:
        num_tokens: To be generated before the robot has what its budget covers.
        prefix_tokens: Of the robot model: the same in every prompt.
        is_prefix_cached: Whether their KV is there.
        scene_tokens: Of the prompt.
        other_tokens: Of the prompt: instruction and what is around it.
        num_others: Sequences that decode along.
        kv_per_other: Tokens in the cache of each of them.
        num_waiting: Goals that came before it and wait for a slot, too.
        plan_tokens: Of every plan.
        is_reserved: Whether it takes a slot at once; half a step is over on average before.
        steps_per_token: Decode steps; below 1, another row is computed in each.
        weight_share: Of the bytes of weights that the profile's steps read.
    """

    num_tokens: int = 40
    prefix_tokens: int = 1_150
    is_prefix_cached: bool = False
    scene_tokens: int = 1_000
    other_tokens: int = 40
    num_others: int = 15
    kv_per_other: int = 2_200
    num_waiting: int = 8
    plan_tokens: int = 40
    is_reserved: bool = False
    steps_per_token: float = 1.0
    weight_share: float = 1.0


def _quantised(case: Case) -> Case:
    return replace(case, weight_share=0.25)


MEASURES: Mapping[str, Callable[[Case], Case]] = {
    "a budget for the first segment, not for the whole plan": lambda c: replace(c, num_tokens=10),
    "a reserved slot": lambda c: replace(c, is_reserved=True),
    "the prefix's KV in the cache": lambda c: replace(c, is_prefix_cached=True),
    "scene pruning, to a tenth": lambda c: replace(c, scene_tokens=c.scene_tokens // 10),
    "forced tokens and drafts": lambda c: replace(c, steps_per_token=STEPS_PER_TOKEN),
    "a batch cap of 4": lambda c: replace(c, num_others=3),
    "weights in 4 bits instead of 16": _quantised,
}


def seconds(profile: EngineProfile, case: Case, weights_s: float) -> float:
    """Returns the time until the last token of the goal is out, by the estimator that decides about time budgets.

    Args:
        profile: Of the engine.
        case: The goal.
        weights_s: Of each decode step, what reading all weights takes.
    """
    base = profile.decode.base_s
    less_s = min(base.value, weights_s) * (1.0 - case.weight_share)
    decode = replace(profile.decode, base_s=replace(base, value=base.value - less_s))
    time = ProfiledTime(replace(profile, decode=decode))
    slots = case.num_others + 1
    line = time.decode_line(slots)
    step_s = line.q_s + line.p_s * slots * case.kv_per_other
    num_slot_ends = case.num_waiting + 1  # until one is left for it
    wait_s = 0.5 * step_s if case.is_reserved else step_s * num_slot_ends * case.plan_tokens / slots
    cached = case.prefix_tokens if case.is_prefix_cached else 0
    computed = case.prefix_tokens - cached + case.scene_tokens + case.other_tokens
    task = Task(
        num_uncomputed_tokens=computed, kv_len=cached, lengths=Lengths(expected=1.0), max_tokens=case.num_tokens
    )
    num_rows = round(1.0 / case.steps_per_token) - 1
    co_batch = CoBatch(case.num_others + num_rows, case.num_others * case.kv_per_other)
    num_steps = 1 + math.ceil((case.num_tokens - 1) * case.steps_per_token)
    return execution_s(task, num_steps, Setup(wait_s=wait_s, co_batch=co_batch), time)


def eviction(profile: EngineProfile) -> list[dict[str, float]]:
    """Returns, by context and batch, what a decode step takes and what it takes after an eviction."""
    line_of = ProfiledTime(profile).decode_line
    rows = []
    for context in CONTEXTS:
        for batch in BATCHES:
            line = line_of(batch)
            whole_s = line.q_s + line.p_s * batch * context
            evicted_s = line.q_s + line.p_s * batch * context * (1.0 - EVICTED)
            rows.append(
                {
                    "context": context,
                    "batch": batch,
                    "step_s": whole_s,
                    "evicted_step_s": evicted_s,
                    "fits": batch * context <= profile.num_kv_blocks * profile.block_size,
                }
            )
    return rows


def run_measures(profile: EngineProfile, weights_gb: float, bandwidth_gb_s: float) -> dict[str, Any]:
    """Returns the JSON document: each measure by itself, and all of them, one after the other."""
    weights_s = weights_gb / bandwidth_gb_s
    first = together = Case()
    plain_s = before_s = seconds(profile, first, weights_s)
    rows = []
    for name, apply in MEASURES.items():
        together = apply(together)
        after_s = seconds(profile, together, weights_s)
        alone_s = seconds(profile, apply(first), weights_s)
        rows.append({"measure": name, "alone_s": alone_s, "together_s": after_s, "saved_s": before_s - after_s})
        before_s = after_s
    return {
        "profile": profile.name,
        "description": profile.description,
        "weights_gb": weights_gb,
        "bandwidth_gb_s": bandwidth_gb_s,
        "steps_per_token": STEPS_PER_TOKEN,
        "evicted": EVICTED,
        "case": asdict(first),
        "plain_s": plain_s,
        "rows": rows,
        "eviction": eviction(profile),
    }
