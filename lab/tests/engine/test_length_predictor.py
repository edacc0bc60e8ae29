# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from lab.tests.engine.length_builders import save_predictor
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.engine.length_config import HEAD_NAME, load_length_config, mismatch
from llm_planner.engine.length_predictor import TorchLengthPredictor
from llm_planner.prediction.prompt_compression import compress_prompt
from tests.engine.builders import save_model

PROMPT = tuple(range(10, 45))


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("targets") / "target")


@pytest.fixture
def directory(tmp_path, target):
    save_predictor(tmp_path / "predictor", target)
    return tmp_path / "predictor"


def refusal(directory):
    with pytest.raises(PlannerError) as caught:
        TorchLengthPredictor(directory)
    return caught.value


def by_transformers(network, token_ids):
    with torch.no_grad():
        logits = network(torch.tensor([list(token_ids)]), torch.tensor([len(token_ids)]))
    return logits.double().softmax(-1)[0].numpy()


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_the_engine_computes_what_was_trained(tmp_path, family):
    model = save_model(tmp_path / family, family)
    network = save_predictor(tmp_path / "predictor", model, source=model, num_layers=2)
    told = TorchLengthPredictor(tmp_path / "predictor").predict(PROMPT)
    masses = np.diff(told.cumulative[3::4], prepend=0.0)
    assert masses == pytest.approx(by_transformers(network, PROMPT), abs=1e-4)
    assert told.max_tokens == 32


def test_a_predictor_with_a_window_is_refused(directory):
    path = directory / "config.json"
    values = json.loads(path.read_text()) | {"architectures": ["MistralForCausalLM"], "sliding_window": 20}
    path.write_text(json.dumps(values | {"layer_types": None}))
    assert "sliding_window" in refusal(directory).message


def test_a_long_prompt_is_read_from_both_ends(tmp_path, target):
    network = save_predictor(tmp_path / "predictor", target)
    long = tuple(range(10, 200))
    told = TorchLengthPredictor(tmp_path / "predictor").predict(long)
    masses = np.diff(told.cumulative[3::4], prepend=0.0)
    assert masses == pytest.approx(by_transformers(network, compress_prompt(long, 40, 8)), abs=1e-4)


def test_levels_reach_the_intervals(tmp_path, target):
    save_predictor(tmp_path / "wide", target, levels=(1.0,) * 1001)
    lower, upper = TorchLengthPredictor(tmp_path / "wide").predict(PROMPT).interval(0.5)
    assert (lower, upper) == (1, 32)


def test_levels_are_those_of_the_length_of_the_prompt(tmp_path, target):
    save_predictor(tmp_path / "grouped", target, groups=((len(PROMPT), (1.0,) * 1001),))
    predictor = TorchLengthPredictor(tmp_path / "grouped")
    assert predictor.predict(PROMPT).interval(0.5) == (1, 32)
    assert predictor.predict((*PROMPT, PROMPT[0])).interval(0.5) != (1, 32)


@pytest.mark.parametrize("prompt", [(), (5, 100_000), (-1,)])
def test_a_prompt_in_other_tokens_is_refused(directory, prompt):
    with pytest.raises(PlannerError, match="another vocabulary"):
        TorchLengthPredictor(directory).predict(prompt)


def test_a_predictor_fits_its_own_model_only(tmp_path, directory, target):
    config = load_length_config(directory)
    other, respelled = save_model(tmp_path / "other", seed=7), save_model(tmp_path / "respelled")
    path = respelled / "tokenizer.json"
    path.write_text(path.read_text().replace('"<pad>"', '"<fill>"'))
    assert mismatch(config, target) is None
    assert mismatch(config, other) == "was made for 'target', whose weights are not those of 'other'"
    assert mismatch(config, respelled) == "was made for 'target', whose tokenizer is not that of 'respelled'"


def test_a_model_that_a_server_runs_is_known_by_its_tokenizer(tmp_path, directory):
    config = load_length_config(directory)
    served, respelled = save_model(tmp_path / "served", seed=7), save_model(tmp_path / "respelled")
    for model in (served, respelled):
        for path in model.glob("*.safetensors"):
            path.unlink()
    path = respelled / "tokenizer.json"
    path.write_text(path.read_text().replace('"<pad>"', '"<fill>"'))
    assert mismatch(config, served) is None
    assert mismatch(config, respelled) == "was made for 'target', whose tokenizer is not that of 'respelled'"


def test_a_directory_without_predictor_is_named(tmp_path):
    error = refusal(tmp_path)
    assert error.code is ErrorCode.MODEL_NOT_FOUND
    assert str(tmp_path) in error.message


def test_a_truncated_head_is_found(directory):
    path = directory / HEAD_NAME
    path.write_bytes(path.read_bytes()[:-7])
    error = refusal(directory)
    assert error.code is ErrorCode.CHECKPOINT_INVALID
    assert HEAD_NAME in error.message


def test_a_truncated_decoder_is_found(directory):
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-7])
    assert refusal(directory).code is ErrorCode.CHECKPOINT_INVALID


def test_a_head_of_another_size_is_found(directory):
    replace(load_length_config(directory), num_buckets=9).save(directory)
    assert "(9, 192)" in refusal(directory).message


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"bucket_tokens": 0}, "bucket_tokens"),
        ({"levels": [0.5]}, "levels"),
        ({"levels": [1.0, *[0.5] * 1000]}, "levels"),
        ({"groups": [[32, [0.5]]]}, "levels"),
        ({"groups": [[64, [0.5] * 1001], [32, [0.5] * 1001]]}, "groups"),
        ({"head_input_tokens": 40}, "head_input_tokens"),
        ({"num_buckets": "many"}, "num_buckets"),
        ({"target_model": None}, "target_model"),
    ],
)
def test_a_damaged_configuration_is_named(directory, change, named):
    path = directory / "length.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    error = refusal(directory)
    assert error.code is ErrorCode.CHECKPOINT_INVALID
    assert named in error.message


def test_no_json_is_named(directory):
    (directory / "length.json").write_text("{")
    assert "length.json" in refusal(directory).message
