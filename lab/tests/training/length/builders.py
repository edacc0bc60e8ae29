# SPDX-License-Identifier: Apache-2.0
"""Target models that are made in a second, and prompts for them."""

import json

from llm_planner_lab.training.length.prompts import Prompt
from tests.engine.builders import save_model

MAX_TOKENS = 24


def save_target(path, **options):
    """Saves a random model that gets the short prompt of the bundled planner."""
    save_model(path, max_position_embeddings=256, **options)
    (path / "planner.json").write_text('{"prompt_style": "compact"}\n')
    return path


def prompts(count):
    return [Prompt("tello", f"fly {n} to the red_box", "red_box" if n % 2 else "") for n in range(count)]


def write_prompts(path, some):
    lines = (json.dumps({"robot": p.robot, "instruction": p.instruction, "scene": p.scene}) for p in some)
    path.write_text("\n".join(lines) + "\n")
    return path
