# SPDX-License-Identifier: Apache-2.0
"""A robot and its world as JSON: what an instruction begins with, and what a goal test judges afterwards."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from pydantic import FailFast, TypeAdapter, ValidationError

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.skill import Value
from llm_planner.core.text import has_control_characters
from llm_planner.robots.interpreter import ExecutedCall
from llm_planner.robots.model import Pose
from llm_planner.robots.robot_driver import RobotDriver
from llm_planner.robots.world import World, WorldObject

MAX_CHARACTERS = 200_000  # of an order's world, before anything is parsed
MAX_OBJECTS, MAX_ANSWERS, MAX_TAGS, MAX_WORD = 256, 256, 32, 300
MAX_DISTANCE_M, MAX_SIZE_M, MAX_SPEED_M_PER_S = 1000.0, 100.0, 100.0
MAX_DEG, MAX_ANSWER = 1e6, 1e9
MAX_PROBLEMS, MAX_MESSAGE = 3, 500  # that are named, characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A world and the robot in it; to begin with, only ``objects`` count, and ``answers`` and ``pose`` if given.

    Attributes:
        objects: Everything that there is.
        answers: Key phrase -> what a robot that probes a question with these words is told.
        pose: Of the robot; None for the model's start pose.
        held: Name of the object in the gripper.
        said: Texts that the operator was told during the plan.
        pictures: Poses at which pictures were taken during the plan.
        waypoints: Poses before the plan and after each call.
        calls: All calls of the plan, with their results and times on the robot's clock.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid", "ser_json_inf_nan": "constants"}

    objects: Annotated[tuple[WorldObject, ...], FailFast()]
    answers: dict[str, Value] = field(default_factory=dict)
    pose: Pose | None = None
    held: str | None = None
    said: Annotated[tuple[str, ...], FailFast()] = ()
    pictures: Annotated[tuple[Pose, ...], FailFast()] = ()
    waypoints: Annotated[tuple[Pose, ...], FailFast()] = ()
    calls: Annotated[tuple[ExecutedCall, ...], FailFast()] = ()

    @property
    def world(self) -> World:
        """A world of these objects that may be changed."""
        return World(self.objects, self.answers)

    def to_json(self) -> str:
        """Returns the JSON text that ``from_json`` reads."""
        return _ADAPTER.dump_json(self).decode()

    @staticmethod
    def from_json(text: str) -> "Snapshot":
        """Returns the snapshot in a JSON text.

        Raises:
            PlannerError: INVALID_WORLD, naming what is wrong with it.
        """
        try:
            return _ADAPTER.validate_json(text)
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:MAX_PROBLEMS])
            raise PlannerError(ErrorCode.INVALID_WORLD, f"world: {problems}"[:MAX_MESSAGE]) from error

    @staticmethod
    def from_order(text: str) -> "Snapshot":
        """Returns the snapshot that an instruction begins with, from any client of the robot's service.

        Raises:
            PlannerError: INVALID_WORLD as ``from_json``, or if it is larger than any world that a robot could be in.
        """
        if len(text) > MAX_CHARACTERS:
            raise PlannerError(
                ErrorCode.INVALID_WORLD, f"world: has {len(text)} characters, more than {MAX_CHARACTERS}"
            )
        snapshot = Snapshot.from_json(text)
        if problem := next(_problems(snapshot), None):
            raise PlannerError(ErrorCode.INVALID_WORLD, f"world: {problem}")
        return snapshot


def _problems(snapshot: Snapshot) -> Iterator[str]:
    """Yields what is beyond the limits, the first first."""
    objects, answers, pose = snapshot.objects, snapshot.answers, snapshot.pose
    if len(objects) > MAX_OBJECTS or len(answers) > MAX_ANSWERS:
        yield f"has {len(objects)} objects and {len(answers)} answers; the most are {MAX_OBJECTS} and {MAX_ANSWERS}"
        return
    if len({thing.name for thing in objects}) < len(objects):
        yield "two objects have one name"
    if pose is not None:
        yield from _too_large("pose", (pose.x_m, pose.y_m, pose.z_m), MAX_DISTANCE_M)
        yield from _too_large("pose.yaw_deg", (pose.yaw_deg,), MAX_DEG)
    for number, thing in enumerate(objects):
        where = f"objects.{number}"
        if "\ufffd" in thing.name or has_control_characters(thing.name):
            yield f"{where} has a name with control characters, or one that is not valid UTF-8"
        yield from _too_long(where, (thing.name, thing.kind, thing.support or "", *thing.tags[:MAX_TAGS]))
        yield from _too_large(f"{where}.position_m", thing.position_m, MAX_DISTANCE_M)
        yield from _too_large(f"{where}.size_m", thing.size_m, MAX_SIZE_M)
        yield from _too_large(f"{where}.velocity_m_per_s", thing.velocity_m_per_s, MAX_SPEED_M_PER_S)
        if len(thing.tags) > MAX_TAGS:
            yield f"{where} has {len(thing.tags)} tags; the most are {MAX_TAGS}"
        if min(thing.size_m) < 0.0 or not thing.moves_for_s >= 0.0:
            yield f"{where} has a size or a time below 0: {thing.size_m}, {thing.moves_for_s}"
    for key, value in answers.items():
        yield from _too_long("answers", (key, value if isinstance(value, str) else ""))
        yield from _too_large("answers", () if isinstance(value, str) else (value,), MAX_ANSWER)


def _too_large(where: str, numbers: tuple[float, ...], most: float) -> Iterator[str]:
    if not all(math.isfinite(number) and abs(number) <= most for number in numbers):
        yield f"{where} is {numbers}; numbers must be finite and at most {most:g}"


def _too_long(where: str, texts: tuple[str, ...]) -> Iterator[str]:
    if any(len(text) > MAX_WORD for text in texts):
        yield f"{where} has a text of more than {MAX_WORD} characters"


_ADAPTER = TypeAdapter(Snapshot)


class Log:
    """What a driver does for one plan, noted while it happens: the driver itself soon forgets where it was.

    Args:
        driver: Says and photographs for this plan from now on.
        now_s: When the plan begins.
    """

    def __init__(self, driver: RobotDriver, now_s: float) -> None:
        self._driver = driver
        self._waypoints = [driver.pose_at(now_s)]
        driver.state.said.clear()
        driver.state.pictures.clear()

    def note(self, calls: tuple[ExecutedCall, ...]) -> None:
        """Notes where the robot was at the ends of new calls; ``calls`` are all of the plan so far."""
        self._waypoints += [self._driver.pose_at(call.end_s) for call in calls[len(self._waypoints) - 1 :]]

    def snapshot(self, calls: tuple[ExecutedCall, ...]) -> Snapshot:
        """Returns what the driver did since the plan began."""
        self.note(calls)
        driver = self._driver
        return Snapshot(
            objects=tuple(driver.world.objects.values()),
            answers=dict(driver.world.answers),
            pose=driver.state.pose,
            held=driver.state.held,
            said=tuple(driver.state.said),
            pictures=tuple(driver.state.pictures),
            waypoints=tuple(self._waypoints),
            calls=calls,
        )
