# SPDX-License-Identifier: Apache-2.0
"""LRTrace files: requests of robots in time, with the plans that answer them; JSON lines, described in docs/traces.md.

{"format": "lrtrace", "version": 2, "name": ..., ...}          header
{"time_s": ..., "request_id": ..., ...}                        one line per request, times never fall
{"end": true, "num_requests": ...}                             a file without this line is truncated

A recording has "kind": "recording" in its header, the lines of ``serving.event_log``, and an end with "num_events".
One without its end was cut, and counts as far as it goes: every line was whole when it was written.
"""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from itertools import starmap
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import TypeAdapter

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pose import Pose
from llm_planner.core.time_utility import TimeUtility
from llm_planner.documents import DocumentError, validated
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.record import Record, require
from llm_planner.serving.event_log import FORMAT, VERSION
from llm_planner_lab.simulation.recording import fold

READABLE_VERSIONS = (1, 2)
MAX_S = 1e9  # thirty years
ChatSegments = Literal["sentence", "paragraph"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFailure(Record):
    """A segment that fails once on the robot, which stands then and waits for another way.

    Attributes:
        segment: Its place in the plan, from 0.
        duration_s: After how long.
        reason: Why, in the robot's words.
    """

    segment: int
    duration_s: float
    reason: str

    def __post_init__(self) -> None:
        require(math.isfinite(self.duration_s) and self.duration_s >= 0, "duration_s must be >= 0")


class RequestStep(NamedTuple):
    """What a step of the engine was for one request: tokens that it brought (0: the end alone), and computed."""

    num_tokens: int
    num_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest(Record):
    """One request of one robot.

    Attributes:
        time_s: When the robot sent it, since the start of the trace.
        task: Trace id of Table 2 of TimelyLLM, or any other number.
        plan: What the model answered: MiniSpec; with urgency ``chat``, words.
        num_static_tokens: Tokens of the prompt's static part, which all requests of a robot model share.
        num_dynamic_tokens: Tokens of the rest of the prompt.
        durations_s: Per segment of ``plan``, how long the robot took.
        segment_tokens: Per segment, how many tokens the model wrote for it; empty if no model was asked: then they are
            counted as a large vocabulary cuts them.
        chat_segments: What a segment of a chat is.
        step_tokens: How many tokens each step of the model brought, if forced or drafted ones came with others; empty:
            one each. A step that brought no more than the end counts as 0, which only the last can be; where it is not,
            the end came with the last tokens.
        step_rows: How many tokens each of these steps computed, wrong drafts included; empty: what it brought.
        start_pose: Where the robot was, for the safety gate; None for the robot model's start pose.
        failures: What fails on the robot, in order. The model writes what is left of ``plan`` then, beginning with the
            segment that failed.
    """

    time_s: float
    request_id: str
    robot_id: str
    robot_model: str
    task: int
    urgency: Literal["normal", "urgent", "chat"]
    time_utility: TimeUtility
    instruction: str
    plan: str
    num_static_tokens: int
    num_dynamic_tokens: int
    durations_s: tuple[float, ...]
    scene: str = ""
    segment_tokens: tuple[int, ...] = ()
    step_tokens: tuple[int, ...] = ()
    step_rows: tuple[int, ...] = ()
    start_pose: Pose | None = None
    chat_segments: ChatSegments = "sentence"
    failures: tuple[SegmentFailure, ...] = ()

    def __post_init__(self) -> None:
        require(self.time_s >= 0, "time_s must be >= 0")
        require(self.num_static_tokens >= 0, "num_static_tokens must be >= 0")
        require(self.num_dynamic_tokens >= 1, "num_dynamic_tokens must be >= 1")
        require(all(math.isfinite(d) and d >= 0 for d in self.durations_s), "durations_s must be >= 0")
        require(all(n >= 0 for n in self.segment_tokens), "segment_tokens must be >= 0")
        require(all(n >= 1 for n in self.step_tokens[:-1]), "step_tokens must be >= 1, but for the last")
        require(not self.step_tokens or self.step_tokens[-1] >= 0, "step_tokens must be >= 0")
        has_rows = len(self.step_rows) in {0, len(self.step_tokens)} and all(n >= 1 for n in self.step_rows)
        require(has_rows, "step_rows must be >= 1, one for each of step_tokens")
        places = [failure.segment for failure in self.failures]
        is_in_order = places == sorted(places) and all(0 <= place < len(self.durations_s) for place in places)
        require(is_in_order, "failures must name segments of the plan in their order")
        require(not (places and self.urgency == "chat"), "an answer in words has no failures")
        pose = () if self.start_pose is None else astuple(self.start_pose)
        require(all(map(math.isfinite, pose)), "start_pose must be finite")

    @property
    def steps(self) -> tuple[RequestStep, ...]:
        """Steps in which the plan came; empty for one for each token, and one for the end."""
        rows = self.step_rows or (max(1, count) for count in self.step_tokens)
        return tuple(starmap(RequestStep, zip(self.step_tokens, rows, strict=True)))

    def in_steps(self, steps: Sequence[RequestStep]) -> "TraceRequest":
        """Returns the request with other steps."""
        tokens, rows = zip(*steps, strict=True) if steps else ((), ())
        return replace(self, step_tokens=tokens, step_rows=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A workload.

    Attributes:
        name: Which one, e.g. ``wid1``.
        duration_s: Length of the period in which requests arrive.
        about: How it came to be: composition parameters and seed, or where it was recorded.
        requests: In order of time.
    """

    name: str
    duration_s: float
    requests: tuple[TraceRequest, ...]
    about: dict[str, Any] = field(default_factory=dict)


def to_lines(trace: Trace) -> Iterator[str]:
    """Yields the lines of a trace file, without line ends."""
    header = {"format": FORMAT, "version": VERSION, "name": trace.name, "duration_s": trace.duration_s}
    yield json.dumps({**header, "about": trace.about})
    for request in trace.requests:
        yield json.dumps(asdict(request))
    yield json.dumps({"end": True, "num_requests": len(trace.requests)})


def write_trace(trace: Trace, path: Path) -> None:
    """Writes a trace file."""
    path.write_text("".join(f"{line}\n" for line in to_lines(trace)), encoding="utf-8")


def read_trace(path: Path, robots: RobotLibrary) -> Trace:
    """Returns the trace of a file.

    Raises:
        PlannerError: INVALID_FILE with file and line, if it is truncated, unsorted, of an unknown version, names an
            unknown robot model, or holds anything else that a trace may not hold.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise _invalid(f"{path} cannot be read: {reason}") from error
    try:
        return parse_lines(lines, robots)
    except PlannerError as error:
        raise _invalid(f"{path}, {error.message.removeprefix('trace: ')}") from error


def parse_lines(lines: Iterable[str], robots: RobotLibrary) -> Trace:
    """Returns the trace of the lines of a file; raises as ``read_trace``."""
    first, *others = list(lines) or [""]
    header = _header(first)
    if header.get("kind") == "recording":
        return _recorded(header, others, robots)
    rows = [_json(line, number) for number, line in enumerate(others, 2)]
    if not rows or rows[-1].get("end") is not True:
        raise _invalid('truncated: the last line {"end": true, ...} is missing; record or copy the trace again')
    end = rows.pop()
    if end.get("num_requests") != len(rows):
        raise _invalid(f"truncated: {len(rows)} requests, but the last line counts {end.get('num_requests')!r}")
    requests = [_request(row, number, robots) for number, row in enumerate(rows, 2)]
    _check_order(requests)
    duration_s, about = header.get("duration_s"), header.get("about", {})
    if not isinstance(duration_s, float | int) or not 0 <= duration_s <= MAX_S or not isinstance(about, dict):
        raise _invalid(f"line 1: duration_s must be a number from 0 to {MAX_S:g} and about an object")
    return Trace(name=str(header.get("name", "")), duration_s=float(duration_s), requests=tuple(requests), about=about)


def _header(line: str) -> dict[str, Any]:
    header = _json(line or "{}", 1)
    if header.get("format") != FORMAT:
        raise _invalid(f'line 1: not a trace; the header {{"format": "{FORMAT}"}} is missing')
    if header.get("version") not in READABLE_VERSIONS:
        known = " and ".join(map(str, READABLE_VERSIONS))
        raise _invalid(f"line 1: version {header.get('version')!r} is unknown; this program reads versions {known}")
    return header


def _recorded(header: dict[str, Any], lines: list[str], robots: RobotLibrary) -> Trace:
    """Returns the trace of a recording's lines behind the header."""
    is_cut = not lines or not _is_end(lines[-1])
    if is_cut and lines and not _is_json(lines[-1]):
        lines = lines[:-1]  # cut in the middle of a line
    documents = [_json(line, number) for number, line in enumerate(lines, 2)]
    end = {} if is_cut else documents.pop()
    if not is_cut and end.get("num_events") != len(documents):
        raise _invalid(f"truncated: {len(documents)} events, but the last line counts {end.get('num_events')!r}")
    try:
        rows, counts = fold(documents)
        duration_s = float(documents[-1]["time_s"]) - float(documents[0]["time_s"]) if documents else 0.0
        lost = {"num_lost_events": int(end.get("num_lost", 0))}
        about = {**header.get("about", {}), **counts, **lost, "is_cut": is_cut}
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise _invalid(f"a line is not as the recorder writes it ({error!r}); record again") from error
    requests = tuple(_request(row, None, robots) for row in rows)
    return Trace(name=str(header.get("name", "")), duration_s=max(0.0, duration_s), requests=requests, about=about)


def _is_json(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _is_end(line: str) -> bool:
    return _is_json(line) and json.loads(line).get("end") is True


def _json(line: str, number: int) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _invalid(f"line {number}: not JSON ({error}); the file may be truncated") from error
    if not isinstance(document, dict):
        raise _invalid(f"line {number}: holds {type(document).__name__} instead of an object")
    return document


_ADAPTER = TypeAdapter(TraceRequest)


def request_schema() -> dict[str, Any]:
    """Returns the JSON schema of a request's line."""
    return {**_ADAPTER.json_schema(), "title": f"{FORMAT} {VERSION}, one request"}


def _request(row: dict[str, Any], number: int | None, robots: RobotLibrary) -> TraceRequest:
    """Returns the request of a line, or of a recorded goal, which has no line of its own."""
    where = f"line {number}" if number else f"request {row.get('request_id')!r}"
    try:
        request = validated(_ADAPTER, row)
        robots.get(request.robot_model)
    except DocumentError as error:
        raise _invalid(f"{where} {error}") from error
    except PlannerError as error:
        raise _invalid(f"{where}: {error.message}") from error
    return request


def _check_order(requests: list[TraceRequest]) -> None:
    seen: set[str] = set()
    for number, request in enumerate(requests, 2):
        if number > 2 and request.time_s < requests[number - 3].time_s:
            raise _invalid(f"line {number}: time_s {request.time_s} is before the line above; sort the trace by time")
        if request.request_id in seen:
            raise _invalid(f"line {number}: request_id {request.request_id!r} appears twice")
        seen.add(request.request_id)


def _invalid(problem: str) -> PlannerError:
    return PlannerError(ErrorCode.INVALID_FILE, f"trace: {problem}")
