# SPDX-License-Identifier: Apache-2.0
"""LoRA adapters: tokens and probabilities are those of transformers with the products added to its weights."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.step import SchedulerOutput
from llm_planner.engine.adapter import Adapter, group_rows
from llm_planner.engine.backend import TorchBackend
from llm_planner.engine.lookahead import Lookahead
from tests.engine.builders import PROMPT, decode, generate, save_adapter, save_model, sequence, start

CASES = {
    "all": ("llama", {}, {}),
    "biases": ("llama", {"attention_bias": True, "mlp_bias": True}, {"rank": 1}),
    "two of three": ("qwen2", {}, {"targets": ("q_proj", "v_proj")}),
    "the last layer's end": ("qwen3", {}, {"targets": ("o_proj", "up_proj"), "rank": 7}),
    "fused": ("phi3", {}, {"targets": ("qkv_proj", "gate_up_proj", "down_proj")}),
    "behind norms": ("gemma3_text", {}, {"targets": ("q_proj", "o_proj", "down_proj")}),
    "stabilized": ("llama", {}, {"use_rslora": True, "rank": 16, "lora_alpha": 4.5}),
}
GRAMMAR = 'start: ("mf(" /[0-9]{1,3}/ ");" | "g(" /[a-z_]+/ ");")+\n'
NUM_TOKENS = 24


def merged(model_dir, adapter):
    """Returns the model of transformers with what PEFT's formula says added to its weights, or without an adapter."""
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    if adapter is None:
        return model
    config = json.loads((Path(adapter) / "adapter_config.json").read_text())
    weights = load_file(Path(adapter) / "adapter_model.safetensors")
    scale = config["lora_alpha"] / (math.sqrt(config["r"]) if config["use_rslora"] else config["r"])
    with torch.no_grad():
        for name in weights:
            if ".lora_A." in name:
                module = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
                delta = weights[name.replace("lora_A", "lora_B")] @ weights[name]
                model.get_submodule(module).weight += scale * delta
    return model


