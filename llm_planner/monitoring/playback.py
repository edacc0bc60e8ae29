# SPDX-License-Identifier: Apache-2.0
"""Reads a recording, whole or cut, and tells a fleet's state what was said in it.

A recording may come from any source, and compressed zeros are small: 64 kB can hold gigabytes, or millions of messages.
So a file is read no further than its size allows.
"""

import io
import re
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lz4.frame import LZ4FrameDecompressor
from mcap.data_stream import ReadDataStream
from mcap.exceptions import InvalidMagic, McapError, RecordLengthLimitExceeded
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, Message, Schema
from mcap.stream_reader import StreamReader
from mcap_ros2.decoder import DecoderFactory
from zstandard import ZstdDecompressor, ZstdError

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.monitoring import receiving
from llm_planner.monitoring.fleet import FleetState

MAX_RECORD_BYTES = 256 * 2**20
MAX_CHUNK_BYTES = 64 * 2**20  # decompressed; recorders write chunks of about 1 MB
MAX_GROWTH = 1000  # of a file by decompression: JSON that repeats itself grows 20 to 100 times
FIXED_ARRAY = re.compile(rb"\[\d+\]")

DAMAGE = (McapError, struct.error, ValueError, ZstdError, MemoryError, OverflowError, AssertionError, RuntimeError)
"""What mcap raises where a record ends too early, or is not what it says; RuntimeError also from lz4."""
TEXT, REFLEX, DIAGNOSTICS = "std_msgs/msg/String", "llm_planner/msg/Reflex", "diagnostic_msgs/msg/DiagnosticArray"


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """One message of a recording.

    Attributes:
        at_s: When it was recorded, system time.
        decode: Returns the message with its fields as attributes.
    """

    at_s: float
    topic: str
    message_type: str
    decode: Callable[[], Any]


@dataclass(slots=True)
class Recording:
    """A file, read once from its beginning.

    Attributes:
        is_cut: Whether it ends in mid-record, because its writer ended there; known after ``messages``.
        counts: Messages by topic, likewise.
    """

    path: Path
    is_cut: bool = False
    counts: Counter[str] = field(default_factory=Counter)

    def messages(self) -> Iterator[RecordedMessage]:
        """Yields what was recorded, in the order of the file, as far as it goes.

        Raises:
            PlannerError: INVALID_FILE if it is no recording of ROS 2 messages.
        """
        schemas: dict[int, Schema] = {}
        channels: dict[int, Channel] = {}
        decoders = _Decoders()
        for record in self._records():
            if isinstance(record, Schema):
                schemas[record.id] = record
            elif isinstance(record, Channel):
                channels[record.id] = record
            elif isinstance(record, Message):
                channel = channels.get(record.channel_id)
                schema = None if channel is None else schemas.get(channel.schema_id)
                if channel is None or schema is None:
                    self.is_cut = True  # damaged: what it is stood in a part that is gone
                    continue
                self.counts[channel.topic] += 1
                decode = decoders.of(channel, schema, record.data)
                yield RecordedMessage(record.log_time / 1e9, channel.topic, schema.name, decode)

    def _records(self) -> Iterator[object]:
        try:
            with _BoundedFile(self.path) as file:
                records = StreamReader(file, emit_chunks=True, validate_crcs=True, record_size_limit=MAX_RECORD_BYTES)
                yield from _bounded(records.records, file.size)
        except (_TooLargeError, RecordLengthLimitExceeded) as error:
            message = f"{self.path} is no recording of a fleet: {error}"
            raise PlannerError(ErrorCode.INVALID_FILE, message) from error
        except InvalidMagic as error:
            if self.counts:  # where the end should be is something else
                self.is_cut = True
                return
            raise PlannerError(ErrorCode.INVALID_FILE, f"{self.path} is no MCAP recording: {error}") from error
        except OSError as error:
            message = f"{self.path} cannot be read: {error.strerror}"
            raise PlannerError(ErrorCode.INVALID_FILE, message) from error
        except DAMAGE:
            self.is_cut = True


