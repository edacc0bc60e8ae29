# SPDX-License-Identifier: Apache-2.0
"""What we tell vLLM's scheduler before each step."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """The requests that may run in the next step.

    Attributes:
        num_tokens: Per request, in the order of service, how many tokens it is meant to compute.
        suspended: Suspended requests in the order in which they give up their KV.
        urgent: Requests that must not be held back for the sake of balance among micro-batches.
    """

    num_tokens: Mapping[str, int] = field(default_factory=dict)
    suspended: tuple[str, ...] = ()
    urgent: frozenset[str] = frozenset()
