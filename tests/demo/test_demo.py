# SPDX-License-Identifier: Apache-2.0
"""What a demo writes about itself, and the timeline that is read from it."""

import json
from dataclasses import replace

import pytest

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanMetrics, Urgency
from llm_planner.demo.goals import DemoGoal, DemoOutcome, ReflexTimes, SegmentTimes, draw_goals, write_report
from llm_planner.demo.timeline import read_summary, spans_of_demo
from llm_planner.monitoring.timeline import ENGINE_ROW, SpanKind


def make_segment(received_s, started_s=None, finished_s=None, **changes):
    fields = {"text": "mf(50);", "generation_time_s": 0.05, "is_interrupted": False} | changes
    return SegmentTimes(received_s=received_s, started_s=started_s, finished_s=finished_s, **fields)


def make_outcome(tag, segments, asked_s, ended_s, *, urgency=Urgency.NORMAL, error_code=ErrorCode.NONE):
    task = draw_goals(1)["drone_1"][0].task
    return DemoOutcome(
        goal=DemoGoal(tag=tag, robot=tag.partition("/")[0], task=task, urgency=urgency),
        error_code=error_code,
        error_msg="",
        plan="".join(segment.text for segment in segments),
        metrics=PlanMetrics(),
        asked_s=asked_s,
        ended_s=ended_s,
        segments=tuple(segments),
        is_success=error_code is ErrorCode.NONE,
        reason="",
    )


@pytest.fixture
def run(tmp_path):
    """drone_1 flies and is interrupted by an emergency; drone_2 is refused."""
    outcomes = [
        make_outcome(
            "drone_1/0",
            [make_segment(0.2, 0.2, 3.0), make_segment(1.0, 3.0, is_interrupted=True), make_segment(1.1)],
            asked_s=0.1,
            ended_s=5.01,
            error_code=ErrorCode.SUPERSEDED,
        ),
        make_outcome("drone_1/1", [make_segment(5.1, 5.1, 6.0)], 5.0, 6.0, urgency=Urgency.URGENT),
        make_outcome("drone_2/0", [], 0.0, 2.0, error_code=ErrorCode.BUDGET_EXCEEDED),
    ]
    write_report(outcomes, tmp_path, policy="fcfs", model="small", seed=1, network_latency_s=0.01)
    return tmp_path


def test_the_report_is_a_summary_a_picture_and_a_chrome_trace(run):
    document = json.loads((run / "summary.json").read_text())
    assert {"goals", "policy", "model", "share_served", "seed"} <= set(document)
    assert document["share_served"] == pytest.approx(2 / 3)
    assert document["goals"][0]["segments"][1]["is_interrupted"]
    assert (run / "timeline.png").stat().st_size > 1000
    assert json.loads((run / "timeline.json").read_text())["traceEvents"]


def spans(run, row, kind):
    shown = (s for s in spans_of_demo(read_summary(run / "summary.json")) if (s.row, s.kind) == (row, kind))
    return [(pytest.approx(s.start_s), pytest.approx(s.end_s), s.is_interrupted) for s in shown]


def make_reflex(**fields):
    return ReflexTimes(
        **({"cause": "REFUSED", "reason": "why", "action": "h();", "started_s": 1.0, "finished_s": 2.0} | fields)
    )


@pytest.mark.parametrize(
    ("changes", "met_by", "is_as_expected"),
    [
        ({}, "reflex", True),
        ({"error_code": ErrorCode.BUDGET_EXCEEDED}, "reflex", True),
        ({"error_code": ErrorCode.ENGINE_FAILED}, "reflex", False),
        ({"is_success": False}, "reflex", False),
        ({"reflexes": ()}, "neither", False),
        ({"segments": (make_segment(1.0),), "error_code": ErrorCode.NONE}, "planner", False),
    ],
)
def test_a_goal_for_the_reflex_must_be_met_by_it(changes, met_by, is_as_expected):
    (goal,) = [goal for goals in draw_goals(1).values() for goal in goals if goal.threat is not None]
    refused = make_outcome("drone_3/3", [], 0.0, 2.0, error_code=ErrorCode.BUDGET_INFEASIBLE)
    outcome = replace(refused, **({"goal": goal, "reflexes": (make_reflex(),), "is_success": True} | changes))
    assert (outcome.met_by, outcome.is_as_expected) == (met_by, is_as_expected)


def test_a_planner_and_a_reflex_meet_an_emergency_each():
    goals = [goal for goals in draw_goals(1).values() for goal in goals if goal.urgency is Urgency.URGENT]
    assert sorted(goal.threat is not None for goal in goals) == [False, False, True]
    assert all(goal.time_budget_s is not None for goal in goals)


def test_a_reflex_is_shown_where_the_waiting_ends(tmp_path):
    outcome = make_outcome("drone_1/0", [], 0.5, 2.1, urgency=Urgency.URGENT, error_code=ErrorCode.BUDGET_INFEASIBLE)
    outcome = replace(outcome, reflexes=(make_reflex(),))
    write_report([outcome], tmp_path, policy="fcfs", model="small", seed=1, network_latency_s=0.01)
    assert spans(tmp_path, "drone_1", SpanKind.WAITING) == [(0.5, 1.0, True)]
    assert spans(tmp_path, "drone_1", SpanKind.REFLEX) == [(1.0, 2.0, False)]
    (goal,) = json.loads((tmp_path / "summary.json").read_text())["goals"]
    assert (goal["met_by"], goal["reflexes"][0]["action"]) == ("reflex", "h();")


def test_an_interrupted_segment_ends_with_its_goal_and_the_emergency_follows(run):
    assert spans(run, "drone_1", SpanKind.EXECUTION) == [(0.2, 3.0, False), (3.0, 5.01, True), (5.1, 6.0, False)]
    assert spans(run, "drone_1", SpanKind.WAITING) == [(0.1, 0.2, False), (5.01, 5.1, False)]
    assert spans(run, "drone_2", SpanKind.WAITING) == [(0.0, 2.0, True)]


def test_the_engine_works_while_anything_is_generated(run):
    assert spans(run, "drone_1", SpanKind.GENERATION)[0] == (0.14, 0.19, False)  # the network's delay is not its
    assert spans(run, ENGINE_ROW, SpanKind.ENGINE) == [
        (0.14, 0.19, False),
        (0.94, 0.99, False),
        (1.04, 1.09, False),
        (5.04, 5.09, False),
    ]


def test_generation_of_one_robot_never_overlaps_though_delays_vary(tmp_path):
    segments = [make_segment(0.06), make_segment(0.09), make_segment(0.085), make_segment(0.3)]
    write_report(
        [make_outcome("drone_1/0", segments, 0.03, 1.0)],
        tmp_path,
        policy="p",
        model="m",
        seed=1,
        network_latency_s=0.01,
    )
    assert spans(tmp_path, "drone_1", SpanKind.GENERATION) == [
        (0.03, 0.05, False),
        (0.05, 0.08, False),
        (0.08, 0.08, False),
        (0.24, 0.29, False),
    ]


@pytest.mark.parametrize("text", ["", "{}", '{"goals": [{"robot": "drone_1"}], "model": "m", "policy": "p"}', None])
def test_what_is_no_summary_is_refused(tmp_path, text):
    path = tmp_path / "summary.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(PlannerError) as refused:
        read_summary(path)
    assert refused.value.code is ErrorCode.INVALID_FILE
    assert str(path) in str(refused.value)
