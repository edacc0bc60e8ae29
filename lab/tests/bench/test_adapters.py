# SPDX-License-Identifier: Apache-2.0
import torch
from typer.testing import CliRunner

from llm_planner.engine.adapter import load_adapter
from llm_planner.engine.model_config import read_model_config
from llm_planner_lab.bench.adapters import command, write_adapter
from tests.engine.builders import save_model


def test_every_mix_of_adapters_is_measured(tmp_path):
    model = save_model(tmp_path / "model")
    options = ["--batch", "1", "--batch", "2", "--new-tokens", "3", "--rounds", "2", "--rank", "4"]
    result = CliRunner().invoke(command, ["--model", str(model), *options], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    assert result.output.count("none loaded") == result.output.count("all requests the same") == 2
    assert result.output.count("two adapters") == 1


def test_every_linear_layer_is_adapted(tmp_path):
    model = save_model(tmp_path / "model")
    write_adapter(model, tmp_path / "adapter", rank=4, seed=1)
    adapter = load_adapter(tmp_path / "adapter", read_model_config(model), torch.float32, torch.device("cpu"))
    assert all(low_rank is not None for layer in adapter.layers for low_rank in layer.values())
