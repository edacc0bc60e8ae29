# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from lab.tests.simulation.builders import PROFILE, SCRIPTS, a_config, a_request, a_trace
from llm_planner.core.errors import ErrorCode
from llm_planner.prediction.profile import write_profile
from llm_planner_lab.bench.validation import comparison, draw_validation, pairs_of, summary_lines
from llm_planner_lab.cli.bench import app as bench_app
from llm_planner_lab.simulation.records import RunRecord
from llm_planner_lab.simulation.simulator import simulate
from llm_planner_lab.simulation.trace import write_trace


def a_run(num_requests=4, **changes):
    run = simulate(a_trace(*(a_request(i, time_s=0.1 * i) for i in range(num_requests))), a_config(**changes), SCRIPTS)
    return replace(run, requests=list(run.requests))


def slower(run, seconds):
    """Returns a run in which every robot began ``seconds`` later."""
    shifted = [
        replace(r, segments=[replace(s, started_s=s.started_s + seconds) for s in r.segments]) for r in run.requests
    ]
    return replace(run, requests=shifted)


def test_a_run_agrees_with_itself():
    run = a_run()
    document = comparison(pairs_of(run, run), run, run)
    assert document["relative_error"] == {"median": 0.0, "p90": 0.0, "median_signed": 0.0}
    assert (document["n"], document["num_not_served"]) == (4, 0)
    assert document["busy_s"]["live"] == document["busy_s"]["simulated"] > 0


def test_errors_are_relative_to_what_happened_live_and_signed():
    run = a_run(1)
    live_s = run.requests[0].response_time_s
    late = comparison(pairs_of(run, slower(run, live_s)), run, run)["relative_error"]
    assert late["median_signed"] == pytest.approx(1.0)
    early = comparison(pairs_of(slower(run, live_s), run), run, run)["relative_error"]
    assert early["median_signed"] == pytest.approx(-0.5)
    assert early["median"] == pytest.approx(0.5)


def test_a_machine_that_was_slower_when_it_was_profiled_is_corrected_for():
    run = a_run(1)
    live_s = run.requests[0].response_time_s
    document = comparison(pairs_of(run, slower(run, 0.2 * live_s)), run, run, slowness=1.25)
    assert document["relative_error"]["median_signed"] == pytest.approx(0.2)
    assert document["corrected"]["median_signed"] == pytest.approx(1.2 / 1.25 - 1.0)
    assert document["corrected"]["median"] == document["corrected"]["p90"] == pytest.approx(0.04)
    (first, second) = summary_lines({"policies": {"fcfs": document}})
    assert "20.0% (median)" in first
    assert "quick the machine was then: 4.0% (median), 4.0% (p90), -4.0% (signed);" in second


def test_what_was_not_served_in_both_runs_is_counted_not_compared():
    live, simulated = a_run(), a_run()
    live.requests[1].error_code = ErrorCode.ENGINE_FAILED
    simulated.requests[2].segments.clear()
    pairs = pairs_of(live, simulated)
    assert [pair.request_id for pair in pairs] == ["r0", "r3"]
    assert comparison(pairs, live, simulated)["num_not_served"] == 2


def test_nothing_to_compare_is_said():
    empty = RunRecord(requests=(), busy_s=0.0, end_s=0.0, num_steps=0)
    document = {"policies": {"fcfs": comparison([], empty, empty)}}
    assert document["policies"]["fcfs"]["relative_error"]["median"] is None
    assert list(summary_lines(document)) == ["fcfs          no request was served in both runs"]


def test_a_picture_is_drawn(tmp_path):
    run = a_run()
    document = {"workload": "w", "load": 1.0, "model": "m", "profile": "p"}
    draw_validation({**document, "policies": {"fcfs": comparison(pairs_of(run, run), run, run)}}, tmp_path / "v.png")
    assert (tmp_path / "v.png").stat().st_size > 1000


def test_the_command_compares_one_trace_live_and_simulated(tmp_path):
    trace, config, profile, output = (tmp_path / name for name in ("t.jsonl", "c.yaml", "p.yaml", "out.json"))
    rows = [a_request(i, time_s=0.1 * i, instruction="exactly: mf(100);tc(90);") for i in range(2)]
    write_trace(a_trace(*rows), trace)
    config.write_text("backend: fake\n")
    write_profile(replace(PROFILE, name="p"), profile)
    arguments = ["validate", "--workload", str(trace), "--config", str(config), "--profile", str(profile)]
    result = CliRunner().invoke(bench_app, [*arguments, "--policies", "fcfs_segment", "--json", str(output)])
    assert result.exception is None
    document = json.loads(output.read_text())
    compared = document["policies"]["fcfs_segment"]
    assert (document["profile"], compared["n"]) == ("p", 2)
    assert [pair[0] for pair in compared["pairs_s"]] == ["r0", "r1"]
    assert compared["alone"]["median"] >= abs(compared["alone"]["median_signed"]) > 0.0
    assert "2 requests" in result.stderr
