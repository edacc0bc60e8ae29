# SPDX-License-Identifier: Apache-2.0
"""Builders of tiny random checkpoints with tokenizers, and a small driver of the backend."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from llm_planner.core.step import SchedulerOutput, Sequence
from llm_planner.engine.checkpoint import expected_shapes
from llm_planner.engine.model_config import read_model_config
from llm_planner.engine.whole_layer import WholeLayers

PROMPT = tuple(range(10, 87))
VOCAB_SIZE = 320
CORPUS = ["fly to the red_box; mf(100);", "pick(cup); place(cup, table);", "tc(90); g('person'); l('done');"] * 20
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
ADAPTED = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
WHOLE = {"dtype": torch.bfloat16, "intermediate_size": 128}  # of a model whose layers our kernels compute whole
FAMILIES = {
    "gemma2": (Gemma2Config, Gemma2ForCausalLM),
    "gemma3_text": (Gemma3TextConfig, Gemma3ForCausalLM),
    "llama": (LlamaConfig, LlamaForCausalLM),
    "mistral": (MistralConfig, MistralForCausalLM),
    "phi3": (Phi3Config, Phi3ForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "qwen3_moe": (Qwen3MoeConfig, Qwen3MoeForCausalLM),
}


def bytes_of(tokenizer, token_ids) -> bytes:
    return b"".join(map(tokenizer.token_bytes, token_ids))


def byte_level_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE - 8,
        show_progress=False,
        special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=alphabet,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>")


def sentencepiece_tokenizer() -> PreTrainedTokenizerFast:
    """Returns a tokenizer built like Llama 2's: spaces as U+2581, unknown characters as bytes."""
    special = ["<unk>", "<s>", "</s>"]
    pieces = ["\u2581", "g", "o", "\u2581g", "go", "\u2581go", "(", ")", ";", "mf", "m", "f", "1", "0"]
    vocab = {token: i for i, token in enumerate([*special, *(f"<0x{byte:02X}>" for byte in range(256)), *pieces])}
    merges = [("\u2581", "g"), ("g", "o"), ("\u2581g", "o"), ("m", "f")]
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


def save_model(path, family="llama", *, seed=0, max_shard_size="5GB", dtype=torch.float32, **overrides):
    """Saves a random model whose greedy output varies (larger weights than usual), and returns its directory."""
    settings = {
        "vocab_size": VOCAB_SIZE,
        "hidden_size": 64,
        "intermediate_size": 112,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "num_experts": 8,
        "num_experts_per_tok": 3,
        "moe_intermediate_size": 48,
        "max_position_embeddings": 512,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "tie_word_embeddings": False,
    }
    config_class, model_class = FAMILIES[family]
    torch.manual_seed(seed)
    model = model_class(config_class(**(settings | overrides)))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            mean, deviation = (1.0, 0.2) if "norm" in name else (0.0, 0.03 if "embed_tokens" in name else 0.2)
            parameter.normal_(mean, deviation)
    model.to(dtype).save_pretrained(path, max_shard_size=max_shard_size)
    byte_level_tokenizer().save_pretrained(path)
    return path


def _pack(numbers):
    """Returns int32 words of numbers (..., 8) of 4 bits, the first in the lowest bits."""
    shifts = np.arange(0, 32, 4, dtype=np.uint32)
    return torch.from_numpy((numbers.numpy().astype(np.uint32) << shifts).sum(-1, dtype=np.uint32).view(np.int32))


