# SPDX-License-Identifier: Apache-2.0
"""Recordings: what was written is read again, as far as the file goes, and becomes a summary."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from mcap_ros2.writer import Writer

from llm_planner.core.clock import ManualClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.monitoring.board import Board
from llm_planner.monitoring.playback import TEXT, Recording
from llm_planner.monitoring.player import play
from llm_planner.monitoring.recorder import McapRecorder
from llm_planner.monitoring.rows import MAX_SPANS, RowKind
from llm_planner.monitoring.summary import summarize
from tests.cli.test_top_screen import make_goal, make_view
from tests.monitoring.test_robot_view import make_view as make_robot
from tests.monitoring.test_rows import accepted, finished, report, segment

STRING = "string data"
GOAL = (accepted(100.0), segment(100.5), report(100.6, "started"), report(103.0, "succeeded", duration_s=2.2))


def cdr(text: str) -> bytes:
    """Returns a serialized std_msgs/String."""
    data = text.encode() + b"\0"
    return b"\0\1\0\0" + len(data).to_bytes(4, "little") + data


def record(path, *, with_end=True, every=1, num_starts=1):
    """Records a goal of every start of a planner, its view and robots' views; flushes after ``every`` messages."""
    recorder = McapRecorder(path)
    events = recorder.add_channel("/planner/goal_events", TEXT, STRING)
    views = recorder.add_channel("/planner/view", TEXT, STRING)
    robot = recorder.add_channel("/drone_1/view", TEXT, STRING)
    lines = [(events, json.dumps({**line, "number": n})) for n, line in enumerate([*GOAL, finished(103.1)])]
    texts = [*num_starts * lines, (views, make_view(make_goal("drone_1")).to_json()), (robot, make_robot().to_json())]
    for number, (channel, text) in enumerate(texts):
        recorder.add(channel, cdr(text), published_ns=0, sequence=number)
        if number % every == 0:
            recorder.flush()
    if with_end:
        recorder.close()
    recorder._file.close()
    recorder._indices.close()
    return len(texts)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.mcap"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("recording") / "whole.mcap"
    return record(path), path.read_bytes()


def test_what_was_written_is_read_and_summed_up(path):
    num_messages = record(path)
    summary = summarize(Recording(path))
    assert sum(summary.counts.values()) == num_messages
    assert (summary.is_cut, summary.planner, dict(summary.ended)) == (False, "/planner", {"NONE": 1})
    robot = summary.robots["drone_1"]
    assert (robot.num_segments, robot.execution_s) == (1, pytest.approx(2.4))
    assert summary.median_error == pytest.approx(0.1)


@pytest.mark.parametrize("began_s", [0.0, 200.0])
def test_what_was_before_a_restart_of_the_planner_counts_too(path, began_s):
    """Its clock may be another then."""
    with path.open("wb") as file:
        writer = Writer(file)
        schema = writer.register_msgdef(TEXT, STRING)
        for start_s, at_s in ((100.0, 1000.0), (began_s, 1100.0)):
            for number, line in enumerate([*GOAL, finished(103.1)]):
                passed_s = line["time_s"] - 100.0
                text = json.dumps({**line, "number": number, "time_s": start_s + passed_s})
                log_time = int((at_s + passed_s) * 1e9)
                writer.write_message("/planner/goal_events", schema, {"data": text}, log_time=log_time)
        writer.finish()
    summary = summarize(Recording(path))
    assert (summary.num_restarts, dict(summary.ended), summary.duration_s) == (1, {"NONE": 2}, pytest.approx(103.1))
    robot = summary.robots["drone_1"]
    assert (robot.num_segments, robot.execution_s) == (2, pytest.approx(4.8))
    moved = [(span.start_s, span.end_s) for span in summary.spans if span.kind is RowKind.EXECUTION]
    assert moved == [pytest.approx((0.6, 3.0)), pytest.approx((100.6, 103.0))]


def test_all_of_a_long_recording_counts(path):
    num_starts = MAX_SPANS // 4
    record(path, every=1000, num_starts=num_starts)
    summary = summarize(Recording(path))
    assert len(summary.spans) > MAX_SPANS
    assert summary.robots["drone_1"].num_segments == num_starts


