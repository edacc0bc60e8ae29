# SPDX-License-Identifier: Apache-2.0
"""``llm-planner profile``: measure a model on this machine for the simulator."""

from pathlib import Path
from typing import Annotated

import typer

from llm_planner.cli.options import BackendOption, ConfigOption, ModelOption, ThreadsOption
from llm_planner.cli.output import console
from llm_planner.prediction.fit import held_out_accuracy
from llm_planner.prediction.samples import write_samples
from llm_planner.prediction.throughput.table import write_table
from llm_planner_lab.bench.capacity.whole_runs import measure_table
from llm_planner_lab.bench.planner_profile import profile_planner
from llm_planner_lab.bench.profile import write_profile
from llm_planner_lab.cli.live import planner_config


def profile(
    path: Annotated[Path, typer.Argument(help="The YAML file to write; its name becomes the profile's.")],
    model: ModelOption = None,
    config: ConfigOption = None,
    backend: BackendOption = None,
    repeats: Annotated[int, typer.Option(min=3, help="Steps per point; their median counts.")] = 15,
    threads: ThreadsOption = 1,
    table: Annotated[
        Path | None, typer.Option(help="Also measure whole runs and add them to this CSV, for `capacity fit`.")
    ] = None,
) -> None:
    """Measure prefill, decoding, offloading, resuming, evicting and the planner's own time; write an engine profile.

    Every measured step is kept in PATH with the ending .samples.csv. The errors printed are those of a fit to one half
    of the points on the other half, with the noise floor: how far repeats of the same step lie from their median.

    Use it with `llm-planner bench timely --profile FILE`, or as engine.profile of a planner.
    """
    planner = planner_config(model, config, threads, backend)
    profile, samples = profile_planner(planner, path.stem, repeats, console.print)
    write_profile(profile, path)
    write_samples(samples, path.with_suffix(".samples.csv"))
    for kind, accuracy in held_out_accuracy(samples).items():
        console.print(
            f"{kind.value}: {accuracy.mape:.2%} off on held-out points, noise floor {accuracy.noise_floor:.2%}"
        )
    console.print(f"wrote {path} and {path.with_suffix('.samples.csv')}")
    if table is not None:
        runs = measure_table(planner, console.print)
        write_table(runs, table)
        console.print(f"added {len(runs)} whole runs to {table}")
