"""A robot and its world as JSON: what an instruction begins with, and what a goal test judges afterwards."""

from dataclasses import dataclass, field
from typing import ClassVar

from pydantic import TypeAdapter, ValidationError

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.skill import Value
from llm_planner.robots.interpreter import ExecutedCall
from llm_planner.robots.model import Pose
from llm_planner.robots.robot_driver import RobotDriver
from llm_planner.robots.world import World, WorldObject


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

    objects: tuple[WorldObject, ...]
    answers: dict[str, Value] = field(default_factory=dict)
    pose: Pose | None = None
    held: str | None = None
    said: tuple[str, ...] = ()
    pictures: tuple[Pose, ...] = ()
    waypoints: tuple[Pose, ...] = ()
    calls: tuple[ExecutedCall, ...] = ()

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
            PlannerError: INVALID_CONFIG, naming what is wrong with it.
        """
        try:
            return _ADAPTER.validate_json(text)
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise PlannerError(ErrorCode.INVALID_CONFIG, f"world: {problems}") from error


_ADAPTER = TypeAdapter(Snapshot)


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a driver stood when a plan began."""

    start_s: float
    num_said: int
    num_pictures: int

    @staticmethod
    def of(driver: RobotDriver, now_s: float) -> "Mark":
        """Returns the mark for a plan that begins now."""
        return Mark(now_s, len(driver.state.said), len(driver.state.pictures))

    def snapshot(self, driver: RobotDriver, calls: tuple[ExecutedCall, ...]) -> Snapshot:
        """Returns what a driver did since the mark."""
        return Snapshot(
            objects=tuple(driver.world.objects.values()),
            answers=dict(driver.world.answers),
            pose=driver.state.pose,
            held=driver.state.held,
            said=tuple(driver.state.said[self.num_said :]),
            pictures=tuple(driver.state.pictures[self.num_pictures :]),
            waypoints=(driver.pose_at(self.start_s), *(driver.pose_at(call.end_s) for call in calls)),
            calls=calls,
        )
