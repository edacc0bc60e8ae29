# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
from safetensors.torch import load_file, save_file

from llm_planner.engine.fingerprint import tokenizer_fingerprint, weights_fingerprint
from tests.engine.builders import save_model


def test_a_copy_is_the_same_and_a_trained_copy_is_not(tmp_path):
    one, same, trained = (save_model(tmp_path / name) for name in ("one", "same", "trained"))
    assert weights_fingerprint(one) == weights_fingerprint(same)
    tensors = load_file(trained / "model.safetensors")
    save_file({name: tensor + 1e-3 for name, tensor in tensors.items()}, trained / "model.safetensors")
    assert weights_fingerprint(trained) != weights_fingerprint(one)
    assert tokenizer_fingerprint(trained) == tokenizer_fingerprint(one)


def test_what_does_not_exist_equals_no_model(tmp_path):
    assert weights_fingerprint(tmp_path) != weights_fingerprint(save_model(tmp_path / "one"))


def test_a_change_of_one_tensor_in_the_middle_is_another_model(tmp_path):
    tensors = {"a": torch.zeros(400_000), "b": torch.zeros(100_000), "c": torch.zeros(400_000)}
    save_file(tensors, tmp_path / "model.safetensors")
    before = weights_fingerprint(tmp_path)
    save_file(tensors | {"b": torch.ones(100_000)}, tmp_path / "model.safetensors")
    assert weights_fingerprint(tmp_path) != before


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version https://git-lfs.github.com/spec/v1\n",
        b"\x02" + bytes(7) + b"[]",
        b'\x18\0\0\0\0\0\0\0{"a":{"data_offsets":7}}',
        b'\x1c\0\0\0\0\0\0\0{"a":{"data_offsets":["x"]}}',
    ],
)
def test_a_file_that_is_no_safetensors_has_a_fingerprint_too(tmp_path, content):
    (tmp_path / "model.safetensors").write_bytes(content)
    assert weights_fingerprint(tmp_path) == weights_fingerprint(tmp_path)