def reference(model_dir, adapter, prompt=PROMPT):
    """Returns the greedy tokens of such a model, and the logarithms of their probabilities."""
    model = merged(model_dir, adapter)
    output = model.generate(
        torch.tensor([prompt]), max_new_tokens=NUM_TOKENS, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    with torch.no_grad():
        logprobs = model(output).logits[0].log_softmax(-1)
    tokens = output[0, len(prompt) :]
    return tokens.tolist(), logprobs[len(prompt) - 1 : -1].gather(1, tokens[:, None])[:, 0]


def told(backend, *sequences):
    """Returns tokens and the logarithms of their probabilities, of sequences that run together."""
    tokens, logprobs = {s.request_id: [] for s in sequences}, {s.request_id: [] for s in sequences}
    output = backend.execute(start(*sequences))
    while True:
        assert not output.failed
        for name, choices in output.choices.items():
            tokens[name] += [choice.token_id for choice in choices]
            logprobs[name] += [choice.logprob for choice in choices]
        going_on = [name for name in tokens if len(tokens[name]) < NUM_TOKENS and name not in output.finished]
        if not going_on:
            break
        output = backend.execute(decode(*going_on))
    backend.execute(SchedulerOutput(release=tuple(tokens)))
    return tokens, {name: torch.tensor(values) for name, values in logprobs.items()}


def assert_equal(told_tokens, told_logprobs, expected):
    tokens, logprobs = expected
    num = len(told_tokens)
    assert told_tokens == tokens[:num]
    assert num == NUM_TOKENS or told_tokens[-1] == 2
    torch.testing.assert_close(told_logprobs, logprobs[:num], rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def adapters(llama_dir, tmp_path_factory):
    directory = tmp_path_factory.mktemp("adapters")
    return [
        save_adapter(directory / "x", llama_dir, seed=1),
        save_adapter(directory / "y", llama_dir, seed=2, rank=6, targets=("q_proj", "v_proj", "down_proj")),
    ]


@pytest.fixture
def backend(llama_dir, adapters):
    backend = TorchBackend(llama_dir, num_kv_blocks=64, adapters=adapters)
    yield backend
    backend.check_integrity()
    backend.close()


@pytest.mark.parametrize("case", CASES)
def test_one_adapter(case, tmp_path):
    family, overrides, settings = CASES[case]
    path = save_model(tmp_path / "model", family, seed=len(case), **overrides)
    adapter = save_adapter(tmp_path / "adapter", path, seed=3, **settings)
    backend = TorchBackend(path, num_kv_blocks=16, adapters=[adapter])
    tokens, logprobs = told(backend, sequence(adapter=adapter))
    assert_equal(tokens["a"], logprobs["a"], reference(path, adapter))
    assert tokens["a"] != reference(path, None)[0][: len(tokens["a"])]


def test_experts_take_no_adapter(tmp_path):
    path = save_model(tmp_path / "model", "qwen3_moe")
    TorchBackend(path, num_kv_blocks=4, adapters=[save_adapter(tmp_path / "attention", path, targets=("q_proj",))])
    adapter = save_adapter(tmp_path / "experts", path, targets=("q_proj", "gate_proj"))
    with pytest.raises(PlannerError, match="'gate_proj', which is no linear layer"):
        TorchBackend(path, num_kv_blocks=4, adapters=[adapter])


@pytest.mark.parametrize("order", ["xy-xy-", "xxyy--", "x-----"])
def test_several_in_one_batch(backend, llama_dir, adapters, order):
    chosen = {"x": adapters[0], "y": adapters[1], "-": None}
    sequences = [sequence(str(index), PROMPT[index:], adapter=chosen[letter]) for index, letter in enumerate(order)]
    tokens, logprobs = told(backend, *sequences)
    for s in sequences:
        expected = reference(llama_dir, s.adapter, s.prompt_token_ids)
        assert_equal(tokens[s.request_id], logprobs[s.request_id], expected)


@pytest.mark.usefixtures("layout")
def test_several_in_one_batch_with_packed_weights(llama_dir, adapters):
    backend = TorchBackend(llama_dir, num_kv_blocks=64, adapters=adapters)
    sequences = [sequence(name, adapter=adapter) for name, adapter in zip("abc", (*adapters, None), strict=True)]
    tokens, logprobs = told(backend, *sequences)
    for s in sequences:
        assert_equal(tokens[s.request_id], logprobs[s.request_id], reference(llama_dir, s.adapter))


def test_rows_without_an_adapter_are_bit_for_bit_what_they_are_without_adapters(backend, llama_dir, adapters):
    def of_the_base_model(backend, adapter):
        names = [None, adapter, None, adapter]
        sequences = [sequence(str(index), adapter=name) for index, name in enumerate(names)]
        return told(backend, *sequences)[1]

    mixed, plain = of_the_base_model(backend, adapters[0]), of_the_base_model(TorchBackend(llama_dir), None)
    assert torch.equal(mixed["0"], plain["0"])
    assert torch.equal(mixed["2"], plain["2"])
    assert not torch.equal(mixed["1"], plain["1"])


@pytest.mark.parametrize("chunk", [1, 7, 30])
def test_prompt_in_chunks_suspended_offloaded_and_preempted(backend, llama_dir, adapters, chunk):
    expected, _ = reference(llama_dir, adapters[0])
    expected = expected[: expected.index(2) if 2 in expected else None]
    asked = sequence(adapter=adapters[0])
    other = sequence("b", adapter=adapters[1])
    backend.execute(start(other))
    left, tokens, new = len(PROMPT), [], (asked,)
    while left:
        num_tokens = min(chunk, left)
        step = SchedulerOutput(new=new, num_scheduled_tokens={"a": num_tokens, "b": 1})
        tokens += backend.execute(step).token_ids.get("a", ())
        left, new = left - num_tokens, ()
    for _ in range(3):
        tokens += backend.execute(decode("a", "b")).token_ids["a"]
    backend.execute(SchedulerOutput(offload=("a",), num_scheduled_tokens={"b": 1}))
    backend.execute(decode("b"))
    tokens += backend.execute(replace(decode("a", "b"), restore=("a",))).token_ids["a"]
    assert tokens == expected[: len(tokens)]
    again = replace(asked, output_token_ids=tuple(tokens))
    step = SchedulerOutput(release=("a",), new=(again,), num_scheduled_tokens={"a": len(PROMPT) + len(tokens)})
    tokens += backend.execute(step).token_ids["a"]
    tokens += backend.execute(decode("a")).token_ids["a"]
    assert tokens == expected[: len(tokens)]
    inserted = (20, 21, 22)
    output = backend.execute(SchedulerOutput(insert={"a": inserted}, num_scheduled_tokens={"a": 4}))
    expected, _ = reference(llama_dir, adapters[0], (*PROMPT, *tokens, *inserted))
    assert list(output.token_ids["a"]) == expected[:1]
    backend.execute(SchedulerOutput(release=("a", "b")))


def test_a_prefix_is_shared_by_sequences_of_its_adapter_alone(backend, adapters):
    expected = generate(backend, sequence(adapter=adapters[0]))
    for name, adapter in (("x", adapters[0]), ("y", adapters[1]), ("-", None)):
        assert backend.load_prefix(name, PROMPT[:64], adapter) == 64
    cached = {"num_cached_tokens": 48, "prefix_id": "x"}
    assert generate(backend, sequence(adapter=adapters[0], **cached)) == expected
    for adapter in (adapters[1], None):
        output = backend.execute(start(sequence(adapter=adapter, **cached)))
        assert "another adapter" in output.failed["a"]
        with pytest.raises(PlannerError, match="another adapter") as caught:
            backend.load_prefix("x", PROMPT[:64], adapter)
        assert caught.value.code is ErrorCode.ENGINE_FAILED


def test_an_adapter_that_is_not_loaded_fails_the_request_alone(backend, adapters):
    expected = generate(backend, sequence("b", adapter=adapters[0]), max_tokens=1)
    output = backend.execute(start(sequence(adapter="elsewhere"), sequence("b", adapter=adapters[0])))
    assert output.failed == {"a": "adapter 'elsewhere' is not loaded"}
    assert list(output.token_ids["b"]) == expected["b"]
    backend.execute(SchedulerOutput(release=("a", "b")))
    with pytest.raises(PlannerError, match="'elsewhere' is not loaded"):
        backend.load_prefix("p", PROMPT, "elsewhere")


def test_drafts_do_not_change_the_tokens(backend, llama_dir, adapters):
    drafting = TorchBackend(llama_dir, num_kv_blocks=64, adapters=adapters, lookahead="always")
    for adapter in (*adapters, None):
        asked = sequence(adapter=adapter, grammar=GRAMMAR)
        output, tokens = drafting.execute(start(asked)), []
        while len(tokens) < NUM_TOKENS and "a" not in output.finished:
            tokens += output.token_ids["a"]
            count = drafting._states["a"].num_uncomputed_tokens + output.num_draft_tokens["a"]
            output = drafting.execute(SchedulerOutput(num_scheduled_tokens={"a": count}))
        drafting.execute(SchedulerOutput(release=("a",)))
        expected = generate(backend, asked, max_tokens=len(tokens))["a"]
        assert tokens[: len(expected)] == expected


def test_what_plans_of_one_adapter_say_is_no_guess_for_another():
    lookahead, plan = Lookahead("always"), [30, 31, 32, 33] * 3
    lookahead.drafter(sequence(adapter="x")).advance(plan)
    assert lookahead.drafter(sequence(adapter="x")).draft(None, 4, 0.1)
    assert not lookahead.drafter(sequence(adapter="y")).draft(None, 4, 0.1)


def test_rows_of_an_adapter_are_one_group():
    x, y = Adapter(()), Adapter(())
    neighbours, scattered = (
        group_rows([None, x, x, None], torch.device("cpu")),
        group_rows([x, y, x, None, y], torch.device("cpu")),
    )
    assert [group.rows for group in neighbours] == [slice(1, 3)]
    assert [group.rows.tolist() for group in scattered] == [[0, 2], [1, 4]]
    assert [group.adapter is adapter for group, adapter in zip(scattered, (x, y), strict=True)] == [True, True]


# --- What is refused


@pytest.fixture
def adapter(llama_dir, tmp_path):
    return Path(save_adapter(tmp_path / "adapter", llama_dir))


def edit_config(adapter, **values):
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def assert_refused(llama_dir, adapter, code, words, monkeypatch):
    monkeypatch.setattr("llm_planner.engine.checkpoint.Checkpoint.load", lambda *_: pytest.fail("a weight was read"))
    with pytest.raises(PlannerError) as error:
        TorchBackend(llama_dir, num_kv_blocks=4, adapters=[str(adapter)])
    assert error.value.code is code
    assert words in error.value.message
    assert str(adapter) in error.value.message


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors"])
def test_a_file_that_is_missing(llama_dir, adapter, name, monkeypatch):
    (adapter / name).unlink()
    assert_refused(llama_dir, adapter, ErrorCode.MODEL_NOT_FOUND, name, monkeypatch)


@pytest.mark.parametrize("text", ["", "{", "[]", "\ufffd"])
def test_a_broken_configuration(llama_dir, adapter, text, monkeypatch):
    (adapter / "adapter_config.json").write_text(text)
    assert_refused(llama_dir, adapter, ErrorCode.CHECKPOINT_INVALID, "adapter_config.json", monkeypatch)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"r": 0}, "r must"),
        ({"r": True}, "r must"),
        ({"r": "4"}, "r must"),
        ({"r": 10**400}, "r must"),
        ({"lora_alpha": None}, "lora_alpha"),
        ({"lora_alpha": 10**400}, "lora_alpha"),
        ({"use_rslora": "yes"}, "use_rslora"),
        ({"target_modules": "all-linear"}, "target_modules"),
        ({"target_modules": []}, "target_modules"),
        ({"target_modules": [3]}, "target_modules"),
        ({"r": 5}, "shape"),
        ({"target_modules": ["q_proj"]}, "do not belong"),
    ],
)
def test_a_wrong_value(llama_dir, adapter, values, words, monkeypatch):
    edit_config(adapter, **values)
    assert_refused(llama_dir, adapter, ErrorCode.CHECKPOINT_INVALID, words, monkeypatch)


