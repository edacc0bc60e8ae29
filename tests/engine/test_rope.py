# SPDX-License-Identifier: Apache-2.0
"""The rotary table, however it grew."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from llm_planner.engine.model_config import RopeScaling, read_model_config
from llm_planner.engine.rope import RotaryTable

CPU = torch.device("cpu")
SCALING = RopeScaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_len=8192)


@pytest.fixture
def config(llama_dir):
    return replace(read_model_config(llama_dir), max_model_len=1 << 17, head_dim=128, rope_theta=500_000.0)


@pytest.mark.parametrize("scaling", [None, SCALING])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_position_has_the_same_values_whenever_the_table_reached_it(config, scaling, dtype):
    config = replace(config, max_model_len=9_001, rope_scaling=scaling)
    whole = RotaryTable(config, dtype, CPU)
    cos, sin = whole.at(range(9_001), torch.arange(9_001))
    assert cos.shape == sin.shape == (9_001, 1, 128)
    grown, num_rows = RotaryTable(config, dtype, CPU), []
    for positions in ([0], [7, 1_023], [1_024], range(1_500, 3_000), [5], [9_000], [4_097, 2]):
        of_positions = torch.tensor(positions)
        found_cos, found_sin = grown.at(positions, of_positions)
        assert torch.equal(found_cos, cos[of_positions])
        assert torch.equal(found_sin, sin[of_positions])
        num_rows.append(len(grown.cos))
    assert all(before <= after for before, after in pairwise(num_rows))
    assert num_rows[0] < num_rows[-1] == len(grown.sin) == 9_001


def test_a_table_holds_no_more_than_twice_the_positions_asked_for(config):
    table = RotaryTable(config, torch.float32, CPU)
    for position in range(0, 20_000, 100):
        table.at([position], torch.tensor([position]))
    assert len(table.cos) < 40_000
    with pytest.raises(IndexError):
        table.at([config.max_model_len], torch.tensor([config.max_model_len]))
