# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from llm_planner.cli.main import app
from llm_planner.core.errors import PlannerError
from llm_planner_lab.bench.steps import ELEVEN, StepsBench, run_steps
from llm_planner_lab.tasks.sample import FAMILIES


def test_the_eleven_are_those_of_the_paper():
    assert len(ELEVEN) == 11
    assert set(ELEVEN) < set(FAMILIES)
    assert {"look_for", "evade_animal", "sort_food"} <= set(ELEVEN)


def test_fewer_steps_for_the_same_plans():
    bench = StepsBench(
        modes=("off", "forced", "always"),
        batch=2,
        families=("evade_animal", "arm_put"),
        per_family=3,
        warm_up=2,
        threads=1,
    )
    document = run_steps(bench)
    assert document["same_plans"]
    figures = {mode: families["all"] for mode, families in document["modes"].items()}
    assert figures["off"]["steps_per_token"] == 1.0
    assert figures["always"]["steps_per_token"] < figures["forced"]["steps_per_token"] < 1.0
    assert figures["always"]["steps_per_token"] <= 0.65
    assert figures["off"]["tokens"] == figures["always"]["tokens"]
    for mode in bench.modes:
        assert set(document["modes"][mode]) == {"all", "evade_animal", "arm_put"}
        assert figures[mode]["n"] == 6
        assert figures[mode]["share_served"] == 1.0
        assert 0 < figures[mode]["first_segment_s"]["p50"] <= figures[mode]["first_segment_s"]["p95"]


def test_open_blocks_make_first_segments_shorter_and_change_no_plan():
    families = ("look_for", "evade_animal")
    bench = StepsBench(modes=("auto",), blocks=("whole", "open"), families=families, per_family=4, warm_up=0, threads=1)
    document = run_steps(replace(bench, seed=2))  # with searches that say what to do without success
    assert document["same_plans"]
    whole, parts = document["modes"]["auto"], document["modes"]["auto, open blocks"]
    assert parts["look_for"]["tokens"] <= 0.6 * whole["look_for"]["tokens"]
    assert parts["evade_animal"]["tokens"] == whole["evade_animal"]["tokens"]  # no condition
    assert parts["look_for"]["share_served"] == whole["look_for"]["share_served"] == 1.0


def test_the_command_writes_what_it_shows(tmp_path):
    path = tmp_path / "figures" / "steps.json"
    arguments = [
        "bench",
        "steps",
        "--modes",
        "off",
        "--families",
        "evade_animal",
        "--per-family",
        "1",
        "--warm-up",
        "0",
    ]
    result = CliRunner().invoke(app, [*arguments, "--json", str(path)], catch_exceptions=False)
    assert result.exit_code == 0
    assert "the same plans" in result.output
    (document,) = json.loads(path.read_text())
    assert document["batch"] == 1
    assert document["modes"]["off"]["all"]["n"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch", "x"], "whole numbers"),
        (["--batch", "0"], "of 1 or more"),
        (["--modes", "sometimes"], "known are auto, always, prompt, forced, off"),
        (["--families", "juggle"], "known are look_for"),
        (["--blocks", "shut"], "known are whole, open"),
    ],
)
def test_bad_input_says_what_is_known(arguments, message):
    with pytest.raises(PlannerError, match=message):
        CliRunner().invoke(app, ["bench", "steps", *arguments], catch_exceptions=False)
