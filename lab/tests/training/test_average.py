# SPDX-License-Identifier: Apache-2.0
"""The mean of several models."""

import json

import pytest
import torch
from transformers import LlamaForCausalLM

from llm_planner_lab.training.average import average
from llm_planner_lab.training.network import load_network, planner_config, save_network


@pytest.fixture
def model(tmp_path):
    def model(name, *, value, hidden_size=32, tokens="{}"):
        shape = planner_config(
            vocab_size=16, hidden_size=hidden_size, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2
        )
        network = LlamaForCausalLM(shape)
        for parameter in network.parameters():
            torch.nn.init.constant_(parameter, value)
        directory = tmp_path / name
        save_network(network, directory)
        (directory / "tokenizer.json").write_text(tokens)
        (directory / "tokenizer_config.json").write_text("{}")
        (directory / "planner.json").write_text(json.dumps({"from": name}))
        return directory

    return model


@pytest.mark.parametrize("values", [(1.0, 2.0), (1.0, 3.0, 0.5), (1.5,)])
def test_weights_are_averaged_and_the_rest_is_the_first_s(model, tmp_path, values):
    average([model(name, value=value) for name, value in zip("abc", values, strict=False)], tmp_path / "mean")
    assert all((weight == 1.5).all() for weight in load_network(tmp_path / "mean").state_dict().values())
    assert json.loads((tmp_path / "mean" / "planner.json").read_text()) == {"from": "a"}


@pytest.mark.parametrize("other", [{"hidden_size": 64}, {"tokens": "[]"}])
def test_what_is_not_of_one_run_has_no_mean(model, tmp_path, other):
    with pytest.raises(ValueError, match=r"not of one shape|different tokenizers"):
        average([model("a", value=1.0), model("b", value=3.0, **other)], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()
