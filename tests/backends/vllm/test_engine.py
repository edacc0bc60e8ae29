# SPDX-License-Identifier: Apache-2.0
"""Models and settings that vLLM refuses: a numbered error that says what to do."""

import json

import pytest

pytest.importorskip("vllm")

from llm_planner.backends.vllm.engine import EngineSettings, start_engine
from llm_planner.core.errors import ErrorCode, PlannerError


def test_a_model_that_vllm_does_not_support(model_dir, tmp_path):
    config = json.loads((model_dir / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"architectures": ["NoSuchForCausalLM"]}))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((model_dir / name).read_bytes())
    with pytest.raises(PlannerError, match="NoSuchForCausalLM") as error:
        start_engine(EngineSettings(model_dir=tmp_path))
    assert error.value.code is ErrorCode.UNSUPPORTED_ARCHITECTURE


def test_a_device_that_this_vllm_does_not_run_on(model_dir):
    with pytest.raises(PlannerError, match="runs on") as error:
        start_engine(EngineSettings(model_dir=model_dir, device="tpu"))
    assert error.value.code is ErrorCode.INVALID_CONFIG


def test_more_stages_than_layers(model_dir):
    with pytest.raises(PlannerError, match="use fewer stages") as error:
        start_engine(EngineSettings(model_dir=model_dir, pipeline_stages=3))
    assert error.value.code is ErrorCode.INVALID_CONFIG