class _BoundedFile(io.BufferedReader):
    """A file that never allocates more than it holds: a damaged length would fill the memory."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self.size = path.stat().st_size

    def read(self, size: int | None = -1, /) -> bytes:
        """Returns at most ``size`` bytes."""
        return super().read(self.size if size is None or size < 0 else min(size, self.size))


class _TooLargeError(Exception):
    """A file holds more than one of its size can."""


def _bounded(records: Iterable[object], file_bytes: int) -> Iterator[object]:
    """Yields records, and what is in chunks; a file has no more of them than bytes, however well it is compressed.

    Raises:
        _TooLargeError: If it says that it has.
    """
    num_records = num_bytes = 0
    for record in records:
        inner: Iterable[object] = (record,)
        if isinstance(record, Chunk):
            data = _decompressed(record)
            num_bytes += len(data)
            inner = _records_of(data)
        if num_bytes > MAX_GROWTH * file_bytes:
            raise _TooLargeError(f"its {file_bytes} bytes are more than {num_bytes} when they are decompressed")
        for one in inner:
            num_records += 1
            if num_records > file_bytes:
                raise _TooLargeError(f"it has more records than its {file_bytes} bytes")
            yield one


def _decompressed(chunk: Chunk) -> bytes:
    """Returns the data of a chunk.

    Raises:
        _TooLargeError: If it says that it is larger than any chunk.
        ValueError: If it is not what it says.
    """
    size = chunk.uncompressed_size
    if size > MAX_CHUNK_BYTES:
        raise _TooLargeError(f"one of its chunks is {size} bytes when it is decompressed, more than {MAX_CHUNK_BYTES}")
    data = chunk.data
    if chunk.compression == "zstd":
        data = ZstdDecompressor(max_window_size=MAX_CHUNK_BYTES).stream_reader(data).read(size + 1)
    elif chunk.compression == "lz4":
        data = LZ4FrameDecompressor().decompress(data, max_length=size + 1)
    if chunk.compression not in {"", "zstd", "lz4"} or len(data) != size:
        raise ValueError("a chunk is not what it says")
    if chunk.uncompressed_crc not in {0, zlib.crc32(data)}:
        raise ValueError("a chunk does not have its checksum")
    return data


def _records_of(data: bytes) -> Iterator[object]:
    """Yields the records of a chunk, one at a time; None for one of another kind."""
    stream = ReadDataStream(io.BytesIO(data))
    while stream.count < len(data):
        opcode, length = stream.read1(), stream.read8()
        if opcode == Opcode.SCHEMA:
            yield Schema.read(stream)
        elif opcode == Opcode.CHANNEL:
            yield Channel.read(stream)
        elif opcode == Opcode.MESSAGE:
            yield Message.read(stream, length)
        else:
            stream.read(length)
            yield None


class _Decoders:
    """Message decoders, made once per schema."""

    def __init__(self) -> None:
        self._factory = DecoderFactory()

    def of(self, channel: Channel, schema: Schema, data: bytes) -> Callable[[], Any]:
        def decode() -> object:
            try:
                return self._decoded(channel, schema, data)
            except Exception as error:  # whatever the library throws: definition and data are the file's
                problem = f"a message of {channel.topic} cannot be decoded: {error}"
                raise PlannerError(ErrorCode.INVALID_FILE, problem) from error

        return decode

    def _decoded(self, channel: Channel, schema: Schema, data: bytes) -> object:
        if FIXED_ARRAY.search(schema.data):  # ours have none; it could hold very many elements of no size
            raise ValueError("its definition has arrays of fixed size")
        decoder = self._factory.decoder_for(channel.message_encoding, schema)
        if decoder is None:
            raise ValueError("it is not encoded as ROS 2 does")
        return decoder(data)


def retell(message: RecordedMessage, state: FleetState, now_s: float) -> None:
    """Passes a received message to a fleet's state; skips what a dashboard does not show, counts what is broken."""
    try:
        _retell(message, state, now_s)
    except (PlannerError, AttributeError, TypeError, ValueError):  # the type may be defined otherwise in this file
        state.receive_broken(message.topic, now_s)


def _retell(message: RecordedMessage, state: FleetState, now_s: float) -> None:
    sender, _, name = message.topic.rpartition("/")
    if message.message_type == TEXT and name == "goal_events":
        receiving.receive_event(state, sender, message.decode().data, now_s)
    elif message.message_type == TEXT and name == "view":
        text = message.decode().data
        # Only a planner's view has this key; within a text of others, its quotation marks would be escaped.
        receive = receiving.receive_planner if '"planner":' in text else receiving.receive_robot
        receive(state, sender, text, now_s)
    elif message.message_type == REFLEX:
        reflex = message.decode()
        is_over = bool(reflex.finished_at.sec or reflex.finished_at.nanosec)
        state.receive_reflex(reflex.robot_id, reflex.reason, reflex.action, is_over=is_over, now_s=now_s)
    elif message.message_type == DIAGNOSTICS:
        for status in message.decode().status:
            state.receive_diagnostic(status.name, int.from_bytes(bytes([status.level])), status.message, now_s)
