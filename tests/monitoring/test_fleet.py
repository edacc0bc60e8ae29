# SPDX-License-Identifier: Apache-2.0
"""A fleet's state: what a dashboard is told, whole and in pieces."""

import json
from dataclasses import replace

import pytest

from llm_planner.core.pose import Pose
from llm_planner.monitoring.alerts import MAX_ENTRIES
from llm_planner.monitoring.fleet import MAX_ENDS, MAX_ROBOTS, FleetState
from llm_planner.monitoring.receiving import receive_planner
from llm_planner.monitoring.rows import RowKind
from llm_planner.serving.meter import Totals
from tests.cli.test_top_screen import make_goal, make_view
from tests.monitoring.test_robot_view import make_thing
from tests.monitoring.test_robot_view import make_view as make_robot
from tests.monitoring.test_rows import accepted, finished, report, segment


@pytest.fixture
def state():
    return FleetState()


def texts(state, now_s):
    return [alert.text for alert in state.alerts(now_s)]


def test_an_empty_fleet_is_shown_and_says_that_the_planner_is_silent(state):
    document = state.document(5.0)
    assert document["planner"] is None
    assert "no planner is known" in document["alerts"][0]["text"]
    json.dumps(document, allow_nan=False)


def test_events_of_a_planner_on_another_clock_are_placed_in_time(state):
    state.receive_event(accepted(1000.0), 5.0)
    state.receive_event(segment(1001.0), 6.2)  # 0.2 s on the way
    document = state.document(7.0)
    assert document["now_s"] == pytest.approx(1002.0)
    assert [span[2:5] for span in document["spans"]] == [
        ["waiting", 1000.0, None],
        ["generation", 1000.8, 1001.0],
        ["suspension", 1001.0, None],
    ]


def test_only_news_follow(state):
    state.receive_robot(make_robot(things=(make_thing("chair"),)), 1.0)
    state.receive_event(accepted(1.0), 1.0)
    first = state.document(1.0)
    assert first["is_whole"]
    assert first["robots"][0]["things"]
    again = state.document(1.2, first["revisions"])
    assert (again["is_whole"], again["spans"], again["log"]) == (False, [], [])
    assert "things" not in again["robots"][0]
    state.receive_robot(make_robot(number=1, things=(make_thing("table"),)), 1.4)
    state.receive_event(segment(1.5), 1.5)
    news = state.document(1.5, again["revisions"])
    assert news["robots"][0]["things"][0]["name"] == "table"
    assert {span[2] for span in news["spans"]} == {"generation", "suspension"}


def test_a_prediction_and_what_came_of_it(state):
    for line in (accepted(0.0), segment(0.1), report(0.2, "started"), report(2.4, "succeeded", duration_s=2.2)):
        state.receive_event(line, line["time_s"])
    (measured,) = state.document(3.0)["measured"]
    assert (measured["expected_s"], measured["measured_s"]) == (2.0, 2.2)


def test_lost_messages_are_counted(state):
    for number in (0, 1, 4):
        state.receive_event({**accepted(float(number), request_id=f"g{number}"), "number": number}, float(number))
    for number in (1, 2, 4):
        state.receive_robot(make_robot(number=number), float(number))
    assert state.document(5.0)["num_lost"] == 3
    state.resume(6.0)  # there was no listener for a while
    state.receive_robot(make_robot(number=9), 6.1)
    assert state.document(6.2)["num_lost"] == 3


@pytest.mark.parametrize("began_s", [500.0, 498.0, 0.0, 9000.0], ids=["same", "late", "rebooted", "elsewhere"])
def test_after_a_restart_of_the_planner_its_clock_goes_on_and_open_bars_end(state, began_s):
    """Its first event comes 2 s after it happened if its clock shows 498 s at 500 s."""
    for number, line in enumerate((accepted(480.0), segment(481.0), report(482.0, "started"))):
        state.receive_event({**line, "number": number}, line["time_s"])
    view = make_view(replace(make_goal("drone_1"), request_id="g1"))
    state.receive_planner(replace(view, loop=replace(view.loop, at_s=484.0), age_s=0.0), 484.0)
    state.receive_reflex("drone_1", "a person", "mb(50);", is_over=False, now_s=485.0)
    shown = state.document(490.0)["revisions"]
    state.receive_event({**accepted(began_s, request_id="g2"), "number": 0}, 500.0)
    document = state.document(500.0, shown)
    assert (document["now_s"], document["num_lost"], state.num_restarts) == (500.0, 0, 1)
    spans = {span[0]: span for span in document["spans"]}
    assert [(kind, end_s) for _, _, kind, _, end_s, *_ in spans.values()] == [
        ("suspension", 484.0),
        ("execution", 484.0),
        ("waiting", None),
    ]
    assert [span[7] for span in spans.values()] == [1, 1, 0]
    assert [(entry["text"], entry["age_s"]) for entry in document["log"]] == [("the planner was restarted", 0.0)]
    assert [span.kind for span in state.rows.spans if span.end_s is None] == [RowKind.REFLEX, RowKind.WAITING]
    state.receive_event({**finished(began_s + 1.0, request_id="g2"), "number": 1}, 501.0)
    assert [span[2:5] for span in state.document(501.0, document["revisions"])["spans"]] == [["waiting", 500.0, 500.0]]


