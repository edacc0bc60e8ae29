# SPDX-License-Identifier: Apache-2.0
"""How long the steps of a profiled engine take, one behind the other."""

import math
from collections.abc import Sequence

from llm_planner.core.execution_time import MOST_DECODED_TOKENS
from llm_planner.prediction.profile import Chunk, EngineProfile


class ProfiledSteps:
    """What a profile says of each step: the first ones behind a prompt take longer, and those of an engine that cooled.

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
        step_s, idle = self._profile.step_s(chunks), self._profile.idle
        if not chunks:  # KV is moved, or released
            return step_s
        cold, self.cold = self.cold, self.cold * idle.kept.value
        if any(chunk.num_tokens > MOST_DECODED_TOKENS for chunk in chunks):
            self._num_since_prompt = 0
            return step_s + cold * idle.prompt_s.value
        self._num_since_prompt += 1
        return step_s * self._profile.first_ratio(self._num_since_prompt) + cold * idle.decode_s.value
