"""``llm-planner profile``: measure a model on this machine for the simulator."""

from pathlib import Path
from typing import Annotated

import typer

from llm_planner.assembly import load_config, resolve_model
from llm_planner.bench.profile import Prober, measure_profile, write_profile
from llm_planner.cli.options import ConfigOption, ModelOption
from llm_planner.cli.output import console


def profile(
    path: Annotated[Path, typer.Argument(help="The YAML file to write; its name becomes the profile's.")],
    model: ModelOption = None,
    config: ConfigOption = None,
    repeats: Annotated[int, typer.Option(min=3, help="Steps per point; the 10th percentile counts.")] = 15,
) -> None:
    """Measure prefill, decoding, offloading and resuming, and write an engine profile.

    Use it with `llm-planner bench timely --profile FILE`.
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
    prober = Prober(backend, num_repeats=repeats)
    description = f"{backend.info.model} on {settings.device}, measured by llm-planner profile"
    write_profile(measure_profile(prober, path.stem, description, console.print), path)
    backend.close()
    console.print(f"wrote {path}")