def seen(at_s, *goals, num_steps=0):
    """A view of a planner whose clock shows a time, after some steps."""
    view = make_view(*goals, age_s=0.0)
    return replace(view, loop=replace(view.loop, at_s=at_s, totals=Totals(num_steps=num_steps)))


@pytest.mark.parametrize("began_s", [500.0, 0.0, 9000.0], ids=["same", "rebooted", "elsewhere"])
def test_a_planner_that_was_restarted_may_show_itself_before_its_first_event(state, began_s):
    for number, line in enumerate((accepted(480.0), segment(481.0), report(482.0, "started"))):
        state.receive_event({**line, "number": number}, line["time_s"])
    state.receive_planner(seen(484.0, replace(make_goal("drone_1"), request_id="g1"), num_steps=50), 484.0)
    shown = state.document(490.0)["revisions"]
    state.receive_planner(make_view(loop=None, age_s=None), 499.0)
    state.receive_planner(seen(began_s), 500.0)
    document = state.document(500.0, shown)
    assert (document["now_s"], state.num_restarts) == (500.0, 1)
    assert [span[2:5] for span in document["spans"]] == [["suspension", 481.0, 484.0], ["execution", 482.0, 484.0]]
    assert [(entry["text"], entry["age_s"]) for entry in document["log"]] == [("the planner was restarted", 0.0)]
    state.receive_event({**accepted(began_s + 1.0, request_id="g2"), "number": 0}, 501.0)
    state.receive_planner(seen(began_s + 2.0, num_steps=5), 502.0)
    document = state.document(502.0, document["revisions"])
    assert (document["now_s"], document["num_lost"], state.num_restarts) == (502.0, 0, 1)
    assert [span[2:5] for span in document["spans"]] == [["waiting", 501.0, None]]


def test_a_planner_that_was_restarted_may_show_itself_after_its_first_event(state):
    state.receive_event({**accepted(10.0), "number": 7}, 10.0)
    state.receive_planner(seen(11.0, num_steps=50), 11.0)
    state.receive_event({**accepted(12.0, request_id="g2"), "number": 0}, 12.0)
    state.receive_planner(seen(13.0, num_steps=2), 13.0)
    assert state.num_restarts == 1


def test_a_clock_that_goes_back_is_followed(state):
    """Its machine has slept, or the planner had done nothing when another one took its place."""
    state.receive_planner(seen(9000.0), 100.0)
    state.receive_planner(seen(500.0), 104.0)
    state.receive_event(accepted(501.0), 105.0)
    document = state.document(105.0)
    assert (document["now_s"], document["spans"][0][3], document["log"]) == (501.0, 501.0, [])


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"event": "accepted"},
        {**accepted(float("nan"))},
        {**accepted(1.0), "time_s": 10**400},
        {**accepted(1.0), "time_s": "1"},
        {**finished(1.0), "error_code": float("inf")},
        {**finished(1.0), "error_code": None},
    ],
)
def test_a_broken_event_is_passed_over(state, line):
    state.receive_event(line, 1.0)
    document = state.document(1.0)
    assert document["num_broken"] == 1
    assert not document["spans"]


def test_silence_is_an_alarm_but_not_while_there_was_no_listener(state):
    state.receive_planner(make_view(), 10.0)
    state.receive_robot(make_robot(), 10.0)
    assert not texts(state, 10.5)
    assert texts(state, 14.0) == [
        "the planner has been silent for 4 s: what is shown of it is old",
        "has been silent for 4 s",
    ]
    state.resume(14.0)
    assert not texts(state, 14.1)


