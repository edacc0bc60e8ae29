# SPDX-License-Identifier: Apache-2.0
"""How long the steps of a profiled engine take, one behind the other."""

import math
from collections.abc import Sequence

from llm_planner.core.execution_time import MOST_DECODED_TOKENS
from llm_planner.prediction.profile import Chunk, EngineProfile


def step_s(profile: EngineProfile, chunks: Sequence[Chunk]) -> float:
    """Returns the seconds of a step, warm and not right behind a prompt.

    Further tokens of a sequence that decodes (forced by the grammar, or a draft) count as those of a prompt: they share
    its cache and its bookkeeping. They take a little longer (docs/benchmarks/live.md). ``EngineProfile.step_s``, which
    decides in service, counts each as a sequence of its own, to be on the safe side.
    """
    num_more = sum(chunk.num_tokens - 1 for chunk in chunks if 1 < chunk.num_tokens <= MOST_DECODED_TOKENS)
    first = [chunk._replace(num_tokens=1) if chunk.num_tokens <= MOST_DECODED_TOKENS else chunk for chunk in chunks]
    row_s = min(profile.decode.per_sequence_s.value, profile.prefill.b_s_per_token.value)
    return profile.step_s(first) + num_more * row_s


class ProfiledSteps:
    """What a profile says of each step: the first ones behind a prompt take longer, and those of an engine that cooled.

    What a cold step keeps of the cold was measured on decode steps; a longer one warms as several of them do.

    Attributes:
        cold: How far it has cooled: 0 for not at all, 1 for as cold as it gets.
    """

    def __init__(self, profile: EngineProfile) -> None:
        self._profile = profile
        self._num_since_prompt = 0
        self.cold = 0.0

    def idle(self, time_s: float) -> None:
        """Does nothing for some time, and cools."""
        self.cold = 1.0 - (1.0 - self.cold) * math.exp(-time_s / self._profile.idle.cools_s.value)

    def run(self, chunks: Sequence[Chunk]) -> float:
        """Runs a step; returns how long it takes, in seconds."""
        idle = self._profile.idle
        if not chunks:  # KV is moved, or released
            return 0.0
        time_s = step_s(self._profile, chunks)
        cold = self.cold
        if any(chunk.num_tokens > MOST_DECODED_TOKENS for chunk in chunks):
            self._num_since_prompt = 0
            time_s += cold * idle.prompt_s.value
        else:
            self._num_since_prompt += 1
            time_s = time_s * self._profile.first_ratio(self._num_since_prompt) + cold * idle.decode_s.value
        cold_step_s = self._profile.decode.base_s.value + idle.decode_s.value
        self.cold = cold * idle.kept.value ** max(1.0, time_s / cold_step_s if cold_step_s else 1.0)
        return time_s
