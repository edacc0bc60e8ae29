"""Tiny random checkpoints of every family, with tokenizers, saved once per session."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

torch.set_num_threads(1)

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
FAMILIES = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}


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


def save_model(path, family="llama", *, seed=0, max_shard_size="5GB", **overrides):
    """Saves a random model whose greedy output varies (larger weights than usual), and returns its directory."""
    settings = {
        "vocab_size": VOCAB_SIZE,
        "hidden_size": 64,
        "intermediate_size": 112,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
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
    model.save_pretrained(path, max_shard_size=max_shard_size)
    byte_level_tokenizer().save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def llama_dir(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("llama"))
