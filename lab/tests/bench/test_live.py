# SPDX-License-Identifier: Apache-2.0
import json

import pytest
from typer.testing import CliRunner

from lab.tests.simulation.builders import ROBOTS, a_request, a_trace
from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanResult
from llm_planner.core.segment import ExpectedDuration, ReportStatus, Segment
from llm_planner.serving.events import Finished, PlanComplete, SegmentReady
from llm_planner_lab.bench.live import LiveReplay
from llm_planner_lab.bench.survey import survey
from llm_planner_lab.cli.bench import app as bench_app
from llm_planner_lab.cli.trace import app as trace_app
from llm_planner_lab.simulation.trace import write_trace

FAKE = PlannerConfig(backend="fake")
PLAN, INSTRUCTION = "mf(100);tc(90);", "exactly: mf(100);tc(90);"
NETWORK_S = 0.008


def a_question(number=0, **changes):
    return a_request(number, instruction=INSTRUCTION, **changes)


class TestSurvey:
    def test_plan_tokens_and_prompt_are_those_of_the_model(self):
        found = survey(a_trace(a_question(plan="l('x');", durations_s=(9.0,))), FAKE, ROBOTS)
        (row,) = found.trace.requests
        assert row.plan == PLAN
        assert sum(row.segment_tokens) == pytest.approx(len(PLAN) / 3, abs=1)
        assert row.num_static_tokens % 16 == 0  # whole blocks
        assert row.num_dynamic_tokens > 0
        assert found.num_unplanned == {}
        assert found.bounds_s["r0"] > NETWORK_S + sum(row.segment_tokens[:1]) * 0.01  # a step of the fake takes as long

    def test_a_statement_that_the_trace_has_in_its_place_takes_as_long_as_there(self):
        rows = (a_question(0), a_question(1, plan="mf(100);tc(45);", durations_s=(3.5, 2.5)))
        first, second = survey(a_trace(*rows), FAKE, ROBOTS).trace.requests
        assert first.durations_s == (3.0, 2.0)
        assert second.durations_s[0] == 3.5
        assert second.durations_s[1] not in {2.0, 2.5}
        assert survey(a_trace(*rows), FAKE, ROBOTS).trace.requests == (first, second)

    def test_what_has_no_plan_is_left_out_and_counted(self):
        found = survey(a_trace(a_question(0), a_request(1, instruction="exactly: fly(1);")), FAKE, ROBOTS)
        assert [row.request_id for row in found.trace.requests] == ["r0"]
        assert found.num_unplanned == {"UNKNOWN_SKILL": 1}


class ScriptedServer:
    """Answers on the caller's thread, and notes the reports."""

    def __init__(self, texts=("mf(100);", "tc(90);"), refused=(), error=ErrorCode.NONE):
        self.texts, self.refused, self.error = texts, refused, error
        self.requests, self.reports = [], []
        self.replay = None

    def submit(self, request):
        if request.request_id in self.refused:
            raise PlannerError(ErrorCode.OVERLOADED, "too many")
        self.requests.append(request)
        expected = ExpectedDuration(min_s=0.1, p50_s=0.25, p90_s=0.4)
        for index, text in enumerate(self.texts):
            segment = Segment(index=index, text=text, calls=(), expected=expected)
            self.replay.receive(self, SegmentReady(request.request_id, segment))
        if self.error is ErrorCode.NONE:
            self.replay.receive(self, PlanComplete(request.request_id, len(self.texts)))
        else:
            self.replay.receive(self, Finished(PlanResult(request_id=request.request_id, error_code=self.error)))

    def report(self, report):
        self.reports.append(report)


def replayed(server, *rows):
    server.replay = LiveReplay(a_trace(*rows), dict.fromkeys((row.request_id for row in rows), 0.02), NETWORK_S)
    return server.replay.run(server)


