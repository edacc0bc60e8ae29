# SPDX-License-Identifier: Apache-2.0
"""The speed of an engine without a profile: what the scheduler counts on, and how much more carefully."""

import re
from dataclasses import replace
from typing import NamedTuple

from llm_planner.core.config import PlannerConfig, SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.profile import AUTO, EngineProfile, find_profile
from llm_planner.prediction.throughput.estimate import Estimate
from llm_planner.prediction.throughput.kernel_model import KernelModel
from llm_planner.prediction.throughput.model_file import load_kernel_model
from llm_planner.prediction.throughput.server_profile import server_profile
from llm_planner.prediction.throughput.table import Combination, Workload

PREFIX = "estimate:"
MOST_PESSIMISM = 100.0
TYPICAL = Workload(input_tokens=512, output_tokens=512, batch_size=8)
"""Its mean context while decoding is that of a planner with a long prompt and a short plan, roughly."""


class EstimatedProfile(NamedTuple):
    """A profile that was not measured.

    Attributes:
        profile: At the expected throughput.
        estimate: Of a typical workload: how far to trust it.
        combination: Of what.
    """

    profile: EngineProfile
    estimate: Estimate
    combination: Combination


_DEVICES = re.compile(r"[1-9][0-9]{0,5}")


def is_estimate(name: str) -> bool:
    """Returns whether a profile's name asks for an estimate."""
    return name.startswith(PREFIX)


def estimated_profile(name: str, model: KernelModel | None = None) -> EstimatedProfile:
    """Returns the profile of ``estimate:HARDWARE/DEVICES/FRAMEWORK/MODEL``, from the shipped throughput model.

    Raises:
        PlannerError: INVALID_CONFIG if the name has another form, or such a server makes no sense.
    """
    parts = name.removeprefix(PREFIX).split("/", 3)
    if len(parts) < 4 or not all(parts) or not _DEVICES.fullmatch(parts[1]):
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"the profile {name!r} must be {PREFIX}HARDWARE/DEVICES/FRAMEWORK/MODEL, for example "
            f"{PREFIX}Nvidia H100 GPU/1/vLLM/meta-llama/Meta-Llama-3-8B",
        )
    combination = Combination(parts[0], int(parts[1]), parts[2], parts[3])
    model = model or load_kernel_model()
    profile = replace(server_profile(model, combination), model="")  # the engine may call it otherwise
    return EstimatedProfile(profile, model.estimate(combination, TYPICAL), combination)


def known_speed(config: PlannerConfig) -> tuple[EngineProfile | None, SchedulerConfig]:
    """Returns what is known of an engine's speed before its first step, and the scheduler's settings for that.

    A measured profile leaves the settings as they are; an estimate widens the pessimistic factor by its uncertainty.
    The engine's own profile (``auto``) needs the engine: ``engine_profile`` has it.

    Raises:
        PlannerError: INVALID_CONFIG if the profile cannot be found or estimated.
    """
    name, settings = config.engine.profile, config.scheduler
    if name in {"", AUTO}:
        return None, settings
    if not is_estimate(name):
        profile = find_profile(name)
        slowdown = 1.0 if profile.capacity is None else profile.capacity.slowdown
        return profile, replace(settings, pessimism=min(MOST_PESSIMISM, settings.pessimism * slowdown))
    found = estimated_profile(name)
    return found.profile, replace(settings, pessimism=widened(settings.pessimism, found.estimate))


def widened(k: float, estimate: Estimate) -> float:
    """Returns the pessimistic factor for a speed that is only estimated; never less than ``k``.

    Budgets count on ``k`` times the expected tokens (TimeBill, section 4.2). If the engine may be slower than expected
    by a factor, up to the slow end of the 90 % interval, they count on as many times more: a confident estimate hardly
    changes ``k``, a guess makes the solver refuse what it cannot guarantee.
    """
    return min(MOST_PESSIMISM, k * max(1.0, estimate.tokens_per_s / estimate.low_tokens_per_s))
