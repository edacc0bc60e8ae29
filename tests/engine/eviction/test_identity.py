# SPDX-License-Identifier: Apache-2.0
"""Tokens after an eviction equal those of a plain forward pass that masks the removed keys (fp32, greedy)."""

from dataclasses import replace

import pytest

from llm_planner.core.eviction import num_removed_tokens
from llm_planner.engine.backend import TorchBackend
from tests.engine.builders import generate, save_model
from tests.engine.eviction.builders import METHODS, PROMPT, SEQUENCE, Reference, evicted


@pytest.fixture(scope="module", params=[2, 1], ids=["two-kv-heads", "one-kv-head"])
def model_dir(request, tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("models") / "m", seed=11, num_key_value_heads=request.param)


@pytest.mark.parametrize("method", METHODS)
def test_tokens_equal_a_forward_pass_with_masked_keys(model_dir, method):
    backend = TorchBackend(model_dir, num_kv_blocks=16, eviction_method=method)
    reference = Reference(model_dir, method)
    kept_all = evicted(backend, SEQUENCE, 0.0)
    num_different = 0
    for ratio, late_tokens in ((0.3, 0), (0.6, 0), (0.6, 5), (1.0, 0)):
        removed = num_removed_tokens(SEQUENCE, ratio)
        tokens = evicted(backend, SEQUENCE, ratio, late_tokens=late_tokens)
        expected = reference.generate(SEQUENCE, removed, len(PROMPT) + late_tokens, len(tokens))
        assert tokens == expected, (ratio, late_tokens)
        num_different += tokens != kept_all
    assert num_different, "eviction changes nothing here: the comparison would prove little"


def test_heads_and_layers_choose_for_themselves(model_dir):
    reference = Reference(model_dir, "snapkv")
    reference.generate(SEQUENCE, num_removed_tokens(SEQUENCE, 0.5), len(PROMPT), 1)
    choices = {tuple(sorted(removed)) for removed in reference.removed.values()}
    assert len(choices) == len(reference.removed)


def test_a_ratio_of_zero_changes_nothing(model_dir):
    backend = TorchBackend(model_dir, num_kv_blocks=16)
    plain = generate(backend, replace(SEQUENCE, evictable=()))
    assert evicted(backend, SEQUENCE, 0.0, num_tokens=40) == plain["a"]
