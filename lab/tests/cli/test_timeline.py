# SPDX-License-Identifier: Apache-2.0
"""`llm-planner timeline` on a trace: what it writes, where, and what it refuses."""

import itertools
import json

import pytest
from typer.testing import CliRunner

from lab.tests.simulation.builders import a_request, a_trace
from llm_planner.cli.main import app
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner_lab.simulation.trace import write_trace


@pytest.fixture
def trace_path(tmp_path):
    path = tmp_path / "t.jsonl"
    write_trace(a_trace(*(a_request(i) for i in range(4))), path)
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["timeline", *map(str, arguments)])


def test_a_trace_is_replayed_and_drawn_next_to_its_file(tmp_path, trace_path):
    result = run(trace_path)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "t_timeline.png").stat().st_size > 1000
    events = json.loads((tmp_path / "t_timeline.json").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    executed = [event for event in slices if event["cat"] == "execution"]
    assert len(executed) == 4 * 2
    assert sum(event["dur"] for event in executed) == pytest.approx(4 * 5.0 * 1e6)
    steps = [event for event in slices if event["cat"] == "engine"]
    assert sum(event["args"]["prompt tokens"] for event in steps) == pytest.approx(4 * 114, abs=4)
    assert all(a["ts"] + a["dur"] <= b["ts"] + 1 for a, b in itertools.pairwise(steps))
    assert len([event for event in slices if event["cat"] == "generation"]) == 4 * 2


def test_the_files_can_be_named_and_the_picture_cut(tmp_path, trace_path):
    png, chrome = tmp_path / "a.png", tmp_path / "b.json"
    assert run(trace_path, "--png", png, "--chrome", chrome, "--start", 1, "--duration", 2).exit_code == 0
    assert png.exists()
    assert chrome.exists()
    result = run(trace_path, "--start", 1000)
    assert isinstance(result.exception, PlannerError)
    assert result.exception.code is ErrorCode.INVALID_CONFIG
    assert "ends at" in str(result.exception)


def test_a_directory_without_a_summary_is_refused(tmp_path):
    result = run(tmp_path)
    assert isinstance(result.exception, PlannerError)
    assert "summary.json" in str(result.exception)
    assert run(tmp_path / "nothing").exit_code == 2
