# SPDX-License-Identifier: Apache-2.0
"""The execution-time estimator (ETE) of TimeBill, section 4.2: an engine profile, corrected while the engine runs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.execution_time import ALONE, MOST_DECODED_TOKENS, CoBatch, DecodeLine, WorkChunk
from llm_planner.core.interfaces import BackendInfo
from llm_planner.prediction.profile import Chunk, EngineProfile

GAIN = 1 / 16
MOST_OFF = 4.0
"""One step moves a correction as if it had been off by no more than this factor: a hiccup is no drift."""
HALF_LIFE_S = 60.0
"""Of a correction while no step tells more. Budgets may be refused for it, and then nothing runs that could end it."""


STALE_RATIO = 1.5
"""Steps that are longer or shorter than profiled by this factor are those of another engine, or another machine."""
STALE_S = 120.0
"""Time of such steps without a break, after which a profile is stale: another program may end again."""


class Drift:
    """How far steps are from what was expected of them: a smoothed ratio, and its spread.

    Slow changes (temperature, another program's load) move the ratio; single steps only widen the spread.

    Args:
        noise_ratio: How many times longer than expected 5 % of the steps are, at least, as far as is known.
    """

    def __init__(self, noise_ratio: float = 1.0) -> None:
        self._mean = 0.0  # of the logarithm of the ratio
        self._deviation = self._first_deviation = math.log(noise_ratio) / 2.0

    def observe(self, measured_s: float, expected_s: float) -> None:
        """Learns from one step; one that took no time, or should have, says nothing."""
        if measured_s <= 0.0 or expected_s <= 0.0:
            return
        error = math.log(measured_s / expected_s) - self._mean
        error = max(-math.log(MOST_OFF), min(math.log(MOST_OFF), error))
        self._mean += GAIN * error
        self._deviation += GAIN * (abs(error) - self._deviation)

    def rest(self, idle_s: float) -> None:
        """Forgets, with ``HALF_LIFE_S``, what it learned before ``idle_s`` >= 0 without a step."""
        kept = 0.5 ** (idle_s / HALF_LIFE_S)
        self._mean *= kept
        self._deviation = self._first_deviation + kept * (self._deviation - self._first_deviation)

    @property
    def ratio(self) -> float:
        """Measured over expected, of late."""
        return math.exp(self._mean)

    @property
    def cautious_ratio(self) -> float:
        """The ratio and twice its mean deviation."""
        return math.exp(self._mean + 2.0 * self._deviation)


@dataclass(frozen=True, slots=True)
class ProfiledTime:
    """Implements ``core.execution_time.ExecutionTime`` with a profile and two factors.

    Eqs. (4) to (6) of TimeBill. Deviation: decode steps are those of a batch, of which ``K`` counts all caches; prompts
    are computed in chunks behind what is cached of them, while others decode.
    """

    profile: EngineProfile
    prefill_factor: float = 1.0
    decode_factor: float = 1.0

    def prefill_s(self, num_tokens: int, kv_len: int, chunk_tokens: int, co_batch: CoBatch = ALONE) -> float:
        """Returns the seconds until a prompt's last ``num_tokens`` are computed and its first token is out."""
        others = [Chunk(1, co_batch.kv_tokens), *[Chunk(1, 0)] * (co_batch.num_seqs - 1)] if co_batch.num_seqs else []
        time_s, end = 0.0, kv_len + num_tokens
        while kv_len < end:
            num = min(chunk_tokens, end - kv_len)
            time_s += self.profile.step_s([Chunk(num, kv_len), *others])
            kv_len += num
        return self.prefill_factor * time_s

    def decode_line(self, num_seqs: int) -> DecodeLine:
        """Returns what one decode step of ``num_seqs`` sequences takes."""
        decode = self.profile.decode
        q_s = decode.base_s.value + decode.per_sequence_s.value * (num_seqs - 1)
        return DecodeLine(self.decode_factor * q_s, self.decode_factor * decode.per_kv_token_s.value)

    def evict_s(self, num_tokens: int) -> float:
        """Returns what an eviction from a cache of ``num_tokens`` takes; it reads memory, as decode steps do."""
        return self.decode_factor * self.profile.evict.time_s(num_tokens)

    def restore_s(self, num_tokens: int) -> float:
        """Returns what bringing offloaded KV back takes; it moves memory, as decode steps do."""
        return self.decode_factor * self.profile.resume.time_s(num_tokens)


class ProfiledTimes:
    """Implements ``core.execution_time.EngineTimes``: a profile and its online correction.

    Prompts and decode steps drift apart: one is held up by computing, the other by reading memory.

    Args:
        profile: Of this engine.
        on_stale: Called once, with the ratio of decode steps, when they have been off by ``STALE_RATIO`` for
            ``STALE_S`` of the engine's time.
    """

    is_known = True

    def __init__(self, profile: EngineProfile, on_stale: Callable[[float], None] | None = None) -> None:
        self.profile = profile
        self._prefill = Drift(profile.noise_ratio.value)
        self._decode = Drift(profile.noise_ratio.value)
        self._on_stale = on_stale
        self._off_s = 0.0

    @property
    def expected(self) -> ProfiledTime:
        """The profile, times how far it is off of late."""
        return ProfiledTime(self.profile, self._prefill.ratio, self._decode.ratio)

    @property
    def cautious(self) -> ProfiledTime:
        """The same, and twice the deviation of single steps."""
        return ProfiledTime(self.profile, self._prefill.cautious_ratio, self._decode.cautious_ratio)

    @property
    def drift(self) -> float:
        """Measured over profiled time of recent decode steps."""
        return self._decode.ratio

    @property
    def source(self) -> str:
        """Name of the profile, and when it was measured, as far as it says."""
        when = f", measured at {self.profile.measured_at}" if self.profile.measured_at else ""
        return f"profile {self.profile.name}{when}"

    def observe(self, chunks: Sequence[WorkChunk], duration_s: float) -> None:
        """Learns from a step that did nothing but compute ``chunks``."""
        has_prompt = any(num_tokens > MOST_DECODED_TOKENS for num_tokens, _ in chunks)
        drift = self._prefill if has_prompt else self._decode
        drift.observe(duration_s, self.profile.step_s(Chunk(*chunk) for chunk in chunks))
        is_off = abs(math.log(self._decode.ratio)) > math.log(STALE_RATIO)
        self._off_s = self._off_s + duration_s if is_off else 0.0
        if self._on_stale is not None and self._off_s >= STALE_S:
            on_stale, self._on_stale = self._on_stale, None
            on_stale(self._decode.ratio)

    def rest(self, idle_s: float) -> None:
        """Forgets some of the correction: what slowed the engine may have ended."""
        self._prefill.rest(idle_s)
        self._decode.rest(idle_s)


def check_fits(profile: EngineProfile, info: BackendInfo) -> None:
    """Checks that a profile was measured on this engine.

    Raises:
        PlannerError: INVALID_CONFIG, naming what the profile is of and what runs here.
    """
    for what, of_profile, here in (("model", profile.model, info.model), ("device", profile.device, info.device)):
        if of_profile and of_profile != here:
            raise PlannerError(
                ErrorCode.INVALID_CONFIG,
                f"profile {profile.name!r} is of the {what} {of_profile!r}, but the engine's is {here or 'unknown'!r}; "
                "measure this engine with llm-planner profile",
            )
