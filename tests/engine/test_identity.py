"""Token identity with transformers (fp32, greedy)."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from llm_planner.core.step import SchedulerOutput, Sequence
from llm_planner.engine.backend import TorchBackend
from tests.engine.conftest import LLAMA3_ROPE, save_model

PROMPT = tuple(range(10, 87))
CASES = {
    "llama": ("llama", {}),
    "llama-tied-rope-llama3-biases": (
        "llama",
        {"tie_word_embeddings": True, "rope_parameters": LLAMA3_ROPE, "attention_bias": True, "mlp_bias": True},
    ),
    "llama-one-kv-head": ("llama", {"num_key_value_heads": 1}),
    "qwen2": ("qwen2", {"num_key_value_heads": 4}),
    "qwen2-tied": ("qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("qwen3", {"head_dim": 32}),
    "qwen3-tied": ("qwen3", {"tie_word_embeddings": True}),
}


def reference(path, prompt, num_tokens):
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    output = model.generate(
        torch.tensor([prompt]), max_new_tokens=num_tokens, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    return output[0, len(prompt) :].tolist()


@pytest.mark.parametrize("case", CASES)
def test_greedy_tokens_equal_transformers(case, tmp_path):
    family, overrides = CASES[case]
    path = save_model(tmp_path / "model", family, seed=len(case), **overrides)
    expected = reference(path, PROMPT, 60)
    assert len(set(expected)) > 2, "the random model repeats itself: the comparison would prove little"
    backend = TorchBackend(path, num_kv_blocks=16)
    step = backend.execute(
        SchedulerOutput(
            new=(Sequence(request_id="a", prompt_token_ids=PROMPT),), num_scheduled_tokens={"a": len(PROMPT)}
        )
    )
    tokens = list(step.token_ids["a"])
    while not step.finished and len(tokens) < len(expected):
        step = backend.execute(SchedulerOutput(num_scheduled_tokens={"a": 1}))
        assert not step.failed
        tokens += step.token_ids["a"]
    assert tokens == expected[: len(tokens)]
    assert step.finished or len(tokens) == len(expected)
