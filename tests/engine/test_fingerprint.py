# SPDX-License-Identifier: Apache-2.0
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
