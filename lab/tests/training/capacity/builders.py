# SPDX-License-Identifier: Apache-2.0
"""A small table whose law is known: throughput saturates with the batch, scaled by device, framework and model."""

import random

from llm_planner.prediction.throughput.table import Combination, Measurement

DEVICES = {"Nvidia A100 GPU": 1.0, "Nvidia H100 GPU": 2.1, "AMD MI250 GPU": 0.6}
MODELS = {"meta-llama/Llama-2-7b-hf": 0.8, "meta-llama/Meta-Llama-3-8B": 1.1, "mistralai/Mistral-7B-v0.1": 1.2}
FRAMEWORKS = {"vLLM": 1.0, "TensorRT-LLM": 1.3}
BATCHES = (1, 16, 32, 64)
LENGTHS = (128, 512, 2048)


def throughput(combination: Combination, length: int, batch: int) -> float:
    scale = DEVICES[combination.hardware] * MODELS[combination.model] * FRAMEWORKS[combination.framework]
    return 300.0 * scale * batch / (1.0 + 0.01 * batch + batch * length / 60_000)


def measurement(combination: Combination, length: int, batch: int, factor: float = 1.0) -> Measurement:
    value = factor * throughput(combination, length, batch)
    return Measurement(combination, length, batch, 2 * length * batch / value, value)


def small_table(noise: float = 0.005, seed: int = 0) -> list[Measurement]:
    rng = random.Random(seed)
    return [
        measurement(Combination(device, 1, framework, model), length, batch, 1.0 + rng.gauss(0.0, noise))
        for device in DEVICES
        for framework in FRAMEWORKS
        for model in MODELS
        for length in LENGTHS
        for batch in BATCHES
    ]
