# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench timely`` and ``bench validate``: what they refuse."""

import pytest
from typer.testing import CliRunner

from llm_planner.cli.main import app
from llm_planner.core.errors import ErrorCode


@pytest.mark.parametrize(
    ("command", "options", "refused"),
    [
        ("timely", ["--seeds", "2"], "--seeds"),
        ("timely", ["--load", "2", "--duration", "5"], "--duration and --load"),
        ("timely", ["--sweep", "load=1,2"], "--sweep load"),
        ("validate", ["--load", "8", "--duration", "30"], "--load and --duration"),
    ],
)
def test_a_trace_is_replayed_as_it_is(tmp_path, command, options, refused):
    trace = tmp_path / "fleet.jsonl"
    trace.touch()
    error = CliRunner().invoke(app, ["bench", command, "--workload", str(trace), *options]).exception
    assert error.code is ErrorCode.INVALID_CONFIG
    assert error.message.endswith(f"leave out {refused}")
