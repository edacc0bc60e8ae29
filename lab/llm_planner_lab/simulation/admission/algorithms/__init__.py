# SPDX-License-Identifier: Apache-2.0
"""Which jobs may hold KV memory: policies of admission under uncertain lengths, by name. One policy, one file."""

import random
from collections.abc import Callable

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner_lab.simulation.admission.algorithms.a_l import AL
from llm_planner_lab.simulation.admission.algorithms.a_max import AMax
from llm_planner_lab.simulation.admission.algorithms.a_min import AMin
from llm_planner_lab.simulation.admission.algorithms.a_random import ARandom
from llm_planner_lab.simulation.admission.algorithms.adaptive import Adaptive
from llm_planner_lab.simulation.admission.algorithms.h_sf import HSF, HSFVolume
from llm_planner_lab.simulation.admission.algorithms.interface import AdmissionPolicy

_POLICIES: dict[str, Callable[[int, random.Random], AdmissionPolicy]] = {
    policy.name: policy for policy in (AMax, AMin, AL, Adaptive, HSF, HSFVolume, ARandom)
}


def admission_names() -> tuple[str, ...]:
    """Returns the names of all policies."""
    return tuple(_POLICIES)


def make_admission(name: str, capacity_tokens: int, rng: random.Random) -> AdmissionPolicy:
    """Returns the policy of that name.

    Args:
        name: One of ``admission_names``.
        capacity_tokens: M, the tokens that fit into the KV memory.
        rng: Breaks ties.

    Raises:
        PlannerError: INVALID_CONFIG, naming the known policies.
    """
    if name not in _POLICIES:
        known = ", ".join(admission_names())
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"no admission policy {name!r}; known are {known}")
    return _POLICIES[name](capacity_tokens, rng)
