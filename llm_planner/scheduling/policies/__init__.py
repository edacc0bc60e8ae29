# SPDX-License-Identifier: Apache-2.0
"""Scheduling policies by name. To add one: a file here, and a line in ``_POLICIES``."""

from collections.abc import Callable

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.scheduling.policies.a_l import AL
from llm_planner.scheduling.policies.a_max import AMax
from llm_planner.scheduling.policies.a_min import AMin
from llm_planner.scheduling.policies.adaptive import Adaptive
from llm_planner.scheduling.policies.edf_segment import EdfSegment
from llm_planner.scheduling.policies.fcfs import Fcfs, FcfsSegment, FcfsStream
from llm_planner.scheduling.policies.gain_density import GainDensity
from llm_planner.scheduling.policies.interface import Policy
from llm_planner.scheduling.policies.memory_safe import MemorySafe
from llm_planner.scheduling.policies.pud import Pud
from llm_planner.scheduling.policies.pud_printed import PudPrinted
from llm_planner.scheduling.policies.tardiness import Tardiness
from llm_planner.scheduling.policies.tardiness_safe import TardinessSafe
from llm_planner.scheduling.policies.timelyllm_artifact import TimelyllmArtifact

_POLICIES: dict[str, Callable[[], Policy]] = {
    "fcfs": Fcfs,
    "fcfs_stream": FcfsStream,
    "fcfs_segment": FcfsSegment,
    "edf_segment": EdfSegment,
    "pud_printed": PudPrinted,
    "timelyllm_artifact": TimelyllmArtifact,
    "pud": Pud,
    "gain_density": GainDensity,
    "tardiness": Tardiness,
    "a_max": AMax,
    "a_min": AMin,
    "a_l": AL,
    "adaptive": Adaptive,
    "tardiness_safe": TardinessSafe,
}


def policy_names() -> tuple[str, ...]:
    """Returns the names of all policies."""
    return tuple(_POLICIES)


def make_policy(name: str) -> Policy:
    """Returns the policy of that name.

    Raises:
        PlannerError: INVALID_CONFIG, naming the known policies.
    """
    if name not in _POLICIES:
        known = ", ".join(policy_names())
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"no scheduling policy {name!r}; known are {known}")
    return _POLICIES[name]()


def decides_by_lengths(name: str) -> bool:
    """Returns whether the policy of that name decides by how long outputs are predicted to be.

    Raises: as ``make_policy``.
    """
    return isinstance(make_policy(name), MemorySafe)
