# SPDX-License-Identifier: Apache-2.0
"""The whole profile of a planner on this machine: its engine, step by step, and its own process around it."""

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from llm_planner.assembly import build_engine, build_library
from llm_planner.checkpoints import planner_model
from llm_planner.core.config import PlannerConfig
from llm_planner.core.interfaces import Backend
from llm_planner.engine_profile import EngineAtHand, profile_file
from llm_planner.planning.grammar import lark_grammar
from llm_planner.prediction.measurement import Grid, held, hides_prompts, make_profile, visits_of
from llm_planner.prediction.prober import ROUNDS, Prober
from llm_planner.prediction.profile import EngineProfile
from llm_planner.prediction.samples import StepSample
from llm_planner.prediction.whole_steps import WholeSteps
from llm_planner_lab.bench.host import measure_host
from llm_planner_lab.bench.idle import measure_idle

MAX_BATCH_KV_TOKENS = 8192
"""Caches of a batch are no longer, all sequences together: they take long to fill on a CPU."""
THOROUGH = Grid(
    decodes=tuple((b, k) for b in (1, 2, 4, 8, 16) for k in (32, 128, 256, 512, 1024) if b * k <= MAX_BATCH_KV_TOKENS),
    prompts=tuple((n, k) for k in (0, 512) for n in (20, 32, 64, 128, 192, 256, 384, 512, 768, 1024)),
    moves=(32, 128, 512, 1024),
    evictions=(128, 256, 512, 1024),
    alongside=((32, 8, 64), (128, 8, 64), (128, 4, 64)),
)
"""Minutes on a CPU, with errors on held-out points."""


class Profiled(NamedTuple):
    """What was measured of a planner.

    Attributes:
        profile: Of engine and planner.
        samples: The steps that it was fitted to.
        own_file: Where a planner of this configuration looks for its own profile; None if it has no cache directory.
    """

    profile: EngineProfile
    samples: Sequence[StepSample]
    own_file: Path | None


def profile_planner(
    config: PlannerConfig, name: str | None, num_repeats: int, note: Callable[[str], None] = lambda _: None
) -> Profiled:
    """Returns what was measured of the planner of ``config`` on this machine.

    Decoding is measured under the grammar of a robot model, as in service.

    Args:
        config: Whose engine, model and robots are measured.
        name: Of the profile; None for that of the planner's own.
        num_repeats: Steps per point, and repeats of everything else, >= 3.
        note: Receives what is going on.
    """
    library = build_library(config)
    backend = timed_engine(config)
    grammar = lark_grammar(library.get(min(library.names())))
    samples = measure(Prober(backend, num_repeats=num_repeats, grammar=grammar), note)
    prober = Prober(backend, num_repeats=num_repeats, grammar=grammar)
    are_hidden = hides_prompts(prober, held(THOROUGH, prober).alongside)
    note(f"prompts are {'' if are_hidden else 'not '}computed while decoding sequences read the weights")
    description = f"{backend.info.model} on {backend.info.device}, measured by llm-planner profile"
    now = datetime.now(UTC).isoformat(timespec="seconds")
    own_file = profile_file(EngineAtHand(config, planner_model(config), backend, library))
    name = name or (backend.info.model if own_file is None else own_file.stem)
    profile = make_profile(samples, backend, name, description, hides_prompts=are_hidden, measured_at=now)
    profile = replace(profile, idle=measure_idle(prober, num_repeats))
    backend.close()
    host = measure_host(config, num_repeats)
    around_ms, preparing_ms = 1000 * host.around_step_s(1), 1000 * host.prepare_s.value
    note(f"around a step: {around_ms:.2f} ms; to make a request ready: {preparing_ms:.2f} ms")
    return Profiled(replace(profile, host=host), samples, own_file)


def timed_engine(config: PlannerConfig) -> Backend:
    """Returns the engine of a configuration alone, whose steps take as long as all that they name."""
    backend = build_engine(config)
    return WholeSteps(backend) if backend.info.keeps_kv else backend


def measure(prober: Prober, note: Callable[[str], None] = lambda _: None) -> Sequence[StepSample]:
    """Returns the samples of the prober's engine on the thorough grid."""
    grid = held(THOROUGH, prober)
    visits = visits_of(grid, prober, prober.repeats_per_round)
    prober.decode(0, *grid.decodes[0])  # warm
    prober.prefill(0, *grid.prompts[-1])
    prober.samples.clear()
    for number in range(ROUNDS):
        for visit in visits:
            visit.run()
        note(f"round {number + 1} of {ROUNDS}: {len(prober.samples)} steps")
    return prober.samples


def write_samples(samples: Iterable[StepSample], path: Path) -> None:
    """Writes samples as CSV, a header first."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(StepSample))
        for sample in samples:
            kind, *numbers, duration_s = astuple(sample)
            writer.writerow([kind.value, *numbers, f"{duration_s:.6g}"])
