# SPDX-License-Identifier: Apache-2.0
import json

import pytest

from lab.tests.engine.length_builders import save_predictor
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner_lab.bench.timebill.length import length_figures
from tests.engine.builders import save_model

MEASURED = {"rlp": {"rlp": {"mae": 1.0, "rmse": 2.0, "r2": 0.9}}, "interval_coverage_90": 0.9, "seed": 0}


@pytest.fixture
def model(tmp_path):
    path = save_model(tmp_path / "planner")
    save_predictor(tmp_path / "planner-length", path)
    (tmp_path / "planner-length" / "figures.json").write_text(json.dumps(MEASURED))
    return path


def code_of(model):
    with pytest.raises(PlannerError) as caught:
        length_figures(model)
    return caught.value.code


def test_what_training_measured_is_reported(model):
    assert length_figures(model) == MEASURED


def test_figures_of_other_weights_do_not_count(model):
    save_model(model, seed=5)
    assert code_of(model) is ErrorCode.INVALID_CONFIG


def test_no_predictor(tmp_path):
    assert code_of(save_model(tmp_path / "alone")) is ErrorCode.MODEL_NOT_FOUND


@pytest.mark.parametrize("content", ["{", "[]", '{"rlp": {}}'])
def test_damaged_figures(model, content):
    (model.with_name("planner-length") / "figures.json").write_text(content)
    assert code_of(model) is ErrorCode.CHECKPOINT_INVALID
