"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

RobotOption = Annotated[str, typer.Option("--robot", "-r", help="Robot model, see `llm-planner robots`.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
ModelOption = Annotated[
    str | None, typer.Option("--model", "-m", help="Checkpoint directory, or the name of a bundled model.")
]
PolicyOption = Annotated[str | None, typer.Option("--policy", help="Scheduling policy.")]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="YAML file with planner settings, see config/planner.yaml.")
]
BackendOption = Annotated[
    str | None, typer.Option("--backend", help="What runs the model: torch, vllm, openai (a server), or fake.")
]
BaseUrlOption = Annotated[
    str | None,
    typer.Option("--base-url", help="With --backend openai: the server's address, e.g. http://127.0.0.1:8000/v1."),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything that is random.")]
ThreadsOption = Annotated[
    int, typer.Option("--threads", min=0, help="CPU threads of the engine; 0 leaves the library's default.")
]
