# SPDX-License-Identifier: Apache-2.0
"""Token identity with transformers (fp32, greedy)."""

from unittest.mock import patch

import pytest
import torch
from transformers import AutoModelForCausalLM

from llm_planner.engine.backend import TorchBackend
from tests.engine.builders import (
    LLAMA3_ROPE,
    PROMPT,
    WHOLE,
    counted_whole_layers,
    generate,
    save_model,
    save_quantized,
    sequence,
)

pytestmark = pytest.mark.usefixtures("computed_by")

LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 8.0],
    "long_factor": [2.0] * 8,
}
CASES = {
    "llama": ("llama", {}),
    "llama-tied-rope-llama3-biases": (
        "llama",
        {"tie_word_embeddings": True, "rope_parameters": LLAMA3_ROPE, "attention_bias": True, "mlp_bias": True},
    ),
    "llama-gelu-rope-linear": (
        "llama",
        {
            "hidden_act": "gelu_pytorch_tanh",
            "rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0},
        },
    ),
    "llama-one-kv-head": ("llama", {"num_key_value_heads": 1}),
    "mistral": ("mistral", {"sliding_window": None}),
    "mistral-rope-base": (
        "mistral",
        {"sliding_window": None, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
    ),
    "mistral-window": ("mistral", {"sliding_window": 24}),
    "mistral-window-of-a-block": ("mistral", {"sliding_window": 16}),
    "mistral-window-of-the-context": ("mistral", {"sliding_window": 512}),
    "qwen2": ("qwen2", {"num_key_value_heads": 4}),
    "qwen2-window-in-upper-layers": (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 1},
    ),
    "qwen3-window-by-layer-types": (
        "qwen3",
        {
            "use_sliding_window": True,
            "sliding_window": 33,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
    "qwen2-tied": ("qwen2", {"tie_word_embeddings": True}),
    "gemma2": (
        "gemma2",
        {
            "sliding_window": 24,
            "query_pre_attn_scalar": 20,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
        },
    ),
    "gemma2-uncapped-bias": (
        "gemma2",
        {"attn_logit_softcapping": None, "final_logit_softcapping": None, "attention_bias": True},
    ),
    "gemma3": ("gemma3_text", {"sliding_window": 24, "num_hidden_layers": 4, "sliding_window_pattern": 3}),
    "gemma3-rope-linear": (
        "gemma3_text",
        {
            "layer_types": ["full_attention", "sliding_attention"],
            "num_key_value_heads": 1,
            "query_pre_attn_scalar": 24,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e5},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e3},
            },
        },
    ),
    "phi3": ("phi3", {"num_key_value_heads": 1}),
    "phi3-window-rope-long": (
        "phi3",
        {"sliding_window": 24, "original_max_position_embeddings": 256, "rope_parameters": LONGROPE},
    ),
    "qwen3": ("qwen3", {"head_dim": 32}),
    "qwen3-moe": ("qwen3_moe", {"norm_topk_prob": True}),
    "qwen3-moe-as-weighted-bias": ("qwen3_moe", {"norm_topk_prob": False, "attention_bias": True}),
    "qwen3-moe-window": (
        "qwen3_moe",
        {"num_experts_per_tok": 1, "use_sliding_window": True, "sliding_window": 24, "max_window_layers": 1},
    ),
    "qwen3-tied-bias": ("qwen3", {"tie_word_embeddings": True, "attention_bias": True}),
}


def reference_with_logits(path, prompt, num_tokens, dtype=torch.float32):
    """Returns greedy tokens, and the logits (num_tokens, vocab_size) that chose them.

    Attention is written out ("eager"): transformers' other implementations leave out soft-capping.
    """
    model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation="eager")
    output = model.generate(
        torch.tensor([prompt]),
        max_new_tokens=num_tokens,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
    )
    return output.sequences[0, len(prompt) :].tolist(), torch.cat(output.logits)


def reference(path, prompt, num_tokens, dtype=torch.float32):
    return reference_with_logits(path, prompt, num_tokens, dtype)[0]


def generate_with_logits(backend, num_tokens, prompt):
    """Returns the tokens of one sequence and the logits of all its steps."""
    run, logits = backend._runner.run, []

    def run_and_keep(*arguments):
        ready, computed = run(*arguments)
        logits.extend([] if computed is None else [computed])
        return ready, computed

    with patch.object(backend._runner, "run", run_and_keep):
        tokens = generate(backend, sequence(prompt=prompt), max_tokens=num_tokens)["a"]
    return tokens, torch.cat(logits)


