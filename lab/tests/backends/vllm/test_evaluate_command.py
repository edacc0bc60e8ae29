# SPDX-License-Identifier: Apache-2.0
"""``llm-planner evaluate --backend vllm``: how sure a model is, by vLLM."""

import json

import pytest
from typer.testing import CliRunner

pytest.importorskip("vllm")

from llm_planner.cli.main import app

SENTENCES = """[tello]
turn right 90 degrees | | tc(90);
go to the <chair> | | g(<chair>);
"""


def test_the_bundled_model_is_judged_with_how_sure_it_is(tmp_path):
    sentences, answers = tmp_path / "sentences.txt", tmp_path / "answers.jsonl"
    sentences.write_text(SENTENCES)
    result = CliRunner().invoke(app, ["evaluate", str(sentences), "--backend", "vllm", "--json", "--out", str(answers)])
    assert result.exit_code == 0, (result.output, result.exception)
    assert json.loads(result.stdout)["grades"]["plain"] == {"n": 2, "right": 1.0, "wrong": 0.0, "not understood": 0.0}
    assert all(0.5 < json.loads(line)["confidence"] < 1.0 for line in answers.read_text().splitlines())
