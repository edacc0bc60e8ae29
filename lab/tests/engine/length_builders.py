# SPDX-License-Identifier: Apache-2.0
"""Builds tiny length predictors."""

import torch

from llm_planner.engine.fingerprint import tokenizer_fingerprint, weights_fingerprint
from llm_planner.engine.length_config import LengthConfig
from llm_planner.prediction.calibration import IntervalCalibration
from llm_planner_lab.training.length.network import LengthNetwork, Start, save_network, start_body

LEVELS = IntervalCalibration().levels


def save_predictor(path, target, *, num_buckets=8, num_layers=1, source=None, **fields):
    """Saves a predictor with random weights for the model in ``target``; returns its network."""
    torch.manual_seed(1)
    settings = {
        "target_model": target.name,
        "target_weights": weights_fingerprint(target),
        "target_tokenizer": tokenizer_fingerprint(target),
        "bucket_tokens": 4,
        "num_buckets": num_buckets,
        "max_input_tokens": 40,
        "head_input_tokens": 8,
        "levels": LEVELS,
    }
    network = LengthNetwork(start_body(Start(target, source, num_layers, 40)), num_buckets).bfloat16()
    with torch.no_grad():
        network.head.weight.normal_(0.0, 0.5)
    save_network(network, path)
    LengthConfig(**(settings | fields)).save(path)
    return network.float()
