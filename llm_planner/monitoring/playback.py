"""Reads a recording, whole or cut, and tells a fleet's state what was said in it."""

import io
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcap.exceptions import InvalidMagic, McapError
from mcap.records import Channel, Message, Schema
from mcap.stream_reader import StreamReader
from mcap_ros2.decoder import DecoderFactory
from zstandard import ZstdError

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.monitoring import hearing
from llm_planner.monitoring.fleet import FleetState

DAMAGE = (McapError, struct.error, ValueError, ZstdError, MemoryError, OverflowError, AssertionError)
"""What mcap raises where a record ends too early, or is not what it says."""
TEXT, REFLEX, DIAGNOSTICS = "std_msgs/msg/String", "llm_planner/msg/Reflex", "diagnostic_msgs/msg/DiagnosticArray"


@dataclass(frozen=True, slots=True)
class Heard:
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
        is_cut: Whether it ends in mid-record, because whoever wrote it ended there; known after ``messages``.
        counts: Messages by topic, likewise.
    """

    path: Path
    is_cut: bool = False
    counts: Counter[str] = field(default_factory=Counter)

    def messages(self) -> Iterator[Heard]:
        """Yields what was recorded, in the order of the file, as far as it goes.

        Raises:
            PlannerError: INVALID_CONFIG if it is no recording of ROS 2 messages.
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
                yield Heard(record.log_time / 1e9, channel.topic, schema.name, decode)

    def _records(self) -> Iterator[object]:
        try:
            with _BoundedFile(self.path) as file:
                yield from StreamReader(file, validate_crcs=True).records
        except InvalidMagic as error:
            if self.counts:  # where the end should be is something else
                self.is_cut = True
                return
            raise PlannerError(ErrorCode.INVALID_CONFIG, f"{self.path} is no MCAP recording: {error}") from error
        except OSError as error:
            message = f"{self.path} cannot be read: {error.strerror}"
            raise PlannerError(ErrorCode.INVALID_CONFIG, message) from error
        except DAMAGE:
            self.is_cut = True


class _BoundedFile(io.BufferedReader):
    """A file of which nobody can ask for more than there is: a damaged length would fill the memory."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self._size = path.stat().st_size

    def read(self, size: int | None = -1, /) -> bytes:
        """Returns at most so many bytes."""
        return super().read(self._size if size is None or size < 0 else min(size, self._size))


class _Decoders:
    """Message decoders, made once per schema."""

    def __init__(self) -> None:
        self._factory = DecoderFactory()

    def of(self, channel: Channel, schema: Schema, data: bytes) -> Callable[[], Any]:
        def decode() -> object:
            problem = f"a message of {channel.topic} cannot be decoded"
            try:
                decoder = self._factory.decoder_for(channel.message_encoding, schema)
                if decoder is None:
                    raise PlannerError(ErrorCode.INVALID_CONFIG, f"{problem}: it is not encoded as ROS 2 does")
                return decoder(data)
            except (*DAMAGE, LookupError, NameError, TypeError, AttributeError) as error:
                raise PlannerError(ErrorCode.INVALID_CONFIG, f"{problem}: {error}") from error

        return decode


def retell(heard: Heard, state: FleetState, now_s: float) -> None:
    """Tells a fleet's state what was heard. What a dashboard does not show is passed over, what is broken counted."""
    try:
        _retell(heard, state, now_s)
    except PlannerError:
        state.hear_broken(heard.topic, now_s)


def _retell(heard: Heard, state: FleetState, now_s: float) -> None:
    sender, _, name = heard.topic.rpartition("/")
    if heard.message_type == TEXT and name == "goal_events":
        hearing.hear_event(state, sender, heard.decode().data, now_s)
    elif heard.message_type == TEXT and name == "view":
        text = heard.decode().data
        # Only a planner's view has this key; within a text of others, its quotation marks would be escaped.
        hear = hearing.hear_planner if '"planner":' in text else hearing.hear_robot
        hear(state, sender, text, now_s)
    elif heard.message_type == REFLEX:
        reflex = heard.decode()
        is_over = bool(reflex.finished_at.sec or reflex.finished_at.nanosec)
        state.hear_reflex(reflex.robot_id, reflex.reason, reflex.action, is_over=is_over, now_s=now_s)
    elif heard.message_type == DIAGNOSTICS:
        for status in heard.decode().status:
            state.hear_diagnostic(status.name, int.from_bytes(bytes([status.level])), status.message, now_s)
