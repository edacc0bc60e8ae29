# SPDX-License-Identifier: Apache-2.0
"""A tokenizer and a model that are small enough to be made in a second."""

import random

import pytest
import torch

from llm_planner_lab.training.network import planner_config
from llm_planner_lab.training.tokenizer import train_tokenizer
from llm_planner_lab.training.trainer import TrainOptions


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer():
    return train_tokenizer(random.Random(0), vocab_size=512, num_tasks=250)


@pytest.fixture
def options(tmp_path):
    """Returns a function that makes options of a tiny run."""

    def make(name="run", **kwargs):
        network = planner_config(
            vocab_size=400, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2,
        )  # fmt: skip
        defaults = {
            "max_steps": 6,
            "workers": 1,
            "network": network,
            "vocab_tasks": 100,
            "held_out_tasks": 6,
            "max_objects": 4,
            "warm_up_steps": 2,
        }
        return TrainOptions(output=tmp_path / name, **(defaults | kwargs))

    return make
