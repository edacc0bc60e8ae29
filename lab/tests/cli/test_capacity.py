# SPDX-License-Identifier: Apache-2.0
"""``llm-planner capacity``: what is refused, before minutes are spent."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from llm_planner.core.errors import PlannerError
from llm_planner.prediction.profile import profile_path
from llm_planner_lab.cli.capacity import app
from llm_planner_lab.simulation.capacity import saturation
from llm_planner_lab.simulation.capacity.saturation import NUM_TRACES

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


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--input", "1000000", "--output", "1000000", "--batch", "1000000000"], "there is room for 152128 tokens"),
        (["--model", "meta-llama/Meta-Llama-3-70B"], "its weights take 141 GB; give more --devices"),
    ],
)
def test_what_memory_cannot_hold_is_not_predicted(arguments, why):
    result = CliRunner().invoke(app, ["predict", *A100, *arguments])
    assert result.exit_code
    assert why in str(result.exception)


def test_sequences_that_wait_for_memory_are_told():
    result = CliRunner().invoke(app, ["predict", *A100, "--batch", "256"])
    assert "memory holds 148 such sequences at once" in result.output
    assert "memory holds" not in CliRunner().invoke(app, ["predict", *A100, "--batch", "64"]).output


def test_a_model_is_not_judged_by_the_table_it_was_fitted_to():
    result = CliRunner().invoke(app, ["evaluate"])
    assert result.exit_code == 2
    assert "--data" in result.output


@pytest.mark.parametrize("command", [["check", "nothing"], ["curve", "nothing", "out.yaml"]])
def test_an_unknown_profile_is_refused_with_the_known_ones(command):
    result = CliRunner().invoke(app, command)
    assert "llama3-8b-rtx4090" in str(result.exception)


@pytest.mark.parametrize("seed", [0, NUM_TRACES - 1])
def test_curves_are_not_checked_on_their_own_traces(seed):
    result = CliRunner().invoke(app, ["check", "llama3-8b-rtx4090", "--seed", str(seed)])
    assert isinstance(result.exception, PlannerError)
    assert f"give --seed {NUM_TRACES} or more" in result.exception.message


@pytest.mark.parametrize(("arguments", "first"), [([], NUM_TRACES), (["--seed", "7"], 7)])
def test_claims_are_tried_on_traces_behind_those_of_the_curves(monkeypatch, arguments, first):
    asked = []
    monkeypatch.setattr(saturation, "simulated", lambda _name, seeds, _asked: asked.append(seeds))
    monkeypatch.setattr(saturation, "check_claims", lambda *_: [])
    result = CliRunner().invoke(app, ["check", "llama3-8b-rtx4090", *arguments])
    assert result.exception is None, result.output
    assert asked == [range(first, first + NUM_TRACES)]


def test_claims_are_tried_on_the_planner_itself(tmp_path):
    profile, config = tmp_path / "own.yaml", tmp_path / "planner.yaml"
    points = [
        {"number": number, "within": [share] * 13, "utility": 1.0}
        for number, share in ((1, 1.0), (40, 0.99), (50, 0.5))
    ]
    document = yaml.safe_load(profile_path("llama3-8b-rtx4090").read_text())
    document["capacity"]["expected"] = [{"fleet": {"tello": 1}, "points": points}]
    profile.write_text(yaml.safe_dump(document))
    config.write_text("backend: fake\n")
    arguments = ["check", str(profile), "--live", "2", "--fleet", "tello:1", "--config", str(config), "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exception is None, result.output
    claims = json.loads(result.stdout)
    assert [(claim["fleet"], claim["slo_s"], claim["number"]) for claim in claims] == [
        ("tello:1", slo_s, 40) for slo_s in (0.5, 1.0, 2.0)
    ]
    assert all(0.0 < claim["share"] <= 1.0 for claim in claims)
