# SPDX-License-Identifier: Apache-2.0
import json

import pytest
from typer.testing import CliRunner

from llm_planner.cli.main import app

runner = CliRunner()


def invoke(*arguments):
    return runner.invoke(app, ["bench", "pipeline", "--quick", *arguments])


def test_a_workload_of_ones_own_ends_in_a_table_and_a_document(tmp_path):
    result = invoke("--workload", "4/32/8", "--json", str(tmp_path / "out.json"))
    assert result.exit_code == 0, result.output
    assert "4/32/8" in result.stdout
    (row,) = json.loads((tmp_path / "out.json").read_text())["workloads"]
    assert row["published"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--token-budget", "0"), "budget of 0"),
        (("--stages", "41"), "only 40 layers"),
        (("--stages", "0"), "needs a stage"),
        (("--profile", "nope"), "no pipeline profile"),
        (("--workload", "64/256"), "three numbers"),
        (("--workload", "0/1/1"), "three numbers"),
        (("--workload", "1/9000/20000"), "never fits"),
        (("--page", "page.md"), "needs everything"),
    ],
)
def test_bad_input_is_refused_with_what_is_wrong(arguments, message):
    result = invoke(*arguments)
    assert result.exit_code != 0
    assert message in str(result.exception)
