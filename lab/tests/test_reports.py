# SPDX-License-Identifier: Apache-2.0
"""Every page of docs/benchmarks is what its template makes of its result file, and of nothing else."""

import json
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from typer.testing import CliRunner

from llm_planner.core.errors import ErrorCode
from llm_planner_lab.cli.bench import app
from llm_planner_lab.reports import REPORTS, render, write_report

BENCHMARKS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
MEASURED = [name for name in REPORTS if (BENCHMARKS / f"{name}.json").is_file()]


def result_of(name):
    return json.loads((BENCHMARKS / f"{name}.json").read_text(encoding="utf-8"))


def test_every_result_has_a_page():
    assert {path.stem for path in BENCHMARKS.glob("*.json")} == set(MEASURED)
    assert set(REPORTS) - set(MEASURED) == {"gpu", "inventories"}, "measured by now? then it has a page"


@pytest.mark.parametrize("name", MEASURED)
def test_the_page_says_what_the_result_says(name):
    committed = (BENCHMARKS / f"{name}.md").read_text(encoding="utf-8")
    assert render(name, result_of(name)) == committed, "after a change of a template: llm-planner bench pages"


@pytest.mark.parametrize("name", MEASURED)
def test_pictures_are_there(name):
    page = render(name, result_of(name))
    pictures = {line.split("](")[1][:-1] for line in page.splitlines() if line.startswith("![")}
    assert all((BENCHMARKS / picture).is_file() for picture in pictures)
    assert pictures == {f"figures/{path.name}" for path in BENCHMARKS.glob(f"figures/{name}_*.png")}


def test_a_missing_figure_is_an_error():
    with pytest.raises(UndefinedError, match="cpu_factor"):
        render("physics", {**result_of("physics"), "speed": {"drones": 1, "arms": 1}})


def test_parts_that_were_not_measured_are_left_out():
    vllm = {key: value for key, value in result_of("vllm").items() if key != "pipeline"}
    assert "pipeline" not in render("vllm", vllm)
    capacity = {**result_of("capacity"), "training_sets": [], "subset_search": None, "abroad": []}
    assert "What to train on" not in render("capacity", capacity)


def test_a_lead_is_that_on_the_same_traces():
    lead = REPORTS["live_policies"](result_of("live_policies"))["lead"]
    ahead, behind = ({"utility_share_of_max_by_trace": shares} for shares in ([0.9, -0.2, 0.5], [0.8, -0.3, 0.4]))
    mean, half_width = lead(ahead, behind)
    assert (mean, half_width) == (pytest.approx(0.1), pytest.approx(0.0)), "the traces differ by far more"


def test_what_is_not_asked_for_is_not_written(tmp_path):
    assert write_report("vllm", result_of("vllm"), None, None) == []
    assert write_report("vllm", result_of("vllm"), tmp_path / "new" / "vllm.json", None) == [tmp_path / "new/vllm.json"]
    assert json.loads((tmp_path / "new/vllm.json").read_text()) == result_of("vllm")


def test_the_command_writes_all_pages_again(tmp_path):
    for name in MEASURED:
        (tmp_path / f"{name}.json").write_bytes((BENCHMARKS / f"{name}.json").read_bytes())
    result = CliRunner().invoke(app, ["pages", "--directory", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert all((tmp_path / f"{n}.md").read_bytes() == (BENCHMARKS / f"{n}.md").read_bytes() for n in MEASURED)


def test_the_command_refuses_what_it_cannot_read(tmp_path):
    pages = ["pages", "--directory", str(tmp_path)]
    assert CliRunner().invoke(app, ["pages", "--directory", str(tmp_path / "gone")]).exit_code == 2
    assert "holds no result file" in CliRunner().invoke(app, pages).exception.message
    for text, problem in (("{torn", "cannot be read as JSON"), ("{}", "is not what its page shows")):
        (tmp_path / "physics.json").write_text(text, encoding="utf-8")
        error = CliRunner().invoke(app, pages).exception
        assert error.code is ErrorCode.INVALID_FILE
        assert f"{tmp_path / 'physics.json'} {problem}" in error.message
        assert not (tmp_path / "physics.md").exists()
