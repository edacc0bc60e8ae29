# SPDX-License-Identifier: Apache-2.0
"""Eviction against time and success, on small numbers."""

import json

import pytest
from typer.testing import CliRunner

from llm_planner.checkpoints import build_prompt_encoder, resolve_model
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.bench.timebill.eviction import (
    NEEDS_SCENE,
    command,
    long_tasks,
    needs_scene,
    num_prompt_tokens,
    score,
)
from tests.engine.builders import save_model


def test_times_and_plans_are_measured_for_every_ratio(tmp_path):
    model = save_model(tmp_path / "model", max_position_embeddings=2048)
    file = tmp_path / "figures.json"
    options = ["--prompt-tokens", "120", "--batch", "2", "--rounds", "2", "--ratio", "0", "--ratio", "0.5"]
    result = CliRunner().invoke(command, ["--model", str(model), *options, "--num-tasks", "0", "--json", str(file)])
    assert result.exit_code == 0, result.output
    rows = json.loads(file.read_text())["steps"]
    assert [(row["eviction_ratio"], row["kv_tokens"]) for row in rows] == [(0.0, 120), (0.5, 60)]
    assert all(row["decode_ms"] > 0 for row in rows)


@pytest.fixture(scope="module")
def model():
    return resolve_model("planner-small")


@pytest.fixture(scope="module")
def tasks(model):
    return long_tasks(model, kind=NEEDS_SCENE, num_tasks=3, min_tokens=200, max_tokens=600, seed=3)


def test_tasks_have_prompts_of_the_length_that_was_asked_for(model, tasks):
    lengths = [num_prompt_tokens(task, build_prompt_encoder(model), RobotLibrary()) for task in tasks]
    assert all(200 <= length <= 600 for length in lengths)
    assert all(needs_scene(task) for task in tasks)
    assert len({task.family for task in tasks}) > 1


def test_plans_are_executed_and_kv_is_really_evicted(model, tasks):
    full = score(model, "streaming", 0.0, NEEDS_SCENE, tasks)
    assert full.removed == 0.0
    assert full.num_tasks == 3
    assert full.mean_prompt_tokens >= 200
    evicted = score(model, "streaming", 0.9, NEEDS_SCENE, tasks)
    assert 0.6 < evicted.removed <= 0.9
    assert evicted.num_tasks == 3
