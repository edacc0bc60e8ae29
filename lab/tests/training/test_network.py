# SPDX-License-Identifier: Apache-2.0
"""The trained network is an ordinary Llama checkpoint, and copies before it is trained."""

import torch
from transformers import LlamaForCausalLM

from llm_planner_lab.training.copying import lay_induction_circuit
from llm_planner_lab.training.network import Network, NetworkConfig, load_network, save_network


def small(**kwargs):
    torch.manual_seed(0)
    return Network(NetworkConfig(vocab_size=300, num_hidden_layers=2, **kwargs))


def copied_share(network, length):
    text = torch.randint(3, 300, (8, length))
    twice = text.repeat(1, 2)
    with torch.no_grad():
        guesses = network.logits(network.hidden(twice[:, :-1])[:, length:]).argmax(-1)
    return float((guesses == twice[:, length + 1 :]).float().mean())


def test_saved_network_is_llama(tmp_path):
    network = small()
    save_network(network, tmp_path)
    reference = LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    ours = load_network(tmp_path)
    for length in (5, 400):  # both ways to attend
        token_ids = torch.randint(3, 300, (2, length))
        with torch.no_grad():
            expected = reference(token_ids).logits
            actual = ours.logits(ours.hidden(token_ids))
        torch.testing.assert_close(actual, expected, atol=2e-4, rtol=2e-4)


def test_bfloat16_weights_survive_a_round_trip(tmp_path):
    save_network(small(), tmp_path / "one")
    save_network(load_network(tmp_path / "one"), tmp_path / "two")
    assert (tmp_path / "one/model.safetensors").read_bytes() == (tmp_path / "two/model.safetensors").read_bytes()


def test_induction_circuit_copies_untrained():
    network = small()
    assert copied_share(network, 20) < 0.1
    lay_induction_circuit(network)
    assert copied_share(network, 20) > 0.3
