# SPDX-License-Identifier: Apache-2.0
"""``engine.profile: auto``: an engine's own profile, measured once, in seconds, and kept in the cache directory."""

import hashlib
import json
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from llm_planner import __version__
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Backend
from llm_planner.core.resources import cache_dir
from llm_planner.core.step import SamplingParams
from llm_planner.engine.fingerprint import weights_fingerprint
from llm_planner.planning.grammar import lark_grammar
from llm_planner.prediction.execution_time import check_fits
from llm_planner.prediction.measurement import QUICK_WARM_STEPS, is_enough, make_profile, measure_within
from llm_planner.prediction.prober import ROUNDS, Prober
from llm_planner.prediction.profile import EngineProfile, load_profile, write_profile
from llm_planner.prediction.whole_steps import WholeSteps
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.model import RobotModel

_log = logging.getLogger(__name__)
LIMIT_S = 10.0
"""For measuring. A quick engine needs less, and of a slow one fewer sizes are measured."""
MEASURED_BACKENDS = ("torch", "vllm")
"""The others run their steps elsewhere, or by a script."""


class OwnProfile(NamedTuple):
    """A profile that was measured on this engine, and its file in the cache, which may be missing."""

    profile: EngineProfile
    path: Path

    def discard(self, ratio: float) -> None:
        """Has the next start measure again, because steps take ``ratio`` times as long as in the profile."""
        what = "steps have taken %.2g times as long as profiled for minutes: the next start measures the engine again"
        _log.warning(what, ratio)
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("the profile %s cannot be removed: %s", self.path, error)


class EngineAtHand(NamedTuple):
    """An engine that does nothing yet.

    Attributes:
        config: Of its planner.
        model_dir: Its checkpoint.
        backend: The engine.
        library: Robot models; under the grammar of one of them it is measured.
        num_adapters: How many it has loaded.
    """

    config: PlannerConfig
    model_dir: Path
    backend: Backend
    library: RobotLibrary
    num_adapters: int = 0


FindProfile = Callable[[EngineAtHand], OwnProfile | None]


def no_profile(_engine: EngineAtHand) -> None:
    """Returns none: time budgets learn from the steps."""


def cached_profile(engine: EngineAtHand) -> OwnProfile | None:
    """Returns what an earlier start has measured, if it did: for a command that shall answer soon."""
    path = profile_file(engine)
    if path is None or not path.is_file():
        return None
    try:
        profile = load_profile(path)
        check_fits(profile, engine.backend.info)
    except PlannerError as error:
        _log.warning("what was measured at an earlier start is of no use: %s", error.message)
        return None
    return OwnProfile(profile, path)


def measured_profile(engine: EngineAtHand) -> OwnProfile | None:
    """Returns what an earlier start has measured, or measures now; None if that cannot be done in ``LIMIT_S``."""
    path = profile_file(engine)
    if path is None:
        _log.warning("the engine is not measured: no place to keep a profile; set HOME or XDG_CACHE_HOME")
        return None
    return cached_profile(engine) or _measure(engine, path)


def profile_file(engine: EngineAtHand) -> Path | None:
    """Returns the file for the profile of an engine: another one for all that its speed may depend on.

    None if there is no cache directory, because no home directory is known.
    """
    directory, settings = cache_dir(), engine.config.engine
    if directory is None:
        return None
    fingerprint = [
        weights_fingerprint(engine.model_dir),
        engine.backend.info.device,
        engine.backend.info.block_size,
        settings.eviction_method,
        settings.lookahead,
        settings.nodes,
        settings.micro_batches,
        settings.vllm_args,
        engine.num_adapters if engine.config.backend == "vllm" else 0,  # our engine spends nothing on other rows
        engine.config.scheduler.max_num_batched_tokens,
        __version__,
        *map(_version, ("torch", "vllm")),
    ]
    digest = hashlib.sha256(json.dumps(fingerprint).encode()).hexdigest()
    return directory / "profiles" / f"{engine.backend.info.model}-{digest[:12]}.yaml"


def store(profile: EngineProfile, path: Path) -> None:
    """Keeps a profile for later starts, or warns that they will have to measure again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_profile(profile, path)
    except OSError as error:
        _log.warning("the measured profile cannot be kept, so each start measures again: %s", error)


def age(profile: EngineProfile, now: datetime) -> str:
    """Returns how long ago a profile of the cache was measured, e.g. ``3 days ago``."""
    passed_s = (now - datetime.fromisoformat(profile.measured_at)).total_seconds()
    for unit, unit_s in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if passed_s >= 2 * unit_s:
            return f"{passed_s / unit_s:.0f} {unit} ago"
    return "just now"


def _any_model(library: RobotLibrary) -> RobotModel:
    """Returns a robot model that can be used: one that cannot is told to the goals that name it."""
    for name in sorted(library.names()):
        with suppress(PlannerError):
            return library.get(name)
    raise PlannerError(ErrorCode.INVALID_ROBOT_MODEL, "no robot model can be used, so the engine cannot be measured")


def _measure(engine: EngineAtHand, path: Path) -> OwnProfile | None:
    backend, info, clock = engine.backend, engine.backend.info, MonotonicClock()
    _log.info("measuring how quick this machine is: up to about %.0f s, once", LIMIT_S)
    prober = Prober(
        WholeSteps(backend) if info.keeps_kv else backend,
        num_repeats=ROUNDS,
        warm_steps=QUICK_WARM_STEPS,
        grammar=lark_grammar(_any_model(engine.library)),
        sampling=SamplingParams(temperature=1.0),  # what is greedy drafts, from earlier plans: not from these
    )
    began_s = clock.now_s()
    try:
        samples, are_hidden = measure_within(prober, LIMIT_S, clock)
    except PlannerError as error:
        _log.warning("the engine cannot be measured, so time budgets learn from its steps: %s", error.message)
        return None
    if not is_enough(samples):
        _log.warning(
            "the engine is too slow to be measured in %.0f s, so time budgets learn from its steps; `llm-planner "
            "profile FILE` takes its time, and engine.profile: FILE counts on that",
            LIMIT_S,
        )
        return None
    try:
        profile = make_profile(
            samples,
            backend,
            path.stem,
            f"{info.model} on {info.device}, measured when it first started",
            hides_prompts=are_hidden,
            measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
    except ValueError as error:  # a machine that stood still in between, by which a token would take no time
        _log.warning("what was measured makes no profile (%s), so time budgets learn from the engine's steps", error)
        return None
    store(profile, path)
    what = "measured how quick this machine is, in %.1f s: a token takes %.3g ms, a prompt of 1,000 tokens %.3g s"
    _log.info(what, clock.now_s() - began_s, 1e3 * profile.decode.base_s.value, profile.prefill_s(1000))
    return OwnProfile(profile, path)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
