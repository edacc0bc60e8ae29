# SPDX-License-Identifier: Apache-2.0
"""``llm-planner profile``: measure a model on this machine, for time budgets and for the simulator."""

from pathlib import Path
from typing import Annotated

import typer

from llm_planner.cli.options import BackendOption, ConfigOption, ModelOption
from llm_planner.cli.output import console
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.engine_profile import store
from llm_planner.prediction.fit import held_out_accuracy
from llm_planner.prediction.profile import write_profile
from llm_planner.prediction.throughput.table import write_table
from llm_planner_lab.bench.capacity.whole_runs import measure_table
from llm_planner_lab.bench.planner_profile import profile_planner, write_samples
from llm_planner_lab.cli.live import planner_config


def profile(
    path: Annotated[
        Path | None,
        typer.Argument(
            help="The YAML file to write; its name becomes the profile's. Without, it replaces what a planner of this "
            "configuration has measured on its first start (engine.profile: auto)."
        ),
    ] = None,
    model: ModelOption = None,
    config: ConfigOption = None,
    backend: BackendOption = None,
    repeats: Annotated[int, typer.Option(min=3, help="Steps per point; their median counts.")] = 15,
    threads: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="CPU threads of the engine; 0 is the planner's choice. Without: 1 for PATH, else as configured.",
        ),
    ] = None,
    table: Annotated[
        Path | None, typer.Option(help="Also measure whole runs and add them to this CSV, for `capacity fit`.")
    ] = None,
) -> None:
    """Measure prefill, decoding, offloading, resuming, evicting and the planner's own time; write an engine profile.

    Every measured step is kept next to PATH, with the ending .samples.csv. The errors printed are those of a fit to
    one half of the points on the other half, with the noise floor: how far repeats of the same step lie from their
    median.

    Use it with `llm-planner bench timely --profile FILE`, or as engine.profile of a planner.
    """
    if threads is None and path is not None:
        threads = 1
    planner = planner_config(model, config, threads, backend)
    name = None if path is None else path.stem
    profile, samples, own_file = profile_planner(planner, name, repeats, console.print)
    if path is not None:
        write_profile(profile, path)
        write_samples(samples, path.with_suffix(".samples.csv"))
    elif own_file is not None:
        store(profile, own_file)
    else:
        raise PlannerError(ErrorCode.INVALID_CONFIG, "no place to keep it; give PATH, or set HOME or XDG_CACHE_HOME")
    for kind, accuracy in held_out_accuracy(samples).items():
        console.print(
            f"{kind.value}: {accuracy.mape:.2%} off on held-out points, noise floor {accuracy.noise_floor:.2%}"
        )
    console.print(f"wrote {own_file}" if path is None else f"wrote {path} and {path.with_suffix('.samples.csv')}")
    if table is not None:
        runs = measure_table(planner, console.print)
        write_table(runs, table)
        console.print(f"added {len(runs)} whole runs to {table}")