def test_other_readers_find_profile_schemas_and_an_index(path):
    num_messages = record(path)
    with path.open("rb") as file:
        reader = make_reader(file, decoder_factories=[DecoderFactory()])
        assert reader.get_header().profile == "ros2"
        assert {s.name: s.encoding for s in reader.get_summary().schemas.values()} == {TEXT: "ros2msg"}
        messages = list(reader.iter_decoded_messages(topics=["/planner/goal_events"]))
        assert len(messages) == len(GOAL) + 1
        assert reader.get_summary().statistics.message_count == num_messages
        assert json.loads(messages[0][3].data)["event"] == "accepted"


def test_a_recorder_that_died_leaves_what_it_had_flushed(path):
    num_messages = record(path, with_end=False)
    summary = summarize(Recording(path))
    assert summary.is_cut
    assert sum(summary.counts.values()) == num_messages


@given(st.data())
def test_a_file_cut_anywhere_is_read_as_far_as_it_goes(whole, tmp_path_factory, data):
    num_messages, content = whole
    length = data.draw(st.integers(0, len(content) - 1))
    path = tmp_path_factory.mktemp("cut") / "cut.mcap"
    path.write_bytes(content[:length])
    recording = Recording(path)
    received = list(recording.messages())
    assert len(received) <= num_messages
    assert recording.is_cut


@given(st.data())
def test_a_damaged_file_is_refused_or_read_in_part_but_never_breaks_the_reader(whole, tmp_path_factory, data):
    _, content = whole
    place = data.draw(st.integers(0, len(content) - 1))
    path = tmp_path_factory.mktemp("damaged") / "damaged.mcap"
    path.write_bytes(content[:place] + bytes([content[place] ^ data.draw(st.integers(1, 255))]) + content[place + 1 :])
    num_received = 0
    with contextlib.suppress(PlannerError):
        num_received = sum(summarize(Recording(path)).counts.values())
    assert num_received <= whole[0]


def test_a_file_that_is_no_recording_is_refused(tmp_path):
    path = tmp_path / "picture.mcap"
    path.write_text("not a recording at all")
    with pytest.raises(PlannerError, match="no MCAP recording") as refused:
        summarize(Recording(path))
    assert refused.value.code is ErrorCode.INVALID_FILE


def test_a_recording_of_something_else_is_summed_up_all_the_same(path):
    with path.open("wb") as file:
        writer = Writer(file)
        schema = writer.register_msgdef("geometry_msgs/msg/Point", "float64 x\nfloat64 y\nfloat64 z")
        writer.write_message("/point", schema, {"x": 1.0, "y": 2.0, "z": 3.0}, log_time=10**9)
        writer.finish()
    summary = summarize(Recording(path))
    assert dict(summary.counts) == {"/point": 1}
    assert not summary.robots


@pytest.mark.parametrize("name", ["taken.mcap", "no/such/folder.mcap"])
def test_a_file_that_cannot_be_written_is_a_numbered_error(tmp_path, name):
    (tmp_path / "taken.mcap").write_text("work of another program")
    with pytest.raises(PlannerError, match="cannot be written") as refused:
        McapRecorder(tmp_path / name)
    assert refused.value.code is ErrorCode.INVALID_FILE
    assert (tmp_path / "taken.mcap").read_text() == "work of another program"


def test_a_recording_plays_in_its_own_time_and_faster(path):
    with path.open("wb") as file:
        writer = Writer(file)
        schema = writer.register_msgdef(TEXT, STRING)
        for at_s, line in ((0.0, GOAL[0]), (4.0, GOAL[1])):
            writer.write_message(
                "/planner/goal_events", schema, {"data": json.dumps(line)}, log_time=int((50 + at_s) * 1e9)
            )
        writer.finish()
    real, recorded, shown = ManualClock(), ManualClock(), []
    board = Board(recorded)
    play(Recording(path), board, recorded, clock=real, sleep=real.advance, speed=2.0, show=shown.append)
    assert real.now_s() == pytest.approx(2.0)  # four seconds at twice the speed
    assert shown[-1] == pytest.approx(4.0)
    assert len(shown) > 5
    with board.changing() as (state, now_s):
        assert now_s == 54.0
        assert {span.robot_id for span in state.rows.spans} == {"drone_1"}
