# SPDX-License-Identifier: Apache-2.0
"""A recorder that runs for hours: what it keeps in memory, and the index that it writes at the end."""

import gc
import resource
import signal
from types import SimpleNamespace

import pytest
from mcap.reader import make_reader
from mcap.records import ChunkIndex

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.monitoring import recorder
from llm_planner.monitoring.playback import Recording
from llm_planner.monitoring.recorder import McapRecorder

NUM_FLUSHES = 300


def test_a_recorder_keeps_no_index_in_memory_and_writes_all_of_it_at_the_end(tmp_path):
    recording = McapRecorder(tmp_path / "run.mcap")
    channels = [recording.add_channel(f"/topic_{n}", "std_msgs/msg/String", "string data") for n in range(5)]
    for number in range(NUM_FLUSHES):
        for channel in channels:
            recording.add(channel, b"data", published_ns=number + 1, sequence=number)
        recording.flush()
    assert sum(type(thing) is ChunkIndex for thing in gc.get_objects()) < 10
    recording.close()
    assert [path.name for path in tmp_path.iterdir()] == ["run.mcap"]
    with (tmp_path / "run.mcap").open("rb") as stream:
        reader = make_reader(stream)
        assert len(reader.get_summary().chunk_indexes) == NUM_FLUSHES
        found = [message.sequence for _, _, message in reader.iter_messages(topics="/topic_3")]
    assert found == list(range(NUM_FLUSHES))


def test_a_system_clock_that_is_set_moves_no_message(tmp_path, monkeypatch):
    clock = SimpleNamespace(time_ns=lambda: wall_ns, monotonic_ns=lambda: passed_ns)
    wall_ns, passed_ns = 1_000_000_000_000, 50_000_000_000
    monkeypatch.setattr(recorder, "time", clock)
    recording = McapRecorder(tmp_path / "run.mcap")
    channel = recording.add_channel("/topic", "std_msgs/msg/String", "string data")
    for step_s in (0, 20 * 365 * 86_400, -3_600):
        wall_ns, passed_ns = wall_ns + step_s * 1_000_000_000, passed_ns + 1_000_000_000
        recording.add(channel, b"data", published_ns=0)
    recording.close()
    assert [message.at_s for message in Recording(tmp_path / "run.mcap").messages()] == [1001.0, 1002.0, 1003.0]


def test_a_disk_that_is_full_at_the_end_leaves_what_was_written(tmp_path, monkeypatch):
    path = tmp_path / "run.mcap"
    recording = McapRecorder(path)
    channel = recording.add_channel("/topic", "std_msgs/msg/String", "string data")
    recording.add(channel, b"data", published_ns=1)
    recording.flush()
    recording._file.flush()
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, limits[1]))
    try:
        with pytest.raises(PlannerError, match="what was written so far can be read") as raised:
            recording.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert raised.value.code is ErrorCode.INVALID_FILE
    assert len(list(Recording(path).messages())) == 1
