# SPDX-License-Identifier: Apache-2.0
"""How long one stage and one link of a pipeline take for one micro-batch: what Algorithm 2 and the simulator ask."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineTimes:
    """``computation_times()`` and ``communication_times()`` of Dynamic Micro-Batch Scheduling, section 4.2; both lines.

    Deviation: the paper's models take the number of tokens alone; here a stage also reads the KV of its sequences, and
    what a link needs for each message is told apart from its latency, which occupies neither stage.

    Attributes:
        compute_base_s: A stage that computes one micro-batch, however small: its weights are read once.
        compute_per_token_s: And for each of its tokens.
        compute_per_kv_token_s: And for each token in the caches of its sequences.
        link_latency_s: From the end of a message at one stage to its arrival at the next.
        link_per_token_s: Time for which each token occupies a link.
    """

    compute_base_s: float
    compute_per_token_s: float
    compute_per_kv_token_s: float = 0.0
    link_latency_s: float = 0.0
    link_per_token_s: float = 0.0

    def computation_s(self, num_tokens: float, kv_tokens: float = 0.0) -> float:
        """Returns the seconds that one stage computes."""
        return self.compute_base_s + self.compute_per_token_s * num_tokens + self.compute_per_kv_token_s * kv_tokens

    def link_s(self, num_tokens: float) -> float:
        """Returns the seconds that one link is occupied."""
        return self.link_per_token_s * num_tokens

    def communication_s(self, num_tokens: float) -> float:
        """Returns the seconds from one stage to the next: ``comm_time`` of Eq. (1)."""
        return self.link_latency_s + self.link_per_token_s * num_tokens

    def traversal_s(self, num_stages: int, num_tokens: float, kv_tokens: float = 0.0) -> float:
        """Returns the seconds that a lone micro-batch needs through all stages: Eq. (1)."""
        compute_s = self.computation_s(num_tokens, kv_tokens)
        return num_stages * compute_s + (num_stages - 1) * self.communication_s(num_tokens)
