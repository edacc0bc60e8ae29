# SPDX-License-Identifier: Apache-2.0
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.tests.simulation.builders import ROBOTS, a_request, a_trace, a_workload
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pose import Pose
from llm_planner_lab.simulation.trace import parse_lines, read_trace, request_schema, to_lines, write_trace


def lines_of(*requests):
    return list(to_lines(a_trace(*requests)))


def edited(line, **changes):
    return json.dumps({**json.loads(line), **changes})


@given(st.integers(0, 1000))
def test_what_is_written_is_read_bit_for_bit(seed):
    trace = a_workload(seed)
    again = parse_lines(to_lines(trace), ROBOTS)
    assert again.requests == trace.requests
    assert list(to_lines(again)) == list(to_lines(trace))


def test_the_schema_names_every_field_of_a_line():
    line = json.loads(lines_of(a_request(0))[1])
    schema = request_schema()
    assert set(schema["properties"]) == set(line)
    assert set(schema["required"]) < set(line)


def test_files_round_trip(tmp_path):
    path = tmp_path / "t.jsonl"
    write_trace(a_workload(), path)
    assert read_trace(path, ROBOTS).requests == a_workload().requests


@given(st.data())
def test_a_truncated_file_is_refused(data):
    lines = lines_of(a_request(0), a_request(1), a_request(2))
    keep = data.draw(st.integers(0, len(lines) - 1))
    with pytest.raises(PlannerError, match=r"truncated|not a trace") as caught:
        parse_lines(lines[:keep], ROBOTS)
    assert caught.value.code is ErrorCode.INVALID_FILE


def test_a_line_cut_in_the_middle_is_refused():
    lines = lines_of()
    with pytest.raises(PlannerError, match="line 2: not JSON"):
        parse_lines([lines[0], lines[1][:40]], ROBOTS)


def test_a_lost_line_is_noticed():
    lines = lines_of(a_request(0), a_request(1))
    with pytest.raises(PlannerError, match="1 requests, but the last line counts 2"):
        parse_lines([lines[0], lines[1], lines[3]], ROBOTS)


def test_an_unsorted_file_is_refused_with_its_line():
    with pytest.raises(PlannerError, match=r"line 3: .*sort"):
        parse_lines(lines_of(a_request(0, time_s=2.0), a_request(1, time_s=1.0)), ROBOTS)


def test_an_id_is_used_once():
    with pytest.raises(PlannerError, match="appears twice"):
        parse_lines(lines_of(a_request(0), a_request(0)), ROBOTS)


@pytest.mark.parametrize("version", [0, 3, None, "1"])
def test_an_unknown_version_is_refused(version):
    lines = lines_of()
    with pytest.raises(PlannerError, match="version"):
        parse_lines([edited(lines[0], version=version), *lines[1:]], ROBOTS)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"robot_model": "r2d2"}, "r2d2"),
        ({"time_s": -1.0}, "time_s"),
        ({"time_s": float("nan")}, "time_s"),
        ({"urgency": "panic"}, "urgency"),
        ({"time_utility": {"ert_s": 1.0, "alpha": 0.5, "beta": 1.0}}, "alpha <= 0"),
        ({"time_utility": {"ert_s": float("nan"), "alpha": -1.0, "beta": 1.0}}, "ert_s"),
        ({"num_dynamic_tokens": 0}, "num_dynamic_tokens"),
        ({"durations_s": [-1.0]}, "durations_s"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_bad_value_is_refused_with_its_line_and_name(changes, named):
    lines = lines_of()
    with pytest.raises(PlannerError) as caught:
        parse_lines([lines[0], edited(lines[1], **changes), lines[2]], ROBOTS)
    assert "line 2" in str(caught.value)
    assert named in str(caught.value)


def test_the_file_is_named(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text("{}")
    with pytest.raises(PlannerError, match=r"t\.jsonl"):
        read_trace(path, ROBOTS)
    with pytest.raises(PlannerError, match="cannot be read"):
        read_trace(tmp_path / "missing.jsonl", ROBOTS)


def test_version_1_is_still_read():
    lines = lines_of(a_request(0))
    request = json.loads(lines[1])
    del request["segment_tokens"], request["step_tokens"], request["step_rows"], request["start_pose"]
    old = parse_lines([edited(lines[0], version=1), json.dumps(request), lines[2]], ROBOTS)
    assert old.requests == (a_request(0),)


def test_a_start_pose_and_the_tokens_of_segments_are_kept():
    request = a_request(0, start_pose=Pose(x_m=1.5, yaw_deg=-90.0), segment_tokens=(5, 4))
    assert parse_lines(lines_of(request), ROBOTS).requests == (request,)


@pytest.mark.parametrize(
    "changes",
    [
        {"segment_tokens": [-1, 2]},
        {"step_tokens": [0, 1]},
        {"step_tokens": [-1]},
        {"step_tokens": [5, 4], "step_rows": [5]},
        {"step_tokens": [5, 0], "step_rows": [5, 0]},
        {"start_pose": {"x_m": float("nan")}},
    ],
)
def test_what_no_model_writes_and_no_robot_stands_on_is_refused(changes):
    lines = lines_of(a_request(0))
    with pytest.raises(PlannerError, match="line 2"):
        parse_lines([lines[0], edited(lines[1], **changes), lines[2]], ROBOTS)
