# SPDX-License-Identifier: Apache-2.0
"""The predictor that ships with the bundled planner: it is that planner's, small, and better than guessing."""

import json
import math

import pytest
from safetensors import safe_open

from llm_planner.checkpoints import build_length_predictor, build_prompt_encoder
from llm_planner.core.config import EngineConfig, PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.resources import share_dir
from llm_planner.engine.length_config import load_length_config, mismatch
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.training.length.figures import card

MODELS = share_dir() / "models"
PLANNER, PREDICTOR = MODELS / "planner-small", MODELS / "planner-small-length"
MAX_BYTES = 10_000_000


def test_it_was_made_for_the_bundled_planner():
    assert mismatch(load_length_config(PREDICTOR), PLANNER) is None, "train it again: docs/length_prediction.md"


def test_it_is_small_and_says_what_it_is():
    assert sum(path.stat().st_size for path in PREDICTOR.iterdir()) <= MAX_BYTES


def test_its_card_says_what_was_measured():
    config = json.loads((PREDICTOR / "config.json").read_text())
    with (
        safe_open(PREDICTOR / "model.safetensors", "np") as model,
        safe_open(PREDICTOR / "length_head.safetensors", "np") as head,
    ):
        sizes = [math.prod(part.get_slice(name).get_shape()) for part in (model, head) for name in part.keys()]  # noqa: SIM118 (no mapping)
    text = card(
        json.loads((PREDICTOR / "figures.json").read_text()),
        target=load_length_config(PREDICTOR).target_model,
        num_parameters=sum(sizes),
        num_layers=config["num_hidden_layers"],
        bucket_tokens=load_length_config(PREDICTOR).bucket_tokens,
    )
    assert text == (PREDICTOR / "README.md").read_text()


def test_its_figures_are_those_of_a_predictor():
    figures = json.loads((PREDICTOR / "figures.json").read_text())
    assert figures["rlp"]["rlp"]["r2"] > 0.0
    assert 0.86 <= figures["interval_coverage_90"] <= 0.94  # 88 to 92 % and the noise of another split
    assert figures["num_prompts"]["test"] >= 1000


def test_a_long_plan_is_told_from_a_short_one():
    config = PlannerConfig(engine=EngineConfig(device="cpu"))
    predictor, encoder = build_length_predictor(config), build_prompt_encoder(PLANNER)

    def told(instruction):
        prompt = encoder.encode(RobotLibrary().get("tello"), instruction, "")
        return predictor.predict((*prompt.static_ids, *prompt.dynamic_ids))

    short, long = told("land"), told("fly forward 50 cm, then turn left by 90 degrees, then take a picture, then land")
    assert short.expected_tokens * 2 < long.expected_tokens
    lower, upper = long.interval(0.9)
    assert lower <= long.quantile(0.5) <= upper


def test_it_is_no_planner():
    from llm_planner.assembly import build_loop

    with pytest.raises(PlannerError, match="is a length predictor") as caught:
        build_loop(PlannerConfig(engine=EngineConfig(model="planner-small-length", device="cpu")))
    assert caught.value.code is ErrorCode.MODEL_NOT_FOUND
