"""``llm-planner profile``: measure a model on this machine for the simulator."""

from pathlib import Path
from typing import Annotated

import typer

from llm_planner.assembly import load_config, resolve_model
from llm_planner.bench.profile import Prober, make_profile, measure, write_profile
from llm_planner.cli.options import ConfigOption, ModelOption
from llm_planner.cli.output import console
from llm_planner.prediction.fit import held_out_accuracy
from llm_planner.prediction.samples import write_samples


def profile(
    path: Annotated[Path, typer.Argument(help="The YAML file to write; its name becomes the profile's.")],
    model: ModelOption = None,
    config: ConfigOption = None,
    repeats: Annotated[int, typer.Option(min=3, help="Steps per point; their median counts.")] = 15,
) -> None:
    """Measure prefill, decoding, offloading and resuming, and write an engine profile.

    Every measured step is kept in PATH with the ending .samples.csv. The errors printed are those of a fit to one half
    of the points on the other half, beside the noise floor: how far repeats of the same step lie from their median.

    Use it with `llm-planner bench timely --profile FILE`, or as engine.profile of a planner.
    """
    from llm_planner.engine.backend import TorchBackend

    settings = load_config(config, {"engine.model": model} if model else None).engine
    backend = TorchBackend(
        resolve_model(settings.model),
        device=settings.device,
        dtype=settings.dtype,
        num_kv_blocks=settings.num_kv_blocks,
        block_size=settings.block_size,
        num_threads=settings.num_threads,
    )
    samples = measure(Prober(backend, num_repeats=repeats), console.print)
    description = f"{backend.info.model} on {backend.info.device}, measured by llm-planner profile"
    write_profile(make_profile(samples, backend, path.stem, description), path)
    write_samples(samples, path.with_suffix(".samples.csv"))
    backend.close()
    for kind, accuracy in held_out_accuracy(samples).items():
        console.print(
            f"{kind.value}: {accuracy.mape:.2%} off on held-out points, noise floor {accuracy.noise_floor:.2%}"
        )
    console.print(f"wrote {path} and {path.with_suffix('.samples.csv')}")
