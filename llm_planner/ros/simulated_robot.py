"""A kinematic robot that lives in real time, or faster: driver, executor and clock in one hand."""

import random
from collections.abc import Callable
from dataclasses import replace

from llm_planner.core.interfaces import Clock
from llm_planner.core.pose import Pose
from llm_planner.core.segment import Segment, SegmentReport
from llm_planner.robots.executor import ExecutorState, SegmentExecutor
from llm_planner.robots.kinematics import KinematicDriver
from llm_planner.robots.model import RobotModel
from llm_planner.robots.perception import visible
from llm_planner.ros.reflex import Reflex
from llm_planner.ros.snapshot import Mark, Snapshot


class SimulatedRobot:
    """Carries out the segments of one goal at a time. Tick it often; nothing blocks.

    Its own clock starts at 0 with each world and runs ``time_scale`` times as fast as the given one. Durations in
    reports are in the time of the given clock, because that is what the planner waits for.

    Args:
        model: Of the robot.
        clock: Source of monotonic time.
        time_scale: How much faster than that the robot lives, > 0.
        rng: Source of the noise of all durations.
        report: Gets every report at once; must not block.
        reflex: What it does without asking; None for nothing.
    """

    def __init__(
        self,
        model: RobotModel,
        *,
        clock: Clock,
        time_scale: float,
        rng: random.Random,
        report: Callable[[SegmentReport], None],
        reflex: Reflex | None = None,
    ) -> None:
        self._model = model
        self._clock = clock
        self._time_scale = time_scale
        self._rng = rng
        self._report_to = report
        self._reflex = reflex
        self.enter(Snapshot(objects=()))

    @property
    def is_active(self) -> bool:
        """Whether there is a goal to carry out."""
        return self._executor.state is ExecutorState.ACTIVE

    @property
    def wants_replan(self) -> bool:
        """Whether the plan ended by asking for a new one."""
        return self._executor.wants_replan

    @property
    def view(self) -> str:
        """Names of what the robot sees, the nearest first."""
        objects = self._driver.world.objects.values()
        views = visible(self._model.camera, self._driver.state.pose, objects, self._now_s())
        return ", ".join(view.object.name for view in views)

    def enter(self, snapshot: Snapshot) -> None:
        """Puts the robot into a world."""
        self._born_at_s = self._clock.now_s()
        self._driver = KinematicDriver(self._model, snapshot.world, self._rng, pose=snapshot.pose)
        self._executor = SegmentExecutor(self._model, self._driver, self._report)
        self._mark = Mark.of(self._driver, 0.0)

    def begin(self, goal_id: str, *, is_chat: bool = False) -> None:
        """Starts a new goal; what is left of the one before is halted."""
        self._executor.begin(goal_id, self._now_s(), is_chat=is_chat)
        self._mark = Mark.of(self._driver, self._now_s())

    def add(self, segment: Segment) -> None:
        """Takes a segment and begins it if the robot is free."""
        self._executor.add(segment, self._now_s())
        self.tick()

    def complete(self, num_segments: int) -> None:
        """Notes that the plan is complete."""
        self._executor.expect(num_segments, self._now_s())
        self.tick()

    def hear(self, at_s: float) -> None:
        """Notes when the planner last showed life, in the time of the given clock."""
        self._executor.hear((at_s - self._born_at_s) * self._time_scale)

    def cancel(self, reason: str) -> None:
        """Halts at once and gives the goal up."""
        self._executor.cancel(self._now_s(), reason)

    def tick(self) -> bool:
        """Goes on with whatever is to be done now; returns True if a reflex has just ended the goal."""
        now_s = self._now_s()
        calls = self._reflex(self._driver, now_s) if self._reflex is not None else None
        if calls is not None:
            self._executor.reflex(now_s, calls, "reflex: something came too near")
        self._executor.tick(now_s)
        return calls is not None

    @property
    def pose(self) -> Pose:
        """Where it is now."""
        return self._driver.pose_at(self._now_s())

    def snapshot(self) -> Snapshot:
        """Returns the robot and its world as they are, and what it did for the present goal."""
        return self._mark.snapshot(self._driver, self._executor.calls)

    def _now_s(self) -> float:
        return (self._clock.now_s() - self._born_at_s) * self._time_scale

    def _report(self, report: SegmentReport) -> None:
        self._report_to(replace(report, duration_s=report.duration_s / self._time_scale))
