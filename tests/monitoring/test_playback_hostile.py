# SPDX-License-Identifier: Apache-2.0
"""Recordings that are meant to break their reader: each ends with a clear error, in little memory."""

import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from mcap_ros2.writer import Writer
from zstandard import ZstdCompressor

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.monitoring.playback import DIAGNOSTICS, REFLEX, TEXT, Recording
from llm_planner.monitoring.summary import summarize

MAGIC = b"\x89MCAP0\r\n"
MEGABYTE = 2**20


def text(value):
    return struct.pack("<I", len(value)) + value.encode()


def as_record(opcode, content):
    return struct.pack("<BQ", opcode, len(content)) + content


def chunk(compressed, size, compression="zstd"):
    head = struct.pack("<QQQI", 0, 0, size, 0) + text(compression)
    return as_record(6, head + struct.pack("<Q", len(compressed)) + compressed)


def repeated(content, number, *before):
    """Returns a chunk in which something is repeated, made without all of it in memory."""
    compressor = ZstdCompressor().compressobj()
    parts = [compressor.compress(part) for part in (*before, *[content] * number)]
    return b"".join([*parts, compressor.flush()])


def message(data=b""):
    return as_record(5, struct.pack("<HIQQ", 1, 0, 0, 0) + data)


LONG = struct.pack("<BQ", 0xF0, 60 * MEGABYTE)  # of a kind that no reader knows
NOISE = as_record(0xF0, random.Random(0).randbytes(50_000))


def recording(*records):
    header = as_record(1, text("ros2") + text(""))
    schema = as_record(3, struct.pack("<H", 1) + text(TEXT) + text("ros2msg") + text("string data"))
    channel = as_record(4, struct.pack("<HH", 1, 1) + text("/planner/view") + text("cdr") + struct.pack("<I", 0))
    return MAGIC + header + schema + channel + b"".join(records)


def write(path, content):
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: recording(chunk(repeated(bytes(MEGABYTE), 2048), 2048 * MEGABYTE)), "one of its chunks is 2147483648"),
        (lambda: recording(*[chunk(repeated(bytes(MEGABYTE), 60, LONG), 60 * MEGABYTE + 9)] * 40), "when they are"),
        (lambda: recording(NOISE, chunk(repeated(message() * 1024, 999), 999 * 1024 * 31)), "more records than"),
    ],
    ids=["one chunk of 2 GB", "40 chunks of 60 MB", "a million empty messages"],
)
def test_what_grows_beyond_all_measure_is_refused(tmp_path, make, reason):
    path = write(tmp_path / "bomb.mcap", make())
    assert path.stat().st_size < 500_000
    with pytest.raises(PlannerError, match=reason) as raised:
        summarize(Recording(path))
    assert raised.value.code is ErrorCode.INVALID_FILE
    assert str(path) in raised.value.message


LIMITED = """
import resource, sys
from pathlib import Path
from llm_planner.monitoring.playback import Recording
from llm_planner.monitoring.summary import summarize
resource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20))
summary = summarize(Recording(Path(sys.argv[1])))
assert summary.is_cut and not summary.counts
"""


@pytest.mark.parametrize("size", [100, 10_000])
def test_a_chunk_that_is_larger_than_it_says_takes_no_memory(tmp_path, size):
    path = write(tmp_path / "liar.mcap", recording(chunk(repeated(bytes(MEGABYTE), 600), size)))
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", LIMITED, str(path)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("compression", ["", "lz4", "brotli"])
def test_a_chunk_that_is_not_what_it_says_cuts_the_recording(tmp_path, compression):
    recorded = Recording(write(tmp_path / "odd.mcap", recording(chunk(b"no such data", 5_000, compression))))
    assert list(recorded.messages()) == []
    assert recorded.is_cut


DEFINITIONS = {
    "very many things that take no data": "A[] data\n" + "=" * 80 + "\nMSG: std_msgs/A\nuint8[4000000000] x\n",
    "itself": "std_msgs/String data",
    "wide text": "wstring data",
    "an unknown thing": "std_msgs/Unknown data",
    "a constant that is none": "int32 X=five",
    "nonsense": "%&/ ( = ???",
}


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=DEFINITIONS)
def test_a_hostile_definition_is_a_broken_message(tmp_path, definition):
    schema = as_record(3, struct.pack("<H", 2) + text(TEXT) + text("ros2msg") + text(definition))
    channel = as_record(4, struct.pack("<HH", 2, 2) + text("/planner/goal_events") + text("cdr") + struct.pack("<I", 0))
    data = as_record(5, struct.pack("<HIQQ", 2, 0, 0, 0) + b"\0\1\0\0\xff\xff\xff\xff")
    summary = summarize(Recording(write(tmp_path / "odd.mcap", recording(schema, channel, data))))
    assert summary.num_broken == 1


@pytest.mark.parametrize(
    ("message_type", "definition", "values"),
    [
        (TEXT, "string text", {"text": "{}"}),
        (TEXT, "int32 data", {"data": 1}),
        (REFLEX, "string robot_id", {"robot_id": "drone_1"}),
        (DIAGNOSTICS, "int32 status", {"status": 1}),
    ],
)
def test_a_message_whose_type_is_defined_otherwise_is_broken(tmp_path, message_type, definition, values):
    path = tmp_path / "other.mcap"
    with path.open("wb") as file:
        writer = Writer(file)
        schema = writer.register_msgdef(message_type, definition)
        writer.write_message("/planner/view", schema, values)
        writer.finish()
    assert summarize(Recording(path)).num_broken == 1


def test_a_well_compressed_recording_is_read(tmp_path):
    path = tmp_path / "long.mcap"
    with path.open("wb") as file:
        writer = Writer(file)
        schema = writer.register_msgdef(TEXT, "string data")
        for number in range(5_000):
            writer.write_message("/drone_1/view", schema, {"data": "{" + " " * 2_000 + "}"}, log_time=number)
        writer.finish()
    assert path.stat().st_size < 400_000
    assert summarize(Recording(path)).counts == {"/drone_1/view": 5_000}
