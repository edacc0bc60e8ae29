# SPDX-License-Identifier: Apache-2.0
"""What the page says of graceful truncation follows from the figures; and what a run without it is."""

import json
from pathlib import Path

import pytest

from llm_planner.planning.session import Progress
from llm_planner_lab.bench.timebill.approaches import WholeSegments
from llm_planner_lab.reports import render
from tests.planning.test_session import BytesTokenizer
from tests.serving.builders import make_session


def row(**changes):
    fields = {
        "budget_fraction": 0.7,
        "approach": "ours",
        "n": 10,
        "fitted": 6,
        "altered": 0,
        "late_closed": 3,
        "closed": 4,
        "changed": 2,
        "late_score": 0.5,
        "score": 0.6,
        "late_same_numbers": None,
        "same_numbers": 0.25,
        "late_in_time_rate": 0.9,
        "in_time_rate": 1.0,
        "late_calls": 20,
        "calls": 25,
        "written_tokens": 100,
        "void_tokens": 8,
    }
    assert changes.keys() <= fields.keys()
    return fields | changes


RESULT = Path(__file__).resolve().parents[4] / "docs" / "benchmarks" / "timebill.json"


def page_of(*rows):
    document = json.loads(RESULT.read_text())
    return " ".join(render("timebill", document | {"truncation": rows}).split())


def test_a_gain_is_told_as_one():
    text = page_of(row(), row(score=0.4, altered=0))
    assert "Of 12 plans that were whole in time, 0 became another one, as it should be." in text
    assert "changed 4 of 20 answers; 10 more skill calls reached a robot (40 without it)" in text
    assert "higher at 1 of 2 points, lower at 1" in text
    assert "at most the 16 of 200 tokens" in text
    assert "| 0.7 | ours | 3 -> 4 | 2 | 0.50 -> 0.60 | - -> 0.25 | 90.00 % -> 100.00 % | 20 -> 25 |" in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"altered": 1}, "1 became another one: **a defect**."),
        ({"calls": 18}, "2 fewer skill calls"),
        ({"changed": 0, "calls": 20}, "Graceful truncation changed no answer here."),
    ],
)
def test_so_is_anything_else(changes, said):
    assert said in page_of(row(**changes))


def test_without_graceful_truncation_whole_segments_are_all_that_there_is():
    session = WholeSegments(make_session(tokenizer=BytesTokenizer([b"tp();?iv(x){g(x);mf(", b"1);}"])))
    assert [s.text for s in session.feed([0]).segments] == ["tp();"]
    assert (session.is_closable, session.close()) == (False, Progress(is_complete=True))
    assert not session.is_complete
    assert [s.text for s in session.feed([1]).segments] == ["?iv(x){g(x);mf(1);}"]
    assert session.finish().is_complete
    assert session.is_complete
