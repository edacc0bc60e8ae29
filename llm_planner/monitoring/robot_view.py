# SPDX-License-Identifier: Apache-2.0
"""A robot at one moment, by its own account: what it shows to people, as JSON on a topic and in recordings."""

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field, TypeAdapter, ValidationError

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pose import Pose
from llm_planner.core.text import parse_json
from llm_planner.robots.model import RobotModel
from llm_planner.robots.world import WorldObject

VERSION = 1
MAX_THINGS = 64
"""Most things that a view shows, the nearest ones: one view is a few datagrams at most."""
MAX_WORD = 300
Word = Annotated[str, Field(max_length=MAX_WORD)]
"""A name that a robot gives: a sender on the network may be no robot of this fleet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """Something that the robot knows of, where it is now.

    Attributes:
        role: Name of an ``ObjectRole`` in lower case.
        position_m: Of its centre; of a moving thing, where the robot believes it to be by now.
    """

    name: Word
    kind: Word
    role: Word
    position_m: tuple[float, float, float]
    size_m: tuple[float, float, float]
    is_moving: bool = False

    @staticmethod
    def of(thing: WorldObject, now_s: float) -> "Thing":
        """Returns what is shown of an object of a world at a time of that world."""
        return Thing(
            name=thing.name,
            kind=thing.kind,
            role=thing.role.value,
            position_m=thing.position_at(now_s),
            size_m=thing.size_m,
            is_moving=any(thing.velocity_m_per_s),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotView:
    """A robot and what is around it, seen from its home; docs/dashboard.md explains every field.

    Attributes:
        number: Counts the views of this robot node from 0; a gap shows what was lost.
        kind: Name of a ``RobotKind`` in lower case.
        pose: Of the body, or of an arm's tool.
        held: Name of what the gripper holds; empty for nothing.
        fence_m: Of a mobile robot, least and greatest x, then y; None for an arm.
        home: Where its home is in the fleet's map; None if it is not known.
        num_faults: How many unexpected errors have halted the robot since its node began.
        last_fault: What the last one was; empty without any.
        reach_m: Of an arm, least and greatest distance from its base; None for a mobile robot.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = {"allow_inf_nan": False}

    version: int = VERSION
    robot_id: Word
    robot_model: Word
    kind: Word
    driver: Word
    number: int
    pose: Pose
    is_busy: bool
    is_in_reflex: bool
    held: Word = ""
    fence_m: tuple[float, float, float, float] | None = None
    reach_m: tuple[float, float] | None = None
    home: Pose | None = None
    num_faults: int = 0
    last_fault: Word = ""
    things: Annotated[tuple[Thing, ...], Field(max_length=4 * MAX_THINGS)] = ()

    def to_json(self) -> str:
        """Returns the JSON text that ``from_json`` reads."""
        return _ADAPTER.dump_json(self).decode()

    @staticmethod
    def from_json(text: str) -> "RobotView":
        """Returns the view in a JSON text; unknown fields are ignored.

        Raises:
            PlannerError: INVALID_POSE if it is broken (a number that is not finite, say) or of another version.
        """
        try:
            view = _ADAPTER.validate_python(parse_json(text))
        except ValidationError as error:
            where = ", ".join(".".join(map(str, e["loc"])) or "all of it" for e in error.errors()[:3])
            raise PlannerError(
                ErrorCode.INVALID_POSE, f"a robot shows itself in no way that makes sense: {where}"
            ) from (error)
        except ValueError as error:
            what = f"a robot shows itself in no way that makes sense: {str(error)[:100]}"
            raise PlannerError(ErrorCode.INVALID_POSE, what) from error
        if view.version != VERSION:
            raise PlannerError(ErrorCode.INVALID_POSE, f"a robot's view has version {view.version}, not {VERSION}")
        return view


_ADAPTER = TypeAdapter(RobotView)


def outline(model: RobotModel, robot_id: str, driver: str, home: Pose | None = None) -> RobotView:
    """Returns a view of a robot at its start, with all that never changes."""
    fence, workspace = model.geofence, model.workspace
    return RobotView(
        robot_id=robot_id,
        robot_model=model.name,
        kind=model.kind.value,
        driver=driver,
        number=0,
        pose=as_pose(model.start),
        is_busy=False,
        is_in_reflex=False,
        fence_m=None if fence is None else (*fence.x_m, *fence.y_m),
        reach_m=None if workspace is None else workspace.reach_m,
        home=home,
    )


def parse_home(text: str) -> Pose | None:
    """Returns the home that ``X,Y,YAW`` (metres and degrees) stands for; None for an empty text.

    Raises:
        PlannerError: INVALID_CONFIG if it is something else.
    """
    if not text.strip():
        return None
    numbers: list[float] = []
    with suppress(ValueError):
        numbers = [float(word) for word in text.split(",")]
    if len(numbers) != 3 or not all(map(math.isfinite, numbers)):
        message = f"home is {text!r}; give X,Y,YAW in metres and degrees, such as 1.5,0,90"
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    return Pose(x_m=numbers[0], y_m=numbers[1], yaw_deg=numbers[2])


def as_pose(pose: Pose) -> Pose:
    """Returns the same pose without what a subclass adds."""
    return Pose(x_m=pose.x_m, y_m=pose.y_m, z_m=pose.z_m, yaw_deg=pose.yaw_deg)


def nearest(things: tuple[Thing, ...], pose: Pose) -> tuple[Thing, ...]:
    """Returns the nearest ``MAX_THINGS``, in their order."""
    if len(things) <= MAX_THINGS:
        return things
    kept = sorted(things, key=lambda thing: math.dist(thing.position_m[:2], (pose.x_m, pose.y_m)))[:MAX_THINGS]
    return tuple(thing for thing in things if thing in kept)
