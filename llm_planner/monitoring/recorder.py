# SPDX-License-Identifier: Apache-2.0
"""Writes ROS 2 messages to an MCAP file that Foxglove and ``ros2 bag`` open; a crash leaves it readable so far."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from mcap.data_stream import RecordBuilder
from mcap.records import ChunkIndex
from mcap.well_known import MessageEncoding, Profile, SchemaEncoding
from mcap.writer import CompressionType, Writer

from llm_planner.core.errors import ErrorCode, PlannerError


@dataclass(frozen=True, slots=True)
class _Records:
    """Records as they are in a file."""

    data: bytes

    def write(self, builder: RecordBuilder) -> None:
        builder.write(self.data)


class _IndicesOnDisk:
    """Where the chunks of a file are, in a file without a name until all of them are written at the end of the first.

    The writer would keep them as objects: some kilobytes with every flush, for as long as it records.
    """

    def __init__(self, directory: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 -- as long as the recorder

    def append(self, index: ChunkIndex) -> None:
        builder = RecordBuilder()
        index.write(builder)
        self._file.write(builder.end())  # type: ignore[no-untyped-call]

    def __iter__(self) -> Iterator[_Records]:
        self._file.seek(0)
        yield _Records(self._file.read())

    def close(self) -> None:
        self._file.close()


class McapRecorder:
    """One file. ``flush`` it often: what was flushed stays, whatever happens to this process.

    Args:
        path: Must not exist yet.

    Raises:
        PlannerError: INVALID_FILE if it exists, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("xb")
        except OSError as error:
            raise PlannerError(
                ErrorCode.INVALID_FILE, f"{path} cannot be written ({error.strerror}); choose another name"
            ) from error
        self._writer = Writer(self._file, compression=CompressionType.ZSTD)
        self._indices = self._writer._Writer__chunk_indices = _IndicesOnDisk(path.parent)  # type: ignore[attr-defined]  # noqa: SLF001
        self._writer.start(profile=Profile.ROS2, library="llm_planner")
        self._schemas: dict[str, int] = {}
        self._began_ns = time.time_ns() - time.monotonic_ns()  # the system clock may be set meanwhile
        self.num_messages = 0

    def add_channel(self, topic: str, message_type: str, definition: str, offered_qos: str = "") -> int:
        """Returns the number of a new channel.

        Args:
            topic: Full name.
            message_type: For example ``std_msgs/msg/String``.
            definition: Text of the message and of all that it is made of, as ``ros2msg`` has it.
            offered_qos: What its publishers offer, as rosbag2 writes it, so that players offer the same.
        """
        if message_type not in self._schemas:
            schema = self._writer.register_schema(message_type, SchemaEncoding.ROS2, definition.encode())
            self._schemas[message_type] = schema
        quality = {"offered_qos_profiles": offered_qos}
        return self._writer.register_channel(topic, MessageEncoding.CDR, self._schemas[message_type], quality)

    def add(self, channel: int, data: bytes, *, published_ns: int, sequence: int = 0) -> None:
        """Writes a serialized message that has just come.

        Args:
            channel: As ``add_channel`` returned it.
            data: In CDR.
            published_ns: When it was sent, system time; 0 if that is unknown.
            sequence: Its number by its publisher.
        """
        now_ns = self._began_ns + time.monotonic_ns()
        self._writer.add_message(channel, now_ns, data, published_ns or now_ns, sequence & 0xFFFFFFFF)
        self.num_messages += 1

    def flush(self) -> None:
        """Hands everything to the operating system, as a chunk that can be read without what follows."""
        self._writer.flush()  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Writes the index, by which a long file opens quickly, and closes the file.

        Raises:
            PlannerError: INVALID_FILE if that cannot be written; what was flushed can be read.
        """
        try:
            with self._file, closing(self._indices):
                self._writer.finish()  # type: ignore[no-untyped-call]
        except OSError as error:
            message = f"the recording has no index: {error.strerror}; what was written so far can be read"
            raise PlannerError(ErrorCode.INVALID_FILE, message) from error