@pytest.mark.parametrize(
    "values",
    [
        {"peft_type": "IA3"},
        {"peft_type": None},
        {"task_type": "SEQ_CLS"},
        {"bias": "lora_only"},
        {"lora_bias": True},
        {"use_dora": True},
        {"modules_to_save": ["lm_head"]},
        {"rank_pattern": {"q_proj": 8}},
        {"alpha_pattern": {"q_proj": 8}},
        {"init_lora_weights": "pissa"},
        {"layers_to_transform": 0},
        {"fan_in_fan_out": True},
        {"target_modules": ["q_proj", "lm_head"]},
        {"of_a_later_version": 1},
    ],
)
def test_what_would_change_the_computation_and_is_not_implemented(llama_dir, adapter, values, monkeypatch):
    edit_config(adapter, **values)
    words = "'lm_head'" if "target_modules" in values else f"{next(iter(values))} = "
    assert_refused(llama_dir, adapter, ErrorCode.UNSUPPORTED_ARCHITECTURE, words, monkeypatch)


@pytest.mark.parametrize("keep", [0, 100, -1])
def test_truncated_weights(llama_dir, adapter, keep, monkeypatch):
    path = adapter / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    assert_refused(llama_dir, adapter, ErrorCode.CHECKPOINT_INVALID, "truncated or corrupt", monkeypatch)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda weights: weights.pop(min(weights)), "missing"),
        (lambda weights: weights.update(more=torch.zeros(2)), "do not belong"),
        (lambda weights: weights.update({min(weights): weights[min(weights)].to(torch.int8)}), "stored as I8"),
    ],
)
def test_other_weights(llama_dir, adapter, edit, words, monkeypatch):
    path = adapter / "adapter_model.safetensors"
    weights = load_file(path)
    edit(weights)
    save_file(weights, path)
    assert_refused(llama_dir, adapter, ErrorCode.CHECKPOINT_INVALID, words, monkeypatch)


def test_an_adapter_of_another_model(llama_dir, tmp_path, monkeypatch):
    other = save_model(tmp_path / "other", hidden_size=32)
    adapter = save_adapter(tmp_path / "adapter", other)
    assert_refused(llama_dir, adapter, ErrorCode.CHECKPOINT_INVALID, "shape", monkeypatch)
