# SPDX-License-Identifier: Apache-2.0
"""Packed weights: a quarter of the space, nearly the same numbers."""

import pytest
import torch
from safetensors.torch import load_file

from llm_planner_lab.training.network import load_network
from llm_planner_lab.training.packed import PACKED, pack, unpacked
from tests.engine.builders import save_model


@pytest.fixture
def model(tmp_path):
    return save_model(tmp_path / "tiny")


def test_what_was_packed_is_nearly_the_same(model, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    pack(model, tmp_path / "packed" / "tiny")
    again = unpacked(tmp_path / "packed" / "tiny")
    assert again.name == "tiny"
    old, new = (load_network(path).state_dict() for path in (model, again))
    for name, weight in old.items():
        assert torch.allclose(weight, new[name], atol=float(weight.abs().max()) / 64), name
    assert (again / "tokenizer.json").read_bytes() == (model / "tokenizer.json").read_bytes()


def test_matrices_take_a_byte_for_each_number(model, tmp_path):
    pack(model, tmp_path / "packed")
    tensors = load_file(tmp_path / "packed" / PACKED)
    assert {t.dtype for name, t in tensors.items() if t.dim() == 2 and not name.endswith(".scale")} == {torch.int8}
    assert not (tmp_path / "packed" / "model.safetensors").exists()


def test_it_is_unpacked_once_with_its_length_predictor(model, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    packed = tmp_path / "packed" / "tiny"
    pack(model, packed)
    pack(model, packed.with_name("tiny-length"))
    place = unpacked(packed)
    written = (place / "model.safetensors").stat().st_mtime_ns
    assert unpacked(packed) == place
    assert (place / "model.safetensors").stat().st_mtime_ns == written
    assert (place.with_name("tiny-length") / "model.safetensors").is_file()


def test_any_other_model_stays_where_it_is(model):
    assert unpacked(model) == model


def test_without_a_place_it_says_so(model, tmp_path, monkeypatch):
    pack(model, tmp_path / "packed")
    monkeypatch.setattr("llm_planner_lab.training.packed.cache_dir", lambda: None)
    with pytest.raises(OSError, match="XDG_CACHE_HOME"):
        unpacked(tmp_path / "packed")
