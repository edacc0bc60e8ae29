# SPDX-License-Identifier: Apache-2.0
"""Tokens of seeded random weights, alone and scheduled: independent of the bundled model.

Prompts are those of the bundled robot models, so a change of prompt, grammar or tokenizer needs a new record.
"""

from pathlib import Path

import pytest
import torch

from llm_planner.engine.backend import TorchBackend
from tests.engine.builders import generate, save_model, sequence
from tests.golden.recorded import check
from tests.serving.test_loop_with_engine import plan

FAMILIES = ("llama", "qwen2", "qwen3")
RECORD = Path(__file__).with_name("engine.json")


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    torch.set_num_threads(1)
    return {family: save_model(tmp_path_factory.mktemp("golden") / family, family) for family in FAMILIES}


def test_tokens_are_as_recorded(directories):
    results = {}
    for family, directory in directories.items():
        backend = TorchBackend(directory, num_kv_blocks=64)
        results[f"tokens of {family}"] = " ".join(map(str, generate(backend, sequence(), max_tokens=24)["a"]))
        backend.close()
    for policy in ("fcfs_stream", "tardiness"):
        for instruction, (code, text, _) in plan(directories["llama"], policy, num_kv_blocks=96)[0].items():
            results[f"{policy}: {instruction}"] = [code.name, text]
    check(RECORD, results)