def save_quantized(path, plain, method, *, seed=0, group_size=16, is_ordered=True, **config):
    """Saves a model as ``plain`` with random linear layers of 4 bits, and gives ``plain`` the same ones as numbers."""
    shutil.copytree(plain, path)
    weights, rng = load_file(plain / "model.safetensors"), torch.Generator().manual_seed(seed)
    quantized = dict(weights)
    for weight in [name for name in weights if name.endswith("_proj.weight")]:
        out_size, in_size = weights[weight].shape
        size = in_size if group_size == -1 else group_size
        groups = torch.arange(in_size) // size
        if not is_ordered:
            groups = groups[torch.randperm(in_size, generator=rng)]
        codes = torch.randint(16, (in_size, out_size), generator=rng)
        zeros = torch.randint(1, 16, (in_size // size, out_size), generator=rng)
        scales = (torch.rand(zeros.shape, generator=rng) * 0.06).half()
        weights[weight] = ((codes - zeros[groups]) * scales[groups].float()).t().contiguous()
        del quantized[weight]
        name = weight.removesuffix(".weight")
        if method == "awq":
            order = (0, 2, 4, 6, 1, 3, 5, 7)
            parts = (_pack(numbers.unflatten(1, (-1, 8))[..., order]) for numbers in (codes, zeros))
            quantized |= zip((f"{name}.qweight", f"{name}.qzeros"), parts, strict=True)
        else:
            stored_zeros = zeros if config.get("checkpoint_format") == "gptq_v2" else zeros - 1
            quantized[f"{name}.qweight"] = _pack(codes.unflatten(0, (-1, 8)).transpose(1, 2))
            quantized[f"{name}.qzeros"] = _pack(stored_zeros.unflatten(1, (-1, 8)))
            quantized[f"{name}.g_idx"] = groups.int()
            quantized.setdefault(f"{name}.bias", torch.zeros(out_size, dtype=torch.float16))
        quantized[f"{name}.scales"] = scales
    save_file(weights, plain / "model.safetensors", {"format": "pt"})
    save_file(quantized, path / "model.safetensors", {"format": "pt"})
    values = json.loads((path / "config.json").read_text())
    values["quantization_config"] = {"quant_method": method, "bits": 4, "group_size": group_size, **config}
    (path / "config.json").write_text(json.dumps(values))
    return path


def save_adapter(path, model_dir, *, seed=0, rank=4, targets=ADAPTED, **config):
    """Saves a random LoRA adapter of a model as PEFT does, and returns its directory as a sequence names it."""
    shapes = expected_shapes(read_model_config(model_dir))
    modules = [n.removesuffix(".weight") for n in shapes if n.endswith(tuple(f"{target}.weight" for target in targets))]
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for module in modules:
        out_size, in_size = shapes[f"{module}.weight"]
        for name, shape in (("lora_A", (rank, in_size)), ("lora_B", (out_size, rank))):
            weights[f"base_model.model.{module}.{name}.weight"] = torch.randn(shape, generator=generator) * 0.15
    path.mkdir()
    save_file(weights, path / "adapter_model.safetensors")
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "some/model",
        "inference_mode": True,
        "r": rank,
        "lora_alpha": 8,
        "lora_dropout": 0.1,
        "bias": "none",
        "use_rslora": False,
        "use_dora": False,
        "init_lora_weights": True,
        "modules_to_save": None,
        "rank_pattern": {},
        "target_modules": list(targets),
    }
    (path / "adapter_config.json").write_text(json.dumps(settings | config))
    return str(path)


def sequence(request_id="a", prompt=PROMPT, **fields):
    return Sequence(request_id=request_id, prompt_token_ids=tuple(prompt), **fields)


def start(*sequences, **fields):
    """Returns a step that admits sequences and computes their whole prompts."""
    scheduled = {s.request_id: len(s.prompt_token_ids) - s.num_cached_tokens for s in sequences}
    return SchedulerOutput(new=sequences, num_scheduled_tokens=scheduled, **fields)


def decode(*request_ids):
    return SchedulerOutput(num_scheduled_tokens=dict.fromkeys(request_ids, 1))


def generate(backend, *sequences, max_tokens=40, what="token_ids"):
    """Returns the tokens, or ``choices``, of sequences that run together, uninterrupted, and releases them."""
    tokens = {s.request_id: [] for s in sequences}
    active = set(tokens)
    step = backend.execute(start(*sequences))
    while active:
        assert not step.failed, step.failed
        for request_id in sorted(active):
            tokens[request_id] += getattr(step, what)[request_id]
            if request_id in step.finished or len(tokens[request_id]) >= max_tokens:
                active.discard(request_id)
        if active:
            step = backend.execute(decode(*sorted(active)))
    backend.execute(SchedulerOutput(release=tuple(tokens)))
    return tokens


@contextmanager
def counted_whole_layers(*, never: bool = False) -> Iterator[Counter]:
    """Counts the layers that are computed whole, and those that turn out to be computed step by step."""
    counted, compute = Counter(), WholeLayers.compute

    def count(self, *arguments):
        is_whole = not never and compute(self, *arguments)
        counted["whole" if is_whole else "in steps"] += 1
        return is_whole

    with patch.object(WholeLayers, "compute", count):
        yield counted
