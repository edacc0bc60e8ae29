# SPDX-License-Identifier: Apache-2.0
"""What browsers are told that come and go."""

import json

import pytest

from llm_planner.core.clock import ManualClock
from llm_planner.monitoring.board import PERIOD_S, Board
from llm_planner.monitoring.fleet import GONE_S
from tests.monitoring.test_robot_view import make_view as make_robot
from tests.monitoring.test_rows import accepted, finished, report, segment

GOAL = (accepted(0.0), segment(0.1), report(0.2, "started"), report(2.4, "succeeded", duration_s=2.2))


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def board(clock):
    return Board(clock)


def receive(board, *lines):
    with board.changing() as (state, now_s):
        for line in lines:
            state.receive_event(line, now_s)


def rest(board, clock, seconds):
    for _ in range(round(seconds / PERIOD_S)):
        clock.advance(PERIOD_S)
        board.rest()


@pytest.mark.parametrize("rested_s", [GONE_S - PERIOD_S, GONE_S, 10.0 * GONE_S])
def test_a_robot_that_nobody_looked_at_is_not_told_to_have_been_silent(board, clock, rested_s):
    with board.changing() as (state, now_s):
        state.receive_robot(make_robot(), now_s)
    board.news()
    rest(board, clock, rested_s)
    clock.advance(PERIOD_S / 2)
    assert json.loads(board.whole()[1])["log"] == []
    with board.changing() as (state, now_s):
        state.resume(now_s)
        state.receive_robot(make_robot(number=1), now_s)
    assert [robot["robot_id"] for robot in json.loads(board.news()[1])["robots"]] == ["drone_1"]
    clock.advance(GONE_S + 1.0)
    (entry,) = json.loads(board.news()[1])["log"]
    assert (entry["about"], entry["text"]) == ("drone_1", "silent for 60 s: taken off the map")


def test_what_came_while_nobody_looked_is_in_the_whole_and_no_news(board, clock):
    board.news()
    receive(board, *GOAL, {**finished(2.5), "error_code": 300, "error_msg": "it hit a chair"})
    rest(board, clock, 1.0)
    whole, news = (json.loads(text) for _, text in (board.whole(), board.news()))
    assert (len(whole["log"]), len(whole["measured"]), len(whole["dialogues"])) == (1, 1, 1)
    assert not any(news[name] for name in ("is_whole", "log", "measured", "dialogues", "spans"))
