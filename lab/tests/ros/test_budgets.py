# SPDX-License-Identifier: Apache-2.0
"""What is said of emergencies with budgets: shares of all that were admitted, whatever became of them."""

import json
import random
from dataclasses import replace

import pytest

from llm_planner.core.errors import ErrorCode
from llm_planner_lab.reports import render
from llm_planner_lab.ros.budgets import (
    BudgetsBench,
    Emergency,
    ask,
    document_of,
    draw_emergency,
    load_figures,
    summarize,
)
from llm_planner_lab.ros.budgets_planner import Turn, read_journal

pytestmark = pytest.mark.ros


def gone(name, first_s, ended_s, code=ErrorCode.NONE, **changes):
    fields = {"budget_s": 0.2, "asked_s": 10.0, "response_time_s": None, "wcet_s": None} | changes
    return Emergency(request_id=name, first_s=first_s, ended_s=ended_s, code=code, **fields)


def turn(began_s, ended_s, num_running=2, num_wanting=4, ended=None):
    return Turn(began_s, ended_s, num_running, num_wanting, ended or {}, {})


def test_all_that_were_admitted_count_and_what_was_refused_does_not():
    emergencies = [
        gone("in time", 0.1, 0.15, response_time_s=0.09, wcet_s=0.18),
        gone("late", 0.21, 0.3, response_time_s=0.19, wcet_s=0.18),
        gone("given up", None, 0.2, ErrorCode.BUDGET_EXCEEDED),
        gone("unclear", None, 0.1, ErrorCode.NOT_UNDERSTOOD),
        gone("early", None, 0.03, ErrorCode.BUDGET_INFEASIBLE),
        gone("by the node", None, 0.16, ErrorCode.BUDGET_INFEASIBLE),
    ]
    figures = summarize(emergencies, {"early": 10.005, "late": 10.1})
    assert (figures["sent"], figures["refused"], figures["admitted"]) == (6, 2, 4)
    assert (figures["in_time"], figures["late"]) == (1, 1)
    assert figures["without_segment"] == {"BUDGET_EXCEEDED": 1, "NOT_UNDERSTOOD": 1}
    assert figures["lateness_ms"]["max"] == pytest.approx(10.0)
    assert figures["refusal_after_decision_ms"]["max"] == pytest.approx(25.0)
    assert figures["refusal_before_end_ms"]["max"] == pytest.approx(40.0)  # the nearest to the end
    assert figures["refusal_before_end_ms"]["p50"] == pytest.approx(170.0)
    assert (figures["refused_too_late"], figures["refused_too_near_the_end"]) == (1, 1)
    assert figures["refused_by_the_node"] == 1
    assert figures["wcet"] == {"n": 2, "under": 1, "bound_over_measured_p50": pytest.approx(0.18 / 0.19)}


def test_answers_without_a_worst_case_are_counted_apart():
    known = {"response_time_s": 0.1, "wcet_s": 0.2}
    figures = summarize([gone("a", 0.1, 0.2, **known), gone("b", 0.1, 0.2), gone("c", 0.21, 0.3)], {})
    assert (figures["wcet"]["n"], figures["without_bound"], figures["late_without_bound"]) == (1, 2, 1)


def test_slots_are_counted_by_time_from_the_first_emergency_to_the_last():
    emergencies = [gone("a", 0.1, 0.2, asked_s=10.0), gone("b", 0.1, 1.0, asked_s=11.0)]
    turns = [turn(9.0, 9.5), turn(10.0, 10.5, num_running=8, num_wanting=9), turn(11.0, 11.5, num_wanting=8)]
    figures = load_figures(turns, emergencies, 8)
    assert figures["took_s"] == 2.0
    assert figures["share_of_time_all_slots_taken"] == 0.5  # 10.5 to 11.5
    assert figures["share_of_time_all_slots_wanted"] == 0.75  # 10.5 to 12.0
    assert figures["share_of_emergencies_that_met_all_slots_wanted"] == 0.5
    assert figures["turn_ms"]["max"] == 500.0


def test_goals_of_the_load_are_counted_by_how_they_ended():
    emergencies = [gone("a", 0.1, 1.0, asked_s=10.0)]
    ended = [{"before": 0}, {"load_1": 209, "load_2": 0, "a": 0}, {"load_3": 209}]
    turns = [replace(turn(at_s, at_s + 0.1), ended=of_it) for at_s, of_it in zip((9.0, 10.0, 10.5), ended, strict=True)]
    figures = load_figures(turns, emergencies, 8)
    assert figures["goals_by_code"] == {"NOT_UNDERSTOOD": 2, "NONE": 1}


def test_a_journal_may_end_within_a_line():
    lines = [json.dumps([1.0, 2.0, 3, 4, {"r1": 400}, {"r2": 0.5}]) + "\n", "[2.0, 3."]
    assert read_journal(lines) == [Turn(1.0, 2.0, 3, 4, {"r1": 400}, {"r2": 0.5})]


def test_the_seed_decides_what_is_asked():
    one, other = random.Random(3), random.Random(3)
    drawn = [draw_emergency(one).instruction for _ in range(8)]
    assert drawn == [draw_emergency(other).instruction for _ in range(8)]
    assert len(set(drawn)) > 1


def test_the_page_holds_where_nothing_was_refused_or_served():
    for emergencies in ([gone("a", 0.1, 0.2)], [gone("a", None, 0.1, ErrorCode.BUDGET_INFEASIBLE)]):
        document = document_of(
            BudgetsBench(budgets_s=(0.2,), trials=1), emergencies, [turn(9.0, 9.5), turn(10.0, 10.1)]
        )
        assert "0.2 s" in render("budgets", {**document, "setup": {**document["setup"], "commit": "abc"}})


def test_an_emergency_is_timed_and_carried_out(planner, start_robot):
    robot = start_robot("budgets_robot")
    assert robot.client.wait_for_planner(10.0)
    emergency = ask(robot.client, "mf(20);mb(20);", "", 5.0)
    assert emergency.code is ErrorCode.NONE
    assert 0 < emergency.first_s < emergency.ended_s
    emergency = ask(robot.client, " ", "", 5.0)
    assert (emergency.first_s, emergency.code) == (None, ErrorCode.EMPTY_INSTRUCTION)
