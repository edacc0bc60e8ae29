# SPDX-License-Identifier: Apache-2.0
"""What commands that run a real planner share: its configuration, and a lab that shows what goes on."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from llm_planner.configuration import load_config
from llm_planner.core.config import PlannerConfig
from llm_planner_lab.bench.timely.benchmark import Lab
from llm_planner_lab.progress import progress_bar


def planner_config(
    model: str | None, path: Path | None, threads: int | None, backend: str | None = None
) -> PlannerConfig:
    """Returns the configuration of the planner that the options of a command describe."""
    overrides: dict[str, object] = {} if threads is None else {"engine.num_threads": threads}
    if model is not None:
        overrides["engine.model"] = model
    if backend is not None:
        overrides["backend"] = backend
    return load_config(path, overrides)


@contextmanager
def live_lab(*, is_shown: bool = True) -> Iterator[Lab]:
    """Yields a lab that draws, on standard error, what goes on in real time."""
    if not is_shown:
        yield Lab()
        return
    with progress_bar("loading the model") as on_progress:
        yield Lab(on_progress=on_progress)
