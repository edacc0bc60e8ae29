# SPDX-License-Identifier: Apache-2.0
"""A recorder that runs for hours: what it keeps in memory, and the index that it writes at the end."""

import gc
import resource
import signal

import pytest
from mcap.reader import make_reader
from mcap.records import ChunkIndex

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.monitoring.playback import Recording
from llm_planner.monitoring.recorder import McapRecorder

NUM_FLUSHES = 300


def test_a_recorder_keeps_no_index_in_memory_and_writes_all_of_it_at_the_end(tmp_path):
    recorder = McapRecorder(tmp_path / "run.mcap")
    channels = [recorder.add_channel(f"/topic_{n}", "std_msgs/msg/String", "string data") for n in range(5)]
    for number in range(NUM_FLUSHES):
        for channel in channels:
            recorder.add(channel, b"data", published_ns=number + 1, sequence=number)
        recorder.flush()
    assert sum(type(thing) is ChunkIndex for thing in gc.get_objects()) < 10
    recorder.close()
    assert [path.name for path in tmp_path.iterdir()] == ["run.mcap"]
    with (tmp_path / "run.mcap").open("rb") as stream:
        reader = make_reader(stream)
        assert len(reader.get_summary().chunk_indexes) == NUM_FLUSHES
        found = [message.sequence for _, _, message in reader.iter_messages(topics="/topic_3")]
    assert found == list(range(NUM_FLUSHES))


def test_a_disk_that_is_full_at_the_end_leaves_what_was_written(tmp_path, monkeypatch):
    path = tmp_path / "run.mcap"
    recorder = McapRecorder(path)
    channel = recorder.add_channel("/topic", "std_msgs/msg/String", "string data")
    recorder.add(channel, b"data", published_ns=1)
    recorder.flush()
    recorder._file.flush()
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, limits[1]))
    try:
        with pytest.raises(PlannerError, match="what was written so far can be read") as raised:
            recorder.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert raised.value.code is ErrorCode.INVALID_FILE
    assert len(list(Recording(path).messages())) == 1
