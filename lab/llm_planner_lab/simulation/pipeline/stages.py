# SPDX-License-Identifier: Apache-2.0
"""Stages and links as servers, first come first served: when is a micro-batch done, which stage is idle meanwhile?"""

from dataclasses import dataclass

from llm_planner.core.pipeline_times import PipelineTimes


@dataclass(frozen=True, slots=True)
class Passage:
    """One micro-batch on one stage.

    Attributes:
        stage: From 0.
        began_s: When the stage began to compute it.
        ended_s: When it had computed it.
        num_tokens: It holds.
        num_sequences: Of which these are.
    """

    stage: int
    began_s: float
    ended_s: float
    num_tokens: int
    num_sequences: int


class Stages:
    """Stages in a row with a link between neighbours; computing and sending overlap, as section 4.2 assumes.

    A link carries one message after the other; its latency comes on top and occupies neither stage. The sampled tokens
    go from the last stage to the scheduler in one latency.

    Args:
        num_stages: >= 1.
        times: Of one stage and one link.
        speeds: How much longer each stage takes than ``times`` says; by default 1. The sweep over skew sets them.
        is_recorded: Whether ``passages`` are kept.
    """

    def __init__(
        self, num_stages: int, times: PipelineTimes, speeds: tuple[float, ...] = (), is_recorded: bool = False
    ) -> None:
        self._times = times
        self._factors = speeds or (1.0,) * num_stages
        self._stage_free_s = [0.0] * num_stages
        self._link_free_s = [0.0] * num_stages
        self._is_recorded = is_recorded
        self.busy_s = [0.0] * num_stages
        self.passages: list[Passage] = []

    def send(self, now_s: float, num_tokens: int, kv_tokens: int, num_sequences: int) -> float:
        """Sends a micro-batch in; returns when its tokens are back at the scheduler."""
        compute_s = self._times.computation_s(num_tokens, kv_tokens)
        link_s, latency_s = self._times.link_s(num_tokens), self._times.link_latency_s
        stage_free_s, link_free_s, at_s = self._stage_free_s, self._link_free_s, now_s
        for stage, factor in enumerate(self._factors):
            took_s = compute_s * factor
            began_s = max(at_s, stage_free_s[stage])
            ended_s = stage_free_s[stage] = began_s + took_s
            self.busy_s[stage] += took_s
            if self._is_recorded:
                self.passages.append(Passage(stage, began_s, ended_s, num_tokens, num_sequences))
            link_free_s[stage] = max(ended_s, link_free_s[stage]) + link_s
            at_s = link_free_s[stage] + latency_s
        return ended_s + latency_s
