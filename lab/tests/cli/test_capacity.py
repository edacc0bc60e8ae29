# SPDX-License-Identifier: Apache-2.0
"""``llm-planner capacity``: what is refused, before minutes are spent."""

import pytest
from typer.testing import CliRunner

from llm_planner_lab.cli.capacity import app

A100 = ["--hardware", "Nvidia A100 GPU", "--model", "meta-llama/Meta-Llama-3-8B"]


@pytest.mark.parametrize("command", [["predict"], ["plan", "--robots", "tello:2", "--slo", "1", "--duration", "20"]])
def test_names_that_exist_nowhere_are_refused(command):
    result = CliRunner().invoke(app, [*command, "--hardware", "Nvidia A100", "--model", "x"])
    assert result.exit_code
    assert "no hardware 'Nvidia A100' is known; the nearest are Nvidia A100 GPU" in str(result.exception)
    assert "no model 'x' is known; known are BAAI/Aquila-7B" in str(result.exception)


def test_a_known_one_is_predicted():
    result = CliRunner().invoke(app, ["predict", *A100])
    assert result.exit_code == 0
    assert "tokens/s" in result.output


def test_a_model_is_not_judged_by_the_table_it_was_fitted_to():
    result = CliRunner().invoke(app, ["evaluate"])
    assert result.exit_code == 2
    assert "--data" in result.output


@pytest.mark.parametrize("command", [["check", "nothing"], ["curve", "nothing", "out.yaml"]])
def test_an_unknown_profile_is_refused_with_the_known_ones(command):
    result = CliRunner().invoke(app, command)
    assert "llama3-8b-rtx4090" in str(result.exception)
