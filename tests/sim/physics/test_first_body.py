# SPDX-License-Identifier: Apache-2.0
"""From YAML to flying in physics: the robot in the docs is flown by the command in the docs."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("mujoco")

from llm_planner.cli.main import app
from llm_planner.core.errors import ErrorCode

PAGE = Path(__file__).parents[3] / "docs" / "first_body.md"


@pytest.fixture
def models(tmp_path):
    (yaml,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "scout.yaml").write_text(yaml, encoding="utf-8")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_it_flies_as_the_page_says(models):
    command = re.search(r"llm-planner (robots try .*) --models my_robots", PAGE.read_text(encoding="utf-8"))
    assert command is not None
    plan = re.search(r'"(.*)"', command[1])[1]
    done = run("robots", "try", plan, "--robot", "scout", "--models", models, "--json")
    assert done.exit_code == 0, done.output
    outcome = json.loads(done.output)
    assert outcome["num_succeeded"] == outcome["num_segments"] == 4
    assert outcome["true"]["x_m"] == pytest.approx(2.0, abs=0.15)
    assert outcome["collisions"] == []


def test_what_the_gate_refuses_is_not_flown(models):
    refused = run("robots", "try", "forward(600);", "--robot", "scout", "--models", models)
    assert refused.exception.code is ErrorCode.ARGUMENT_OUT_OF_RANGE


def test_a_collision_is_shown_and_is_no_success():
    hit = run("robots", "try", "mf(300);mf(300);", "--world", "house", "--json")
    outcome = json.loads(hit.output)
    assert hit.exit_code == 1
    assert outcome["num_succeeded"] < outcome["num_segments"]
    assert outcome["collisions"]


def test_an_arm_can_be_tried_too():
    done = run("robots", "try", "open();close();", "--robot", "indy7")
    assert done.exit_code == 0, done.output
    assert "open();" in done.output


def test_rotors_that_do_not_lift_it_are_refused(models):
    file = models / "scout.yaml"
    file.write_text(file.read_text().replace("thrust_n: {value: 2.5", "thrust_n: {value: 1.0"))
    refused = run("robots", "try", "land();", "--robot", "scout", "--models", models)
    assert refused.exception.code is ErrorCode.INVALID_ROBOT_MODEL
    assert "do not lift" in refused.exception.message
