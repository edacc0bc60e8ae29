# SPDX-License-Identifier: Apache-2.0
"""The command that measures a GPU, with a tiny model on the CPU: everything runs, and what does not fit is said."""

import json
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

from llm_planner.cli.main import app
from llm_planner.core.errors import PlannerError
from llm_planner.prediction.profile import load_profile
from llm_planner_lab.bench.gpu import benchmark
from llm_planner_lab.bench.gpu.benchmark import PARTS, GpuBench, run_gpu
from llm_planner_lab.bench.gpu.shapes import (
    SHAPES,
    RandomWeights,
    kv_token_bytes,
    step_bytes,
    weight_bytes,
    write_model,
)
from llm_planner_lab.bench.gpu.sides import Engine

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _few(monkeypatch):
    torch.set_num_threads(1)
    monkeypatch.setattr(benchmark, "_ROUNDS", 2)
    monkeypatch.setattr(benchmark, "_STEPS", 2)
    monkeypatch.setattr(benchmark, "_REPEATS", 2)
    monkeypatch.setattr(benchmark, "_PROFILE_S", 1.0)


def test_the_command_measures_every_part_and_writes_what_it_found(tmp_path):
    result_file, page, profiles = tmp_path / "gpu.json", tmp_path / "gpu.md", tmp_path / "profiles"
    options = ["--shape", "tiny", "--device", "cpu", "--threads", "1", "--seed", "3"]
    written = ["--json", str(result_file), "--page", str(page), "--profiles", str(profiles)]
    result = CliRunner().invoke(app, ["bench", "gpu", *options, *written], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    document = json.loads(result_file.read_text())
    (shape,) = document["shapes"]
    assert document["seed"] == 3
    assert shape["skipped"] == []
    assert all(shape[part] for part in PARTS)
    contexts = SHAPES["tiny"].contexts
    assert {(row["context"], row["batch"]) for row in shape["decode"]} == {(c, b) for c in contexts for b in (1, 8, 32)}
    assert all(row["floor_ms"] > 0 for row in shape["decode"])
    assert "the first 6 of 6" in page.read_text()
    assert load_profile(profiles / shape["profile"]).num_kv_blocks == shape["num_kv_blocks"]


def test_tokens_are_those_of_transformers():
    (shape,) = run_gpu(GpuBench(shapes=("tiny",), device="cpu"))["shapes"]
    counts = [(row["num_same_tokens"], row["num_tokens"]) for row in shape["transformers"] if row["what"] == "decode"]
    assert counts == [(6, 6)] * len(SHAPES["tiny"].contexts)


def test_what_does_not_fit_is_skipped_with_its_reason(monkeypatch):
    config_bytes = 512  # of one token of the tiny model in float32
    monkeypatch.setattr(benchmark, "_KV_SHARE", 1.0)
    monkeypatch.setattr(benchmark, "free_bytes", lambda _: 360_000 + 1_300 * config_bytes)
    (shape,) = run_gpu(GpuBench(shapes=("tiny",), device="cpu"))["shapes"]
    skipped = {case["what"]: case["why"] for case in shape["skipped"]}
    assert "the cache holds 3 sequences" in skipped["decode, context 64, batch 8"]
    assert "the cache holds 2 sequences" in skipped["decode, context 160, batch 8"]
    assert {row["batch"] for row in shape["decode"]} == {1}
    assert shape["eviction"]
    monkeypatch.setattr(benchmark, "free_bytes", lambda _: 360_000)
    (shape,) = run_gpu(GpuBench(shapes=("tiny",), device="cpu"))["shapes"]
    assert "GB of weights" in shape["skipped"][0]["why"]
    assert not any(shape[part] for part in PARTS)


def test_what_has_no_time_left_is_skipped():
    (shape,) = run_gpu(GpuBench(shapes=("tiny",), device="cpu", limit_s=0.0))["shapes"]
    assert len(shape["skipped"]) == len(benchmark._labels(SHAPES["tiny"], GpuBench()))
    assert all("no time is left" in case["why"] for case in shape["skipped"])


def test_an_unknown_shape_is_refused():
    with pytest.raises(PlannerError, match="known are tiny, 1b, 8b"):
        run_gpu(GpuBench(shapes=("70b",), device="cpu"))


@pytest.mark.parametrize(("name", "billions", "kv_bytes"), [("1b", 1.24, 32_768), ("8b", 8.03, 131_072)])
def test_shapes_are_those_of_llama(tmp_path, name, billions, kv_bytes):
    config = write_model(tmp_path, SHAPES[name])
    assert weight_bytes(config, torch.bfloat16) / 2e9 == pytest.approx(billions, rel=0.01)
    assert kv_token_bytes(config, torch.bfloat16) == kv_bytes
    embedding = 0 if config.is_tied else 2 * 128_256 * 4096
    assert step_bytes(config, torch.bfloat16) == weight_bytes(config, torch.bfloat16) - embedding


def test_weights_are_the_same_whenever_they_are_loaded(tmp_path):
    config = write_model(tmp_path, SHAPES["tiny"])
    weights = RandomWeights(config, 1)
    name = "model.layers.0.mlp.up_proj.weight"
    once, again = (weights.load(name, torch.bfloat16, CPU) for _ in range(2))
    assert once.equal(again)
    assert once.float().std() == pytest.approx(0.02, rel=0.1)
    assert not once.equal(RandomWeights(config, 2).load(name, torch.bfloat16, CPU))
    assert not once.equal(weights.load(name.replace("up", "gate"), torch.bfloat16, CPU))


def test_a_sequence_that_the_model_ends_goes_on(tmp_path):
    config = write_model(tmp_path, replace(SHAPES["tiny"], config=SHAPES["tiny"].config))
    engine = Engine(tmp_path, RandomWeights(config, 0), CPU, "float32", 16, 0)
    name, _ = engine.start(20)
    engine._ended.add(name)
    engine.backend._states[name].is_finished = True
    assert engine.decode([name]) > 0
    assert engine.kv_tokens([name]) == engine.backend._states[name].kv_len
    engine.release()
    assert engine.room_for(16) == 16
    engine.backend.check_integrity()
