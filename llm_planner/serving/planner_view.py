# SPDX-License-Identifier: Apache-2.0
"""A planner node at one moment: what it shows to people, as JSON on a topic and in recordings."""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import TypeAdapter

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.text import parse_json
from llm_planner.serving.view import LoopView

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleRobot:
    """A robot that has no goal now, but had one not long ago.

    Attributes:
        idle_s: Since its last goal ended.
        error_code: How that goal ended.
        findings: What the robot said, found or measured meanwhile.
    """

    robot_id: str
    idle_s: float
    error_code: int
    findings: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerView:
    """A planner node at one moment; docs/interfaces.md explains every field.

    Attributes:
        planner: Full name of the node.
        state: LOADING, INACTIVE or ACTIVE.
        is_ready: Whether the engine plans now.
        error_code: Why it never will again; 0 while there is hope.
        age_s: How old ``loop`` is; None without one.
        loop: The engine's goals, memory and counters; None until it has answered.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = {"allow_inf_nan": False}  # of all that it holds, too

    version: int = VERSION
    planner: str
    state: str
    model: str
    policy: str
    is_ready: bool = False
    num_restarts: int = 0
    num_goals: int = 0
    error_code: int = 0
    error_msg: str = ""
    age_s: float | None = None
    loop: LoopView | None = None
    idle_robots: tuple[IdleRobot, ...] = ()

    def to_json(self) -> str:
        """Returns the JSON text that ``from_json`` reads."""
        return _ADAPTER.dump_json(self).decode()

    @staticmethod
    def from_json(text: str) -> "PlannerView":
        """Returns the view in a JSON text; unknown fields are ignored.

        Raises:
            PlannerError: VERSION_MISMATCH if it is of another version.
        """
        try:
            view = _ADAPTER.validate_python(parse_json(text))
        except ValueError:  # pydantic's ValidationError is one
            view = None
        if view is None or view.version != VERSION:
            raise PlannerError(
                ErrorCode.VERSION_MISMATCH,
                f"the planner shows itself in another format than version {VERSION}; use the llm-planner that was "
                "installed with it",
            )
        return view


_ADAPTER = TypeAdapter(PlannerView)
