# SPDX-License-Identifier: Apache-2.0
"""What driver and world say to each other between processes: one line of text per order and per answer.

An order is ``method arguments``, an answer ``ok value`` or ``error code message``; values are JSON, checked by type. No
pickle: a client that reaches the port can move robots, but not run code.
"""

from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.robots.model import Pose
from llm_planner.robots.world import WorldObject
from llm_planner.sim.physics.port import Telemetry

MAX_LINE_BYTES = 4_000_000  # some ten thousand objects

_INFINITE = ConfigDict(ser_json_inf_nan="constants")
_OBJECTS = tuple[WorldObject, ...]
_TYPES: dict[str, tuple[Any, Any]] = {  # method -> arguments, value
    "hello": (tuple[str], str),  # the world's id: another one after it was started again
    "enter": (tuple[_OBJECTS, Pose], float),
    "read": (tuple[()], Telemetry),
    "look": (tuple[()], _OBJECTS),
    "survey": (tuple[()], _OBJECTS),
    "fly": (tuple[Pose, float], None),
    "take_off": (tuple[float], None),
    "land": (tuple[()], None),
    "move": (tuple[tuple[float, ...]], None),
    "grip": (tuple[bool], None),
    "picture": (tuple[()], str),
    "stop": (tuple[()], None),
    "close": (tuple[()], None),
}


def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Returns an adapter that lets infinite numbers through; a dataclass brings its own configuration."""
    return TypeAdapter(tuple[kind], config=_INFINITE) if kind is not None else TypeAdapter(None)


_CODES = {str(int(code)): code for code in ErrorCode}
_ARGUMENTS = {method: _adapter(arguments) for method, (arguments, _) in _TYPES.items()}
_VALUES = {method: _adapter(value) for method, (_, value) in _TYPES.items()}


def order(method: str, *arguments: Any) -> bytes:
    """Returns an order as a line."""
    return f"{method} {_ARGUMENTS[method].dump_json((arguments,)).decode()}\n".encode()


def require_whole(line: bytes) -> None:
    """Raises PlannerError INVALID_CONFIG if a line of at most ``MAX_LINE_BYTES`` + 1 bytes does not end."""
    if not line.endswith(b"\n"):
        problem = (
            f"a line of more than {MAX_LINE_BYTES} bytes" if len(line) > MAX_LINE_BYTES else "a line without an end"
        )
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"{problem} at a world's port")


def read_order(line: bytes) -> tuple[str, tuple[Any, ...]]:
    """Returns method and arguments of an order.

    Raises:
        PlannerError: INVALID_CONFIG if the line is none.
    """
    method, _, text = line.decode(errors="replace").partition(" ")
    if method not in _ARGUMENTS:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"a robot's world knows no order {method[:40]!r}")
    try:
        (arguments,) = _ARGUMENTS[method].validate_json(text)
    except ValidationError as error:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"order {method}: {error.errors()[0]['msg']}") from error
    return method, arguments


def answer(method: str, value: Any) -> bytes:
    """Returns the answer to an order as a line."""
    return f"ok {_VALUES[method].dump_json(None if value is None else (value,)).decode()}\n".encode()


def refusal(error: PlannerError) -> bytes:
    """Returns an error as a line."""
    return f"error {int(error.code)} {error.message}\n".replace("\n", " ").rstrip().encode() + b"\n"


def read_answer(method: str, line: bytes) -> Any:
    """Returns the value of an answer.

    Raises:
        PlannerError: What the world says, or SERVER_UNREACHABLE if it says nothing that could be understood.
    """
    kind, _, text = line.decode(errors="replace").rstrip("\n").partition(" ")
    if kind == "error":
        code, _, message = text.partition(" ")
        if code in _CODES:
            raise PlannerError(_CODES[code], message)
    try:
        value = _VALUES[method].validate_json(text)
    except ValueError as error:  # pydantic's are, too
        raise PlannerError(ErrorCode.SERVER_UNREACHABLE, f"the world answers {line[:80]!r} to {method}") from error
    return None if value is None else value[0]