def test_a_goal_about_to_fail_a_full_cache_and_a_reflex_are_alarms(state):
    view = make_view(make_goal("drone_1", ends_in_s=0.5))
    loop = replace(view.loop, status=replace(view.loop.status, num_free_kv_blocks=2))
    state.receive_planner(replace(view, loop=loop), 0.0)
    state.receive_robot(make_robot(is_in_reflex=True), 0.0)
    shown = " ".join(texts(state, 0.1))
    assert "ends in error in 0.5 s" in shown
    assert "98 % of the KV cache" in shown
    assert "reflex" in shown


def test_how_goals_ended_is_counted_and_errors_are_noted(state):
    state.receive_event(accepted(0.0), 0.0)
    state.receive_event(finished(1.0, error_code=300), 1.0)
    document = state.document(3.0)
    assert document["ended"] == {"SKILL_FAILED": 1}
    (entry,) = document["log"]
    assert (entry["about"], entry["age_s"]) == ("drone_1", 2.0)
    assert "[SKILL_FAILED 300]" in entry["text"]
    state.receive_event(accepted(4.0), 4.0)
    state.receive_event({**finished(5.0, error_code=300), "error_msg": "the cup is not visible"}, 5.0)
    assert state.document(5.0)["log"][-1]["text"] == "the cup is not visible [SKILL_FAILED 300]"


def test_codes_of_a_newer_planner_are_shown_as_unknown(state):
    state.receive_event(accepted(0.0), 0.0)
    state.receive_event({**finished(1.0), "error_code": 9999, "error_msg": "why"}, 1.0)
    state.receive_planner(replace(make_view(), error_code=777, error_msg="what"), 1.0)
    document = state.document(1.0)
    assert (document["ended"], document["num_broken"]) == ({"unknown (9999)": 1}, 0)
    assert document["log"][-1]["text"] == "why [unknown (9999) 9999]"
    assert "what [unknown (777) 777]" in texts(state, 1.0)


@pytest.mark.parametrize("number", ["nan", "inf", "-Infinity"])
@pytest.mark.parametrize("path", [("age_s",), ("loop", "at_s"), ("loop", "goals", 0, "age_s")])
def test_a_view_with_a_text_that_is_no_finite_number_is_broken(state, number, path):
    view = json.loads(make_view(make_goal("drone_1")).to_json())
    *outer, name = path
    where = view
    for part in outer:
        where = where[part]
    where[name] = number
    receive_planner(state, "/planner", json.dumps(view), 1.0)
    document = state.document(1.0)
    assert (document["planner"], document["num_broken"]) == (None, 1)
    json.dumps(document, allow_nan=False)


def test_an_age_that_json_lacks_is_shown_as_unknown(state):
    state.receive_planner(make_view(age_s=float("nan")), 1.0)
    assert state.document(1.0)["planner"]["age_s"] is None


def test_rates_come_from_two_views(state):
    view = make_view()
    for at_s, steps in ((10.0, 0), (11.0, 50)):
        loop = replace(view.loop, at_s=at_s, totals=Totals(num_steps=steps, num_output_tokens=4 * steps))
        state.receive_planner(replace(view, loop=loop), at_s)
    assert state.document(11.0)["rates"]["tokens_per_s"] == 200.0


def test_a_diagnosis_that_is_not_well_is_shown_while_it_is_fresh(state):
    state.receive_planner(make_view(), 0.0)
    state.receive_diagnostic("arm_1: driver", 2, "no answer", 0.0)
    assert texts(state, 1.0) == ["no answer"]
    state.receive_planner(make_view(), 9.0)
    assert not texts(state, 9.0)


def test_floods_fill_no_memory(state):
    for number in range(300):
        state.receive_diagnostic(f"node {number}", 2, "x" * 10_000, 0.0)
        state.receive_robot(make_robot(f"robot {number}"), 0.0)
    for number in range(300):
        state.receive_reflex(f"robot {number}", "x" * 10_000, "y" * 10_000, is_over=False, now_s=0.0)
        state.receive_event(accepted(0.0, request_id=f"g{number}", robot_id="z" * 10_000), 0.0)
        state.receive_event({**finished(1.0, request_id=f"g{number}"), "error_code": 1000 + number}, 1.0)
    document = state.document(0.0)
    assert len(document["robots"]) == MAX_ROBOTS
    assert len(document["alerts"]) <= MAX_ENTRIES + 1
    assert len(document["ended"]) == MAX_ENDS
    assert len(json.dumps(document)) < 1_000_000