class TestReplay:
    def test_a_robot_begins_after_the_network_and_goes_on_without_a_break(self):
        (record,) = replayed(ScriptedServer(), a_question())
        first, second = record.segments
        assert first.started_s == first.delivered_s + NETWORK_S
        assert first.ended_s == first.started_s + 3.0
        assert second.started_s == first.ended_s
        assert second.ended_s == second.started_s + 2.0
        assert record.arrival_s >= NETWORK_S
        assert record.bound_s == 0.02
        assert record.error_code is ErrorCode.NONE

    def test_it_reports_start_and_end_of_every_segment_in_order(self):
        server = ScriptedServer()
        late = a_question(1, time_s=0.3, durations_s=(0.02, 0.02))
        replayed(server, a_question(0, durations_s=(0.05, 0.05)), late)
        reports = [(r.index, r.status, r.duration_s) for r in server.reports if r.request_id == "r0"]
        started, succeeded = ReportStatus.STARTED, ReportStatus.SUCCEEDED
        assert reports == [(0, started, 0.0), (0, succeeded, 0.05), (1, started, 0.0), (1, succeeded, 0.05)]

    def test_requests_come_when_they_are_due_each_from_a_robot_of_its_own(self):
        server = ScriptedServer()
        rows = (a_question(0, robot_id="a"), a_question(1, robot_id="a", time_s=0.1))
        first, second = replayed(server, *rows)
        assert second.arrival_s >= 0.1 + NETWORK_S
        assert first.arrival_s < second.arrival_s
        assert len({request.robot_id for request in server.requests}) == 2
        assert (first.robot_id, second.robot_id) == ("a", "a")

    def test_a_segment_that_the_trace_does_not_have_takes_its_expected_time(self):
        server = ScriptedServer(texts=("mb(100);",))
        (record,) = replayed(server, a_question())
        assert record.segments[0].ended_s - record.segments[0].started_s == pytest.approx(0.25)
        assert server.replay.num_surprises == 1

    @pytest.mark.parametrize(
        ("changes", "code"),
        [({"refused": ("r0",)}, ErrorCode.OVERLOADED), ({"error": ErrorCode.PLAN_SYNTAX}, ErrorCode.PLAN_SYNTAX)],
    )
    def test_a_request_that_failed_says_why(self, changes, code):
        (record,) = replayed(ScriptedServer(**changes), a_question())
        assert record.error_code is code


@pytest.fixture
def live_files(tmp_path):
    trace, config = tmp_path / "t.jsonl", tmp_path / "planner.yaml"
    write_trace(a_trace(a_question(0), a_question(1, time_s=0.1, urgency="urgent")), trace)
    config.write_text("backend: fake\n")
    return str(trace), str(config)


def test_policies_are_compared_on_a_live_planner(tmp_path, live_files):
    trace, config = live_files
    output = tmp_path / "out.json"
    arguments = ["timely", "--workload", trace, "--engine", "live", "--config", config, "--policies", "fcfs_segment"]
    result = CliRunner().invoke(bench_app, [*arguments, "--json", str(output)])
    assert result.exception is None
    document = json.loads(output.read_text())
    assert (document["engine"], document["model"], document["profile"]) == ("live", "planner-small", None)
    metrics = document["policies"]["fcfs_segment"]["all"]
    assert (metrics["n"], metrics["share_served"]) == (2, 1.0)
    assert metrics["response_time_s"]["p50"] > NETWORK_S
    engine = document["engine_metrics"]["fcfs_segment"]
    assert engine.keys() == {"busy_share", "num_steps", "virtual_s"}, "the engine's process is not timed from here"
    assert 0.0 < engine["busy_share"] < 1.0
    assert engine["num_steps"] > 4


def test_a_trace_is_replayed_live(live_files):
    trace, config = live_files
    result = CliRunner().invoke(trace_app, ["replay", trace, "--engine", "live", "--config", config])
    assert result.exception is None
    document = json.loads(result.stdout)
    assert document["engine"] == "live"
    assert document["policies"]["tardiness"]["all"]["share_served"] == 1.0


def test_a_live_engine_cannot_forget_its_prefixes():
    result = CliRunner().invoke(bench_app, ["timely", "--engine", "live", "--no-prefixes"])
    assert isinstance(result.exception, PlannerError)