def assert_identical(backend, path, prompt, num_tokens):
    expected, expected_logits = reference_with_logits(path, prompt, num_tokens)
    assert len(set(expected)) > 2, "the random model repeats itself: the comparison would prove little"
    tokens, logits = generate_with_logits(backend, num_tokens, prompt)
    assert tokens == expected[: len(tokens)]
    assert len(tokens) == num_tokens or expected[len(tokens)] in backend.tokenizer.eos_token_ids
    torch.testing.assert_close(logits.cpu(), expected_logits[: len(logits)], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("case", CASES)
def test_greedy_tokens_equal_transformers(case, tmp_path):
    family, overrides = CASES[case]
    path = save_model(tmp_path / "model", family, seed=len(case), **overrides)
    assert_identical(TorchBackend(path, num_kv_blocks=16), path, PROMPT, 60)


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("case", ["llama-tied-rope-llama3-biases", "qwen2", "qwen3", "qwen3-moe", "gemma2"])
def test_greedy_tokens_of_packed_weights_equal_transformers(case, tmp_path):
    family, overrides = CASES[case]
    path = save_model(tmp_path / "model", family, seed=len(case), **overrides)
    backend = TorchBackend(path, num_kv_blocks=64)
    assert_identical(backend, path, PROMPT, 60)
    prompts = {name: PROMPT[index:] for index, name in enumerate("abcde")}
    together = generate(backend, *(sequence(name, prompt) for name, prompt in prompts.items()), max_tokens=30)
    for name, prompt in prompts.items():
        assert generate(backend, sequence(name, prompt), max_tokens=30)[name] == together[name]


@pytest.mark.parametrize("case", ["llama-tied-rope-llama3-biases", "mistral-window", "qwen3"])
def test_greedy_tokens_of_weights_in_bfloat16_equal_transformers_in_float32(case, tmp_path):
    family, overrides = CASES[case]
    path = save_model(tmp_path / "model", family, seed=len(case), dtype=torch.bfloat16, **overrides)
    assert_identical(TorchBackend(path, num_kv_blocks=16), path, PROMPT, 60)


@pytest.mark.parametrize("window", [None, 24])
def test_greedy_tokens_of_layers_computed_whole_equal_transformers_in_float32(computed_by, window, tmp_path):
    path = save_model(tmp_path / "model", "mistral", seed=6, sliding_window=window, **WHOLE)
    backend = TorchBackend(path, num_kv_blocks=16)
    with counted_whole_layers() as counted:
        assert_identical(backend, path, PROMPT, 60)
    assert (counted["whole"] > 50) == (computed_by == "kernels")


QUANTIZED = {
    "gptq": ("llama", "gptq", {"desc_act": False, "sym": False}),
    "gptq-in-order-of-activations": ("qwen2", "gptq", {"desc_act": True, "is_ordered": False}),
    "gptq-v2-without-groups": ("llama", "gptq", {"checkpoint_format": "gptq_v2", "group_size": -1}),
    "gptq-experts": ("qwen3_moe", "gptq", {"checkpoint_format": "gptq"}),
    "awq": ("qwen2", "awq", {"version": "gemm", "zero_point": True, "modules_to_not_convert": None}),
    "awq-fused": ("phi3", "awq", {"version": "GEMM", "group_size": 8}),
}


@pytest.mark.parametrize("case", QUANTIZED)
def test_quantized_weights_equal_their_numbers_in_transformers(case, tmp_path):
    family, method, settings = QUANTIZED[case]
    plain = save_model(tmp_path / "plain", family, seed=len(case))
    quantized = save_quantized(tmp_path / "quantized", plain, method, **settings)
    assert_identical(TorchBackend(quantized, num_kv_blocks=16), plain, PROMPT, 40)


def test_rope_scaling_changes_the_output(tmp_path):
    plain = save_model(tmp_path / "plain", seed=5)
    scaled = save_model(tmp_path / "scaled", seed=5, rope_parameters=LLAMA3_ROPE)
    assert reference(plain, PROMPT, 30) != reference(scaled, PROMPT, 30)


def test_a_window_changes_the_output(tmp_path):
    whole = save_model(tmp_path / "whole", "mistral", seed=5, sliding_window=None)
    window = save_model(tmp_path / "window", "mistral", seed=5, sliding_window=24)
    assert reference(whole, PROMPT, 30) != reference(window, PROMPT, 30)


def test_sharded_checkpoint_equals_transformers(tmp_path):
    path = save_model(tmp_path / "model", max_shard_size="100KB")
    assert len(list(path.glob("model-*.safetensors"))) > 1
    assert_identical(TorchBackend(path, num_kv_blocks=16), path, PROMPT, 30)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_begins_like_transformers(dtype, llama_dir):
    expected = reference(llama_dir, PROMPT, 1, getattr(torch, dtype))
    backend = TorchBackend(llama_dir, num_kv_blocks=16, dtype=dtype)
    assert generate(backend, sequence(), max_tokens=1)["a"] == expected


@pytest.mark.gpu
def test_greedy_tokens_equal_transformers_on_cuda(llama_dir):
    backend = TorchBackend(llama_dir, num_kv_blocks=16, device="cuda", dtype="float32")
    assert_identical(backend, llama_dir, PROMPT, 60)
