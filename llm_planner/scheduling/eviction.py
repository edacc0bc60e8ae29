# SPDX-License-Identifier: Apache-2.0
"""Decides an eviction for a generation: the door through which a budget solver orders one."""

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.eviction import Eviction, num_removed_tokens
from llm_planner.core.interfaces import BackendInfo
from llm_planner.scheduling.generation import Generation


def decide_eviction(generation: Generation, eviction_ratio: float, info: BackendInfo) -> Eviction | None:
    """Orders the removal of a share of a generation's KV; returns what it comes to, None if nothing is removable.

    It is carried out in the next step in which the generation runs with its prompt computed. Until then the order can
    be changed; ratio 0 withdraws it. One that was carried out before a preemption stands: it will be repeated.

    Args:
        generation: Unfinished.
        eviction_ratio: Share of the prompt's KV that is removed, 0 to 1 (alpha of TimeBill, Eq. (11)). Protected
            tokens stay, so less may be removed: see ``num_removed_tokens`` of the result.
        info: The backend that runs it.

    Raises:
        PlannerError: EVICTION_UNSUPPORTED if the backend cannot evict.
        ValueError: If the ratio is out of range, or the generation is evicted already.
    """
    if not info.can_evict:
        raise PlannerError(
            ErrorCode.EVICTION_UNSUPPORTED,
            f"the backend of {info.model!r} cannot evict KV; use the torch backend, or a budget without eviction",
        )
    if generation.num_evicted_tokens:
        raise ValueError(f"{generation.request_id} is evicted already")
    if generation.is_eviction_final:
        return generation.eviction
    removed = num_removed_tokens(generation.sequence, eviction_ratio)
    after_tokens = max(generation.num_prompt_tokens, generation.num_computed_tokens)
    generation.eviction = Eviction(after_tokens=after_tokens, num_removed_tokens=removed) if removed else None
    return generation.eviction