def test_a_pose_follows_the_robot(state):
    state.receive_robot(make_robot(pose=Pose(x_m=2.0)), 0.0)
    assert state.document(0.0)["robots"][0]["pose"]["x_m"] == 2.0


def test_a_robot_that_has_gone_is_an_alarm_no_more(state):
    state.receive_planner(make_view(), 0.0)
    state.receive_robot(make_robot(), 0.0)
    assert "has been silent for 59 s" in texts(state, 59.0)
    state.receive_planner(make_view(), 61.0)
    document = state.document(61.0)
    assert (document["robots"], document["alerts"]) == ([], [])
    assert document["log"][-1]["about"] == "drone_1"


def test_what_a_robot_was_told_and_what_it_answered(state):
    def dialogue(now_s, since=None):
        return state.document(now_s, since)["dialogues"]

    state.receive_event({**accepted(0.0), "instruction": "how high is the sofa?"}, 0.0)
    assert dialogue(0.0)["drone_1"] == {
        "request_id": "g1",
        "instruction": "how high is the sofa?",
        "answer": "",
        "ending": "",
    }
    revisions = state.document(0.1)["revisions"]
    assert dialogue(0.2, revisions) == {}
    state.receive_event(segment(0.3), 0.3)
    state.receive_event({**report(1.0, "succeeded"), "said": ["one moment", "it is high"]}, 1.0)
    assert dialogue(1.0, revisions)["drone_1"]["answer"] == "it is high"
    state.receive_event({**report(1.5, "succeeded"), "value": 0.8}, 1.5)
    assert dialogue(1.5)["drone_1"]["answer"] == "0.8"
    state.receive_event(finished(2.0), 2.0)
    assert dialogue(2.0)["drone_1"]["ending"] == "done"


def test_a_dialogue_is_of_the_last_goal_and_says_why_it_failed(state):
    for request_id, instruction in (("g1", "go left"), ("g2", "stop")):
        state.receive_event({**accepted(0.0, request_id=request_id), "instruction": instruction}, 0.0)
    state.receive_event({**finished(1.0, error_code=204), "error_msg": "a newer goal"}, 1.0)  # of the goal before
    assert state.document(1.0)["dialogues"]["drone_1"]["ending"] == ""
    state.receive_event({**finished(2.0, error_code=300, request_id="g2"), "error_msg": "no such thing"}, 2.0)
    assert state.document(2.0)["dialogues"]["drone_1"]["ending"] == "failed: no such thing"


def test_of_many_robots_the_last_that_were_told_something_are_shown(state):
    for number in range(MAX_ROBOTS + 5):
        for name in ("old", f"bot_{number}"):
            state.receive_event(accepted(0.0, request_id=f"{name} {number}", robot_id=name), 0.0)
    dialogues = state.document(0.0)["dialogues"]
    assert len(dialogues) == MAX_ROBOTS
    assert {"old", f"bot_{MAX_ROBOTS + 4}"} <= dialogues.keys()
    assert "bot_0" not in dialogues


def test_a_planner_that_died_is_marked(state):
    state.receive_planner(make_view(), 10.0)
    assert not state.document(11.0)["planner"]["is_silent"]
    assert state.document(13.0)["planner"]["is_silent"]


def test_a_reflex_that_came_before_the_planner_s_clock_was_known_is_put_right(state):
    state.receive_event(accepted(6390.0), 10_000.0)  # an hour old: kept for who comes later
    state.receive_event(finished(6400.0, error_code=300), 10_000.0)
    state.receive_reflex("drone_1", "person is near", "back off", is_over=False, now_s=10_060.0)
    state.receive_reflex("drone_1", "", "back off", is_over=True, now_s=10_062.0)
    state.receive_planner(seen(10_063.0), 10_063.0)
    document = state.document(10_063.0)
    assert [span[2:5] for span in document["spans"]] == [["reflex", 10_060.0, 10_062.0]]
    assert [entry["age_s"] for entry in document["log"]] == [3663.0, 3.0]


def test_the_reflex_of_a_robot_that_has_gone_ends(state):
    state.receive_planner(seen(0.0), 0.0)
    state.receive_robot(make_robot(), 1.0)
    state.receive_reflex("drone_1", "person is near", "back off", is_over=False, now_s=2.0)
    state.receive_robot(make_robot(number=1), 3.0)
    (span,) = state.document(100.0)["spans"]
    assert (span[2], span[3], span[4], span[7]) == ("reflex", 2.0, 3.0, True)
