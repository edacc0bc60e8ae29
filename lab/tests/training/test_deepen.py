# SPDX-License-Identifier: Apache-2.0
"""More layers that change nothing before they are trained."""

import pytest
import torch
from transformers import LlamaForCausalLM

from llm_planner_lab.training.deepen import deepen
from llm_planner_lab.training.network import planner_config


@pytest.fixture
def network():
    torch.manual_seed(0)
    sizes = {"vocab_size": 32, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2}
    return LlamaForCausalLM(planner_config(num_hidden_layers=4, **sizes))


@pytest.mark.parametrize("num_layers", [5, 6, 7, 8])
def test_the_deeper_network_writes_the_same(network, num_layers):
    token_ids = torch.randint(0, 32, (2, 20))
    deeper = deepen(network, num_layers)
    assert len(deeper.model.layers) == num_layers
    assert network.config.num_hidden_layers == 4
    torch.testing.assert_close(deeper(token_ids).logits, network(token_ids).logits)


def test_new_layers_learn(network):
    deeper = deepen(network, 6)
    deeper(torch.randint(0, 32, (2, 20))).logits.logsumexp(-1).mean().backward()
    silent = [layer for layer in deeper.model.layers if not layer.mlp.down_proj.weight.any()]
    assert len(silent) == 2
    assert all(layer.mlp.down_proj.weight.grad.any() and layer.self_attn.o_proj.weight.grad.any() for layer in silent)
    assert [not layer.mlp.down_proj.weight.any() for layer in deeper.model.layers] == [False, False, True] * 2


@pytest.mark.parametrize("num_layers", [4, 3, 9])
def test_it_has_more_layers_and_at_most_twice_as_many(network, num_layers):
    with pytest.raises(ValueError, match="gets 5 to 8"):
        deepen(network, num_layers)
