# SPDX-License-Identifier: Apache-2.0
"""What a robot node needs of its driver besides the execution of calls: kinematic or real, they look the same."""

from collections.abc import Collection
from typing import Protocol, runtime_checkable

from llm_planner.robots.body import BodyState
from llm_planner.robots.driver import SkillDriver
from llm_planner.robots.model import Pose, RobotModel
from llm_planner.robots.track import Track
from llm_planner.robots.world import World, WorldObject


class RobotDriver(SkillDriver, Protocol):
    """A robot in a world, by its own account. All times are on the clock of that world."""

    @property
    def model(self) -> RobotModel:
        """The robot's model."""
        ...

    @property
    def world(self) -> World:
        """What the robot knows of its surroundings."""
        ...

    @property
    def state(self) -> BodyState:
        """As of the last tick."""
        ...

    @property
    def target(self) -> Pose | None:
        """Where the present motion leads; None while it stands."""
        ...

    def in_sight(self, now_s: float) -> Collection[WorldObject]:
        """Returns what nothing hides from the robot, whichever way it looks."""
        ...

    def noticed(self, now_s: float) -> Collection[WorldObject]:
        """Returns what its sensors notice that may move: all that its reflex knows."""
        ...

    def pose_at(self, time_s: float) -> Pose:
        """Returns where the robot was at a past time."""
        ...

    def forget(self, before_s: float) -> None:
        """Drops what ``pose_at`` needs for earlier times only: it is not asked for these any more."""
        ...

    def attend(self, now_s: float) -> float:
        """Does what a robot needs that has nothing to do; returns after how many seconds to call again."""
        ...


class MapSight:
    """The sight of a driver that has a map: in it, nothing hides anything."""

    def in_sight(self: RobotDriver, _now_s: float) -> Collection[WorldObject]:
        """Returns all that there is."""
        return self.world.objects.values()

    def noticed(self: RobotDriver, _now_s: float) -> Collection[WorldObject]:
        """Returns all that there is."""
        return self.world.objects.values()


class TrackMemory:
    """The memory of a driver that notes where its robot is."""

    _track: Track

    def pose_at(self, time_s: float) -> Pose:
        """Returns where the robot was at a past time, by its own account."""
        return self._track.at(time_s)

    def forget(self, before_s: float) -> None:
        """Drops what is needed for earlier times only."""
        self._track.forget(before_s)


@runtime_checkable
class BatteryDriver(Protocol):
    """A driver of a robot that says how full its battery is; a ``RobotDriver`` may be one."""

    @property
    def battery_share(self) -> float | None:
        """What is left, 0 to 1; None while it is not known."""
        ...
