# SPDX-License-Identifier: Apache-2.0
"""Tables of lengths and predicted intervals, good and bad."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.length import LengthInterval
from llm_planner.scheduling.admission.job import Job
from llm_planner_lab.simulation.admission.jobs import TrueJob, draw, parse_interval, read_jobs


@pytest.mark.parametrize("header", ["TIMESTAMP,ContextTokens,GeneratedTokens", "x,prompt_tokens,output_tokens"])
def test_both_kinds_of_tables_are_read(tmp_path, header):
    path = tmp_path / "lengths.csv"
    path.write_text(f"{header}\n-,7,3\n-,0,1\n")
    assert read_jobs(path) == [TrueJob(prompt_tokens=7, output_tokens=3), TrueJob(prompt_tokens=0, output_tokens=1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "has the columns a, b; it takes ContextTokens, GeneratedTokens or prompt_tokens"),
        ("prompt_tokens,output_tokens\n1,2\n3,-4\n", "line 3: output_tokens is '-4'"),
        ("prompt_tokens,output_tokens\n-1,2\n", "line 2: prompt_tokens is '-1'"),
        ("prompt_tokens,output_tokens\n1,nan\n", "line 2: output_tokens is 'nan'"),
        ("prompt_tokens,output_tokens\n1,0\n", "at least 1"),
        ("prompt_tokens,output_tokens\n1\n", "line 2: output_tokens is None"),
        ("prompt_tokens,output_tokens\n1,2.5\n", "'2.5'"),
        ("prompt_tokens,output_tokens\n", "holds no jobs"),
        ("", "has the columns ;"),
    ],
)
def test_bad_tables_are_refused_with_the_line(tmp_path, text, message):
    path = tmp_path / "lengths.csv"
    path.write_text(text)
    with pytest.raises(PlannerError, match=message) as error:
        read_jobs(path)
    assert error.value.code is ErrorCode.INVALID_FILE


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(PlannerError, match=r"none\.csv cannot be read"):
        read_jobs(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("text", "output", "interval"),
    [
        ("1:1000", 7, (1, 1000)),
        ("bins:100", 1, (1, 100)),
        ("bins:100", 100, (1, 100)),
        ("bins:100", 101, (101, 200)),
        ("relative:0.1", 100, (90, 110)),
        ("relative:0.1", 5, (4, 6)),
        ("relative:0", 5, (5, 5)),
    ],
)
def test_intervals_of_the_three_experiments(text, output, interval):
    assert parse_interval(text)(output) == LengthInterval(*interval)


@given(st.integers(1, 5000), st.sampled_from(["bins:1", "bins:37", "relative:0.99", "relative:0.333"]))
def test_an_interval_holds_the_truth(output, text):
    lower, upper = parse_interval(text)(output)
    assert 1 <= lower <= output <= upper


@pytest.mark.parametrize(
    "text", ["5:2", "0:10", "nan:5", "1:nan", "bins:0", "bins:1.5", "bins:x", "relative:1", "relative:-1", "1", "a:b"]
)
def test_bad_intervals_are_refused(text):
    with pytest.raises(PlannerError, match="it takes LOWER:UPPER") as error:
        parse_interval(text)
    assert error.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    "changes", [{"lower_tokens": 5, "upper_tokens": 4}, {"lower_tokens": 0}, {"prompt_tokens": -1}]
)
def test_a_job_that_cannot_be_is_refused(changes):
    with pytest.raises(PlannerError, match="1 <= lower <= upper"):
        Job(**{"job_id": 0, "prompt_tokens": 1, "lower_tokens": 1, "upper_tokens": 9, **changes})


def test_a_length_that_is_no_whole_number_is_refused():
    with pytest.raises(PlannerError, match="whole numbers"):
        Job(job_id=0, prompt_tokens=1, lower_tokens=1, upper_tokens=float("nan"))


def test_a_draw_is_the_same_for_a_seed_and_no_larger_than_the_trace():
    jobs = [TrueJob(prompt_tokens=i, output_tokens=1) for i in range(10)]
    assert draw(jobs, 4, random.Random(1)) == draw(jobs, 4, random.Random(1))
    with pytest.raises(PlannerError, match="11 jobs asked for, the trace has 10"):
        draw(jobs, 11, random.Random(1))
