# SPDX-License-Identifier: Apache-2.0
import json

import pytest
from typer.testing import CliRunner

from lab.tests.simulation.builders import ROBOTS, a_request, a_trace
from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import PlannerError
from llm_planner_lab.bench.decision import run_decision
from llm_planner_lab.bench.timely.benchmark import Lab, TimelyBench, run_timely
from llm_planner_lab.bench.timely.metrics import distribution
from llm_planner_lab.cli.bench import app as bench_app
from llm_planner_lab.cli.trace import app as trace_app
from llm_planner_lab.simulation.trace import read_trace, write_trace


@pytest.fixture
def trace_path(tmp_path):
    path = tmp_path / "t.jsonl"
    requests = [a_request(i, urgency="urgent" if i % 2 else "normal", task=1 + 5 * (i % 2)) for i in range(4)]
    write_trace(a_trace(*requests), path)
    return path


def test_the_document_has_its_documented_shape(trace_path):
    document = run_timely(TimelyBench(workload=str(trace_path), policies=("fcfs", "tardiness")), Lab())
    assert {"workload", "engine", "profile", "seeds", "commit", "policies"} <= set(document)
    for classes in document["policies"].values():
        assert list(classes) == ["all", "normal", "urgent", "1", "6"]
        for metrics in classes.values():
            assert {"utility_mean", "utility_share_of_max", "utility_share_of_bound", "n"} <= set(metrics)
            assert set(metrics["response_time_s"]) >= {"mean", "p50", "p95", "p99"}
            assert metrics["share_served"] == 1.0
    engine = document["engine_metrics"]["fcfs"]
    assert engine["virtual_over_cpu"] == engine["virtual_s"] / engine["cpu_s"]
    assert json.loads(json.dumps(document)) == document


def test_policies_take_turns_and_each_trace_begins_with_another(monkeypatch):
    ran = []
    run = Lab.run

    def note_and_run(lab, bench, policy, index):
        ran.append((index, policy))
        return run(lab, bench, policy, index)

    monkeypatch.setattr(Lab, "run", note_and_run)
    bench = TimelyBench(policies=("fcfs", "pud", "tardiness"), num_seeds=2, duration_s=5.0)
    document = run_timely(bench, Lab())
    assert ran == [(0, "fcfs"), (0, "pud"), (0, "tardiness"), (1, "pud"), (1, "tardiness"), (1, "fcfs")]
    assert list(document["policies"]) == list(bench.policies)


def test_delivering_first_segments_first_is_worth_more_than_whole_plans(trace_path):
    policies = run_timely(TimelyBench(workload=str(trace_path)), Lab())["policies"]
    assert policies["tardiness"]["urgent"]["utility_mean"] == 2.0
    assert policies["fcfs"]["urgent"]["utility_mean"] < 1.9


def test_distribution():
    assert distribution([])["p50"] is None
    assert distribution([1.0, 3.0]) == {"mean": 2.0, "p50": 2.0, "p95": 2.9, "p99": 2.98, "max": 3.0}


def test_decisions_are_timed():
    times = run_decision((4, 30), "tardiness", num_decisions=5)["decision_ms"]
    assert set(times) == {"4", "30"}
    assert all(0 < t["p50"] <= t["p99"] for t in times.values())


def test_commands(tmp_path, trace_path):
    runner = CliRunner()
    composed = tmp_path / "wid.jsonl"
    arguments = ["compose", str(composed), "--duration-s", "20", "--tasks", "6,7", "--seed", "4"]
    assert runner.invoke(trace_app, arguments).exit_code == 0
    assert {request.task for request in read_trace(composed, ROBOTS).requests} <= {6, 7}
    assert runner.invoke(trace_app, ["replay", str(trace_path)]).exit_code == 0
    output = tmp_path / "out.json"
    arguments = ["timely", "--workload", str(trace_path), "--policies", "fcfs", "--sweep", "max_num_seqs=1,2"]
    assert runner.invoke(bench_app, [*arguments, "--json", str(output)]).exit_code == 0
    assert [document["max_num_seqs"] for document in json.loads(output.read_text())] == [1, 2]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--policies", "lottery"],
        ["--workload", "wid9"],
        ["--profile", "abacus"],
        ["--sweep", "colour=red"],
        ["--sweep", "load=much"],
        ["--engine", "steam"],
    ],
)
def test_nonsense_is_refused(arguments):
    result = CliRunner().invoke(bench_app, ["timely", *arguments])
    assert isinstance(result.exception, PlannerError)


@pytest.mark.parametrize(
    "option", [["--duration", "9"], ["--seeds", "2"], ["--load", "2"], ["--sweep", "load=1,2"]], ids=str
)
def test_what_only_a_composed_trace_takes_is_refused_with_a_file(tmp_path, option):
    (path := tmp_path / "trace.jsonl").touch()
    error = CliRunner().invoke(bench_app, ["timely", "--workload", str(path), *option]).exception
    assert isinstance(error, PlannerError)
    assert error.message.endswith(f"leave out {option[0]}" + (" load" if option[0] == "--sweep" else ""))


def test_the_schedulers_of_vllm_need_vllm():
    with pytest.raises(PlannerError, match="--backend vllm"):
        TimelyBench(policies=("tardiness", "vllm_priority"))
    with pytest.raises(PlannerError, match="--backend vllm"):
        TimelyBench(policies=("vllm_fcfs",), engine="live")
    TimelyBench(policies=("vllm_fcfs",), engine="live", planner=PlannerConfig(backend="vllm"))
