# SPDX-License-Identifier: Apache-2.0
"""How long a step takes: one unit, or as an engine profile says."""

from dataclasses import dataclass
from typing import Protocol

from llm_planner.prediction.profile import EngineProfile, find_profile

UNIT = "unit"
MOVED_TOKENS_PER_UNIT = 2900
"""Tokens of KV that cross the bus in one unit.

Llama-3-8B on an RTX 4090, from TimelyLLM: 170.35 MB, that is 1,300 tokens, in 9.50 ms, against 21.38 ms for a decode
step. A larger model moves more bytes per token and takes longer steps, in about the same proportion.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLoad:
    """What a step has to do.

    Attributes:
        num_seqs: Jobs that get a token.
        kv_tokens: In their caches before the step.
        prompts: Lengths of the prompts that are computed in it.
        offloaded: Tokens of each cache that moves to the host.
        restored: Tokens of each cache that comes back.
    """

    num_seqs: int
    kv_tokens: int
    prompts: tuple[int, ...] = ()
    offloaded: tuple[int, ...] = ()
    restored: tuple[int, ...] = ()


class StepTime(Protocol):
    """A model of step times."""

    @property
    def name(self) -> str:
        """Its name on the command line."""
        ...

    def step_s(self, load: StepLoad) -> float:
        """Returns how long a step takes; nothing is hidden: moving KV holds it up."""
        ...


class UnitSteps:
    """Each batch takes one unit, as the paper's model has it (section 2); moving KV is not free."""

    name = UNIT

    def step_s(self, load: StepLoad) -> float:
        """Returns 1, and the time of the bus."""
        return 1.0 + (sum(load.offloaded) + sum(load.restored)) / MOVED_TOKENS_PER_UNIT


class ProfiledSteps:
    """Steps of an engine profile, prompts computed in the step in which their job starts.

    Args:
        profile: Of the engine.
    """

    def __init__(self, profile: EngineProfile) -> None:
        self.name = profile.name
        self._profile = profile
        self._decode = profile.decode

    def step_s(self, load: StepLoad) -> float:
        """Returns what ``EngineProfile.step_s`` does for the same chunks, and the time of moving KV."""
        profile, decode = self._profile, self._decode
        prefill_s = sum(profile.prefill_s(tokens) for tokens in load.prompts)
        num_decodes = load.num_seqs - len(load.prompts)
        moved_s = sum(profile.offload.time_s(tokens) for tokens in load.offloaded)
        moved_s += sum(profile.resume.time_s(tokens) for tokens in load.restored)
        if load.num_seqs == 0:
            return moved_s
        kv_s = decode.per_kv_token_s.value * (load.kv_tokens - sum(load.prompts))
        if profile.hides_prompts:
            batch_s = max(decode.base_s.value, prefill_s) + decode.per_sequence_s.value * (load.num_seqs - 1)
            return batch_s + kv_s + moved_s
        decode_s = decode.base_s.value + decode.per_sequence_s.value * (num_decodes - 1) if num_decodes else 0.0
        return prefill_s + decode_s + kv_s + moved_s


def find_step_time(name: str) -> StepTime:
    """Returns unit steps, or those of an engine profile by its name or file.

    Raises:
        PlannerError: INVALID_CONFIG if there is no such profile.
    """
    return UnitSteps() if name == UNIT else ProfiledSteps(find_profile(name))
