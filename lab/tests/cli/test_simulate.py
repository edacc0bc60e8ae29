# SPDX-License-Identifier: Apache-2.0
"""``llm-planner simulate admission`` as a user meets it."""

import json

import pytest
from typer.testing import CliRunner

from llm_planner.cli.main import app
from llm_planner.core.errors import PlannerError

runner = CliRunner()


@pytest.fixture
def lengths(tmp_path):
    path = tmp_path / "lengths.csv"
    rows = [f"{10 + number % 7},{1 + number % 30}" for number in range(40)]
    path.write_text("\n".join(["prompt_tokens,output_tokens", *rows, "5000,1"]) + "\n")
    return str(path)


def simulate(*arguments):
    return runner.invoke(app, ["simulate", "admission", *arguments])


def test_it_prints_a_table_and_writes_the_document(lengths, tmp_path):
    out = tmp_path / "new" / "out.json"
    options = ("--policies", "a_min", "--interval", "1:30", "--n", "10,20", "--kv-tokens", "200", "--seeds", "2")
    result = simulate("--lengths", lengths, *options, "--json", str(out))
    assert result.exit_code == 0, result.output
    assert "a_min" in result.stdout
    assert "1 of 41 jobs left out" in result.stdout
    document = json.loads(out.read_text())
    assert len(document["runs"]) == 2 * 2 * 2
    assert set(document["ratio_to_h_sf"]) == {"h_sf", "a_min"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--interval", "9:3"), "interval '9:3'"),
        (("--kv-tokens", "5"), "the smallest needs"),
        (("--n", "many"), "--n takes whole numbers"),
        (("--n", "400"), "400 jobs asked for, the trace has 40"),
        (("--policies", "lifo"), "no admission policy 'lifo'"),
        (("--step", "none"), "no engine profile 'none'"),
        (("--max-prompt", "3"), "no prompt of up to 3 tokens"),
    ],
)
def test_bad_input_is_named(lengths, options, message):
    defaults = ("--policies", "a_min", "--n", "10", "--kv-tokens", "200", "--interval", "1:30")
    result = simulate("--lengths", lengths, *defaults, *options)
    assert isinstance(result.exception, PlannerError)
    assert message in str(result.exception)
