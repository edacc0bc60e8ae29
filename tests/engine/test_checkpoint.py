# SPDX-License-Identifier: Apache-2.0
"""Every way in which a checkpoint can be unusable has its code, before a weight is read."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.engine import checkpoint
from llm_planner.engine.backend import TorchBackend
from llm_planner.engine.checkpoint import Checkpoint, expected_shapes
from llm_planner.engine.model_config import read_model_config
from tests.engine.builders import FAMILIES, generate, save_model, save_quantized, sequence


@pytest.fixture
def model_dir(llama_dir, tmp_path):
    return shutil.copytree(llama_dir, tmp_path / "model")


@pytest.fixture(autouse=True)
def no_weight_is_read_in_vain(monkeypatch, request):
    if "refused" in request.node.name:
        monkeypatch.setattr(Checkpoint, "load", lambda *_: pytest.fail("a weight was read"))


def edit_config(model_dir, **values):
    path = model_dir / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def edit_weights(model_dir, edit):
    weights = load_file(model_dir / "model.safetensors")
    edit(weights)
    save_file(weights, model_dir / "model.safetensors")


def assert_refused(model_dir, code, words):
    with pytest.raises(PlannerError) as error:
        TorchBackend(model_dir, num_kv_blocks=4)
    assert error.value.code is code
    assert words in error.value.message


def truncate(path, keep):
    path.write_bytes(path.read_bytes()[:keep])


def test_refused_missing_directory(tmp_path):
    assert_refused(tmp_path / "nowhere", ErrorCode.MODEL_NOT_FOUND, "config.json")


def test_refused_missing_weights(model_dir):
    (model_dir / "model.safetensors").unlink()
    assert_refused(model_dir, ErrorCode.MODEL_NOT_FOUND, "model.safetensors")


def test_refused_missing_tokenizer(model_dir):
    (model_dir / "tokenizer.json").unlink()
    assert_refused(model_dir, ErrorCode.TOKENIZER_MISSING, "tokenizer.json")


@pytest.mark.parametrize("keep", [0, 4, 100, -1, -1000])
def test_refused_truncated_weights(model_dir, keep):
    truncate(model_dir / "model.safetensors", keep)
    assert_refused(model_dir, ErrorCode.CHECKPOINT_INVALID, "truncated or corrupt")


def test_refused_garbage_weights(model_dir):
    (model_dir / "model.safetensors").write_bytes(b"\xff" * 5000)
    assert_refused(model_dir, ErrorCode.CHECKPOINT_INVALID, "truncated or corrupt")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
@pytest.mark.parametrize("text", ["", "{", "[]", "\ufffd\ufffd"])
def test_refused_broken_json(model_dir, name, text):
    (model_dir / name).write_text(text)
    assert_refused(model_dir, ErrorCode.CHECKPOINT_INVALID, name)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"architectures": ["GemmaForCausalLM"]}, "GemmaForCausalLM"),
        ({"architectures": ["MistralForCausalLM"], "layer_types": ["full_attention"] * 2}, "layer_types"),
        ({"architectures": None, "model_type": "gemma"}, "gemma"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding_attention"),
        ({"architectures": ["Qwen2ForCausalLM"], "layer_types": ["full_attention", "chunked_attention"]}, "chunked"),
        ({"architectures": ["Qwen2ForCausalLM"], "layer_types": ["full_attention"]}, "layer_types"),
        ({"quantization_config": {"bits": 4}}, "quantization_config.quant_method = None"),
        (
            {"quantization_config": {"quant_method": "bitsandbytes"}},
            "quantization_config.quant_method = 'bitsandbytes'",
        ),
        ({"quantization_config": {"quant_method": "gptq", "bits": 3}}, "quantization_config.bits = 3"),
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}},
            "quantization_config.checkpoint_format = 'marlin'",
        ),
        (
            {"quantization_config": {"quant_method": "awq", "bits": 4, "version": "gemv"}},
            "quantization_config.version = 'gemv'",
        ),
        (
            {"quantization_config": {"quant_method": "awq", "bits": 4, "modules_to_not_convert": ["q_proj"]}},
            "quantization_config.modules_to_not_convert = ['q_proj']",
        ),
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 4, "lm_head": True}},
            "quantization_config.lm_head = True",
        ),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4}}, "yarn"),
        ({"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.25}}, "partial_rotary_factor"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_scaling = {'rope_type': 'yarn', 'factor': 4.0}"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "next to another rope_parameters"),
        (
            {
                "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4},
                "rope_scaling": {"type": "linear", "factor": 2.0},
            },
            "next to another rope_parameters",
        ),
        (
            {
                "architectures": ["Gemma3ForCausalLM"],
                "rope_parameters": {"full_attention": {"rope_theta": 1e6}},
                "rope_scaling": {"rope_type": "linear", "factor": 8.0},
            },
            "next to another rope_parameters",
        ),
        ({"is_causal": False}, "is_causal = False"),
        ({"rope_parameters": None, "rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type = 'dynamic'"),
        ({"architectures": ["Gemma3ForConditionalGeneration"]}, "architectures = ['Gemma3ForConditionalGeneration']"),
        ({"rope_parameters": {"rope_type": "longrope", "short_factor": [1.0] * 8, "rope_theta": 1e4}}, "longrope"),
        ({"architectures": ["Qwen3MoeForCausalLM"], "decoder_sparse_step": 2}, "decoder_sparse_step = 2"),
        ({"architectures": ["Qwen3MoeForCausalLM"], "mlp_only_layers": [0]}, "mlp_only_layers = [0]"),
        ({"architectures": ["Gemma2ForCausalLM"], "hidden_activation": "relu"}, "hidden_activation = 'relu'"),
        ({"architectures": ["Gemma2ForCausalLM"], "sliding_window": None}, "sliding_window = None"),
        ({"architectures": ["Gemma3ForCausalLM"], "use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ({"architectures": ["Gemma3ForCausalLM"], "attn_logit_softcapping": 50.0}, "attn_logit_softcapping = 50.0"),
        (
            {
                "architectures": ["Gemma3ForCausalLM"],
                "rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 8.0}},
            },
            "sliding_attention",
        ),
    ],
)
def test_refused_architecture(model_dir, values, words):
    edit_config(model_dir, **values)
    assert_refused(model_dir, ErrorCode.UNSUPPORTED_ARCHITECTURE, words)


@pytest.mark.parametrize(
    "values",
    [
        {"hidden_size": None},
        {"hidden_size": "wide"},
        {"vocab_size": 0},
        {"num_hidden_layers": -1},
        {"num_key_value_heads": 3},
        {"head_dim": 15},
        {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 0}},
        {"quantization_config": {"quant_method": "gptq", "bits": 4}, "intermediate_size": 110},
        {"quantization_config": "gptq"},
        {"architectures": ["MistralForCausalLM"], "sliding_window": 0},
        {
            "architectures": ["Phi3ForCausalLM"],
            "rope_parameters": {"rope_type": "longrope", "short_factor": [1.0] * 7, "rope_theta": 1e4},
        },
        {"architectures": ["Qwen3MoeForCausalLM"], "num_experts_per_tok": 9},
        {"architectures": ["Qwen3MoeForCausalLM"], "num_experts": 0},
        {"architectures": ["Qwen3MoeForCausalLM"], "num_experts": 1000, "num_hidden_layers": 1000},
        {"architectures": ["Gemma2ForCausalLM"], "final_logit_softcapping": 0.0},
        {"architectures": ["Gemma2ForCausalLM"], "query_pre_attn_scalar": 0},
        {"architectures": ["Gemma3ForCausalLM"], "sliding_window_pattern": 0},
        {"architectures": ["MistralForCausalLM"], "sliding_window": "wide"},
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4}},
    ],
)
def test_refused_impossible_sizes(model_dir, values):
    edit_config(model_dir, **values)
    assert_refused(model_dir, ErrorCode.CHECKPOINT_INVALID, "config.json")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"num_hidden_layers": 3}, "missing"),
        ({"num_hidden_layers": 1}, "do not belong"),
        ({"intermediate_size": 128}, "shape"),
        ({"attention_bias": True}, "missing"),
        ({"architectures": ["Qwen3ForCausalLM"]}, "missing"),
    ],
)
def test_refused_weights_of_another_model(model_dir, values, words):
    edit_config(model_dir, **values)
    assert_refused(model_dir, ErrorCode.CHECKPOINT_INVALID, words)


def test_refused_quantized_weights(model_dir):
    def quantize(weights):
        weights["model.norm.weight"] = weights["model.norm.weight"].to(torch.int8)

    edit_weights(model_dir, quantize)
    assert_refused(model_dir, ErrorCode.CHECKPOINT_INVALID, "stored as I8")


def test_refused_whole_weights_where_quantized_ones_are_stated(model_dir):
    edit_config(model_dir, quantization_config={"quant_method": "awq", "bits": 4, "group_size": 16})
    assert_refused(model_dir, ErrorCode.CHECKPOINT_INVALID, "missing")


def test_refused_quantized_weights_with_a_bias_that_the_configuration_does_not_name(model_dir, tmp_path):
    path = save_quantized(tmp_path / "quantized", model_dir, "gptq")
    edit_weights(path, lambda w: w["model.layers.1.mlp.down_proj.bias"].fill_(1))
    assert_refused(path, ErrorCode.CHECKPOINT_INVALID, "model.layers.1.mlp.down_proj.bias")


@pytest.mark.parametrize("group", [-1, 4])
def test_quantized_weights_of_a_group_that_is_not_there(model_dir, tmp_path, group):
    path = save_quantized(tmp_path / "quantized", model_dir, "gptq")
    edit_weights(path, lambda w: w["model.layers.0.self_attn.q_proj.g_idx"][3:4].fill_(group))
    assert_refused(path, ErrorCode.CHECKPOINT_INVALID, "q_proj.g_idx")


def test_refused_missing_shard(tmp_path):
    path = save_model(tmp_path / "model", max_shard_size="100KB")
    next(path.glob("model-00002-*.safetensors")).unlink()
    assert_refused(path, ErrorCode.CHECKPOINT_INVALID, "shards are missing")


def test_refused_truncated_shard(tmp_path):
    path = save_model(tmp_path / "model", max_shard_size="100KB")
    truncate(next(path.glob("model-00002-*.safetensors")), -10)
    assert_refused(path, ErrorCode.CHECKPOINT_INVALID, "truncated")


def test_an_index_that_an_older_checkpoint_left_does_not_count(tmp_path):
    path = save_model(tmp_path / "model", max_shard_size="100KB")
    shards = [*path.glob("model-*.safetensors")]
    whole = save_model(tmp_path / "whole")
    (path / "model.safetensors").write_bytes((whole / "model.safetensors").read_bytes())
    assert checkpoint._weight_files(path) == [path / "model.safetensors"]
    for shard in shards:
        shard.unlink()
    assert checkpoint._weight_files(path) == [path / "model.safetensors"]


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"weight_map": []}',
        '{"weight_map": {"a": "../../etc/passwd"}}',
        '{"weight_map": {"a": ["x"]}}',
        '{"weight_map": {"a": "x", "b": 1}}',
    ],
)
def test_refused_index(model_dir, text):
    (model_dir / "model.safetensors").unlink()
    (model_dir / "model.safetensors.index.json").write_text(text)
    assert_refused(model_dir, ErrorCode.CHECKPOINT_INVALID, "")


def test_refused_without_end_token(model_dir):
    edit_config(model_dir, eos_token_id=None)
    (model_dir / "generation_config.json").unlink(missing_ok=True)
    (model_dir / "tokenizer_config.json").unlink()
    assert_refused(model_dir, ErrorCode.CHECKPOINT_INVALID, "end-of-sequence")


@pytest.mark.parametrize(("values", "words"), [({"vocab_size": 300}, "vocab size"), ({"eos_token_id": 310}, "310")])
def test_refused_tokenizer_of_another_model(model_dir, values, words):
    edit_config(model_dir, **values)
    assert_refused(model_dir, ErrorCode.CHECKPOINT_INVALID, words)


@pytest.mark.parametrize(
    ("end", "words"),
    [("</s>", "config.json: eos_token_id '</s>'"), (-1, "-1"), ([2, True], "True"), (1 << 70, "belong")],
)
def test_refused_end_token_that_is_none(model_dir, end, words):
    edit_config(model_dir, eos_token_id=end)
    assert_refused(model_dir, ErrorCode.CHECKPOINT_INVALID, words)


def test_harmless_extra_weights_are_ignored(model_dir):
    expected = generate(TorchBackend(model_dir, num_kv_blocks=16), sequence())
    edit_weights(model_dir, lambda w: w.update({"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)}))
    assert generate(TorchBackend(model_dir, num_kv_blocks=16), sequence()) == expected


@pytest.mark.parametrize("rows", [1, 100, 4096])
def test_refused_another_output_layer_than_the_embedding_that_it_is_said_to_be(model_dir, monkeypatch, rows):
    monkeypatch.setattr(checkpoint, "_COMPARED_ROWS", rows)
    edit_config(model_dir, tie_word_embeddings=True)
    edit_weights(model_dir, lambda w: w.update({"lm_head.weight": w["model.embed_tokens.weight"].clone()}))
    edit_weights(model_dir, lambda w: w["lm_head.weight"][-1, -1].add_(1))
    assert_refused(model_dir, ErrorCode.CHECKPOINT_INVALID, "lm_head.weight is not the embedding")
    edit_weights(model_dir, lambda w: w.update({"lm_head.weight": w["lm_head.weight"][:-1].clone()}))
    assert_refused(model_dir, ErrorCode.CHECKPOINT_INVALID, "lm_head.weight is not the embedding")


def test_a_tied_output_layer_may_stand_in_the_file_again(model_dir):
    edit_config(model_dir, tie_word_embeddings=True)
    edit_weights(model_dir, lambda w: w.pop("lm_head.weight"))
    expected = generate(TorchBackend(model_dir, num_kv_blocks=16), sequence())
    edit_weights(model_dir, lambda w: w.update({"lm_head.weight": w["model.embed_tokens.weight"].double()}))
    assert generate(TorchBackend(model_dir, num_kv_blocks=16), sequence()) == expected


def test_configuration_in_the_spelling_of_transformers_4(model_dir):
    expected = read_model_config(model_dir)
    edit_config(model_dir, rope_parameters=None, rope_theta=10000.0, dtype=None, torch_dtype="float32")
    assert read_model_config(model_dir) == expected


def test_rotary_embeddings_may_be_stated_in_both_spellings(model_dir):
    edit_config(model_dir, rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4})
    expected = read_model_config(model_dir)
    edit_config(model_dir, rope_scaling={"type": "linear", "factor": 4})
    assert read_model_config(model_dir) == expected


def test_model_type_stands_in_for_architectures(model_dir):
    expected = read_model_config(model_dir)
    edit_config(model_dir, architectures=None)
    assert read_model_config(model_dir) == expected


def test_experts_are_counted_in_either_spelling(tmp_path):
    path = save_model(tmp_path / "model", "qwen3_moe")
    expected = read_model_config(path)
    edit_config(path, num_local_experts=None, num_experts=8)
    assert read_model_config(path) == expected


def test_a_gemma_configuration_in_the_spelling_of_transformers_4(model_dir):
    expected = read_model_config(save_model(model_dir / "gemma", "gemma3_text", num_hidden_layers=7))
    edit_config(model_dir / "gemma", rope_parameters=None, rope_theta=1e6, rope_local_base_freq=1e4, layer_types=None)
    assert read_model_config(model_dir / "gemma") == expected
    assert [window is None for window in expected.windows] == [False] * 5 + [True, False]


def test_a_context_with_longrope_ends_where_its_frequencies_change(tmp_path):
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    path = save_model(tmp_path / "model", "phi3", original_max_position_embeddings=128, rope_parameters=rope)
    assert read_model_config(path).max_model_len == 128
    edit_config(path, rope_parameters=None, rope_scaling={"type": "su", **rope}, rope_theta=1e4)
    assert read_model_config(path).rope_divisors == (1.0,) * 8


@pytest.mark.parametrize("family", FAMILIES)
def test_expected_weights_are_those_that_transformers_saves(tmp_path, family):
    path = save_model(tmp_path / "model", family)
    saved = {name: tuple(tensor.shape) for name, tensor in load_file(path / "model.safetensors").items()}
    assert expected_shapes(read_model_config(path)) == saved
