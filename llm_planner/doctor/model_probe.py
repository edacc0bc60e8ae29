# SPDX-License-Identifier: Apache-2.0
"""A probe: does a model load, and what does torch see?

python -m llm_planner.doctor.model_probe planner-small auto     # prints one JSON object
"""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import PlannerError

LARGE_BYTES = 1_000_000_000
"""Weights beyond this are checked (names, shapes, length of the files), not loaded, unless that is asked for."""


def torch_facts() -> dict[str, Any]:
    """Returns torch's version, the devices that it can use, and what is wrong with our kernels for a CPU."""
    import torch

    from llm_planner.engine.kernels import library_path, library_problem

    has_cuda = torch.cuda.is_available()
    devices = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())] if has_cuda else []
    return {
        "torch": torch.__version__,
        "cuda_build": torch.version.cuda,
        "devices": devices,
        "has_kernels": library_path() is not None,
        "kernels_problem": library_problem(),
    }


def model_facts(name: str, how: str) -> dict[str, Any]:
    """Returns what a model is, and that it is whole; raises PlannerError if it is not.

    Args:
        name: Of a bundled model, or a checkpoint directory.
        how: ``load``, ``check``, or ``auto``: load it unless it is large.
    """
    from llm_planner.assembly import build_loop
    from llm_planner.checkpoints import planner_model, prompt_encoder
    from llm_planner.core.config import EngineConfig, PlannerConfig
    from llm_planner.engine.checkpoint import Checkpoint
    from llm_planner.engine.grammar import compiler_for
    from llm_planner.engine.model_config import read_model_config
    from llm_planner.engine.tokenizer import load_tokenizer
    from llm_planner.engine_profile import EngineAtHand, OwnProfile, age, cached_profile

    path = planner_model(PlannerConfig(engine=EngineConfig(model=name)))
    size = sum(file.stat().st_size for file in Path(path).glob("*.safetensors"))
    is_loaded = how == "load" or (how == "auto" and size < LARGE_BYTES)
    facts: dict[str, Any] = {"path": str(path), "size_bytes": size, "is_loaded": is_loaded}
    if is_loaded:
        clock = MonotonicClock()
        began_s = clock.now_s()
        found: list[OwnProfile] = []

        def look(engine: EngineAtHand) -> None:
            if (own := cached_profile(engine)) is not None:
                found.append(own)

        build_loop(PlannerConfig(engine=EngineConfig(model=name)), own_profile=look)
        measured = [f"{own.profile.name}, measured {age(own.profile, datetime.now(UTC))}" for own in found]
        return facts | {"load_s": clock.now_s() - began_s, "profile": "".join(measured)}
    config = read_model_config(path)
    Checkpoint(path, config)
    tokenizer = load_tokenizer(path)
    compiler_for(path, tokenizer, config.vocab_size)
    prompt_encoder(path, tokenizer, tokenizer.start_text)
    return facts


def main(arguments: list[str]) -> int:
    """Prints the facts as JSON; a model that is not whole is a fact too."""
    facts = torch_facts()
    try:
        facts |= model_facts(*arguments)
    except PlannerError as error:
        facts |= {"error_code": int(error.code), "error_msg": error.message}
    print(json.dumps(facts))  # noqa: T201 -- a probe speaks on standard output
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
