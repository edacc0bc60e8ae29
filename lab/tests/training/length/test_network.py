# SPDX-License-Identifier: Apache-2.0
import pytest
import torch

from lab.tests.training.length.builders import save_target
from llm_planner.core.errors import PlannerError
from llm_planner.engine.tokenizer import load_tokenizer
from llm_planner_lab.training.length.network import LengthNetwork, Start, start_body
from tests.engine.builders import save_model, sentencepiece_tokenizer


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return save_target(tmp_path_factory.mktemp("targets") / "target")


def test_padding_changes_nothing(target):
    network = LengthNetwork(start_body(Start(target, target, 1, 64)), 5)
    token_ids = torch.tensor([[11, 12, 13, 0, 0], [21, 22, 23, 24, 25]])
    alone = network(token_ids[:1, :3], torch.tensor([3]))
    assert network(token_ids, torch.tensor([3, 5]))[0].tolist() == pytest.approx(alone[0].tolist(), abs=1e-5)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_it_computes_what_transformers_computes(tmp_path, family):
    some = save_target(tmp_path / "some", family=family)
    network = LengthNetwork(start_body(Start(some, some, 2, 64)), 5)
    token_ids = torch.tensor([[11, 12, 13, 0, 0], [21, 22, 23, 24, 25]])
    hidden = network.body(input_ids=token_ids).last_hidden_state
    expected = network.head(hidden[torch.arange(2), torch.tensor([2, 4])])
    assert torch.allclose(network(token_ids, torch.tensor([3, 5])), expected, atol=1e-5)


def test_a_decoder_starts_as_the_first_layers_of_its_source(target):
    body, whole = start_body(Start(target, target, 1, 64)), start_body(Start(target, target, 2, 64))
    assert (len(body.layers), len(whole.layers)) == (1, 2)
    assert torch.equal(body.layers[0].mlp.up_proj.weight, whole.layers[0].mlp.up_proj.weight)


def test_more_layers_than_there_are_is_refused(target):
    with pytest.raises(PlannerError, match="has 2 layers, 3 were asked for"):
        start_body(Start(target, target, 3, 64))


def test_a_source_with_other_tokens_lends_its_embeddings(tmp_path, target):
    source = save_model(tmp_path / "source")
    sentencepiece_tokenizer().save_pretrained(source)
    body, kept = start_body(Start(target, source, 1, 64)), start_body(Start(source, source, 1, 64))
    ours, theirs = load_tokenizer(target), load_tokenizer(source)
    token_id = ours.encode("g")[0]
    expected = kept.get_input_embeddings().weight[theirs.encode("g")].mean(0)
    assert torch.allclose(body.get_input_embeddings().weight[token_id], expected)


def test_frequencies_keep_their_precision(target):
    network = LengthNetwork(start_body(Start(target, target, 1, 64)), 5)
    before = network.body.rotary_emb.inv_freq.clone()
    network.to(torch.bfloat16)
    assert network.head.weight.dtype is torch.bfloat16
    assert torch.equal(network.body.rotary_emb.inv_freq, before)
