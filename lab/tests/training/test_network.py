# SPDX-License-Identifier: Apache-2.0
"""The trained network is a checkpoint that the engine reads, and copies before it is trained."""

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaForCausalLM

from llm_planner.engine.model_config import read_model_config
from llm_planner_lab.training.copying import lay_induction_circuit
from llm_planner_lab.training.master_weights import MasterWeights
from llm_planner_lab.training.network import hidden_states, load_network, planner_config, save_network


def small():
    torch.manual_seed(0)
    return LlamaForCausalLM(planner_config(vocab_size=300, num_hidden_layers=2))


def copied_share(network, length):
    text = torch.randint(3, 300, (8, length))
    twice = text.repeat(1, 2)
    with torch.no_grad():
        guesses = network.lm_head(hidden_states(network, twice[:, :-1])[:, length:]).argmax(-1)
    return float((guesses == twice[:, length + 1 :]).float().mean())


@pytest.mark.parametrize("length", [5, 400])  # both kinds of attention
def test_our_engine_reads_what_is_trained(tmp_path, length):
    network = small()
    save_network(network, tmp_path)
    assert read_model_config(tmp_path).rope_theta == 1_000_000.0
    assert "lm_head.weight" not in load_file(tmp_path / "model.safetensors")  # tied
    trained, token_ids = load_network(tmp_path), torch.randint(3, 300, (2, length))
    with torch.no_grad():
        expected = trained(token_ids).logits
        actual = trained.lm_head(hidden_states(trained, token_ids))
    torch.testing.assert_close(actual, expected, atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("length", [12, 300])
def test_what_goes_on_from_a_scene_is_as_if_each_had_read_it(length):
    network = small()
    scene, rest = torch.randint(3, 300, (1, 40)), torch.randint(3, 300, (3, length))
    gradients = []
    for whole in (True, False):
        network.zero_grad()
        states = (
            hidden_states(network, torch.cat([scene.expand(3, -1), rest], 1))[:, 40:]
            if whole
            else hidden_states(network, rest, scene)
        )
        states.square().sum().backward()
        gradients.append((states.detach(), *(parameter.grad for parameter in network.parameters())))
    for expected, actual in zip(*gradients, strict=True):
        torch.testing.assert_close(actual, expected, atol=1e-3, rtol=1e-3)


def test_turning_weights_to_bfloat16_leaves_positions_exact():
    network = small()
    MasterWeights(network)
    assert network.lm_head.weight.dtype == torch.bfloat16
    frequencies = network.model.rotary_emb.inv_freq
    assert frequencies.equal(small().model.rotary_emb.inv_freq)
    assert frequencies.dtype == torch.float32


def test_bfloat16_weights_survive_a_round_trip(tmp_path):
    save_network(small(), tmp_path / "one")
    save_network(load_network(tmp_path / "one"), tmp_path / "two")
    assert (tmp_path / "one/model.safetensors").read_bytes() == (tmp_path / "two/model.safetensors").read_bytes()


def test_induction_circuit_copies_untrained():
    network = small()
    assert copied_share(network, 20) < 0.1
    lay_induction_circuit(network)
    assert copied_share(network, 20) > 0.3
