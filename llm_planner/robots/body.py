# SPDX-License-Identifier: Apache-2.0
"""What kinematic bodies have in common: state, one call's course, and the skills that move nothing."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from llm_planner.core.skill import ArgumentType, Value
from llm_planner.robots.driver import PermanentFailureError
from llm_planner.robots.duration import sample_s
from llm_planner.robots.effect import Ask, Delay, NoEffect, Perceive, Replan, Say, Stop, TakePicture
from llm_planner.robots.model import Pose, RobotModel, Skill
from llm_planner.robots.motion import Motion
from llm_planner.robots.perception import measure, seen, visible
from llm_planner.robots.world import World


@dataclass(slots=True)
class BodyState:
    """A robot in its world.

    Attributes:
        pose: Of the body, or of an arm's tool.
        held: Name of the object in the gripper.
        said: Texts that the operator was told, in order.
        pictures: Pose at each picture.
    """

    pose: Pose
    held: str | None = None
    said: list[str] = field(default_factory=list)
    pictures: list[Pose] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Job:
    """One call with evaluated, checked arguments."""

    skill: Skill
    arguments: tuple[Value, ...]
    start_s: float

    @property
    def number(self) -> float:
        """The number argument; 0 without one."""
        return next((float(v) for v in self.arguments if not isinstance(v, str)), 0.0)

    @property
    def names(self) -> tuple[str, ...]:
        """The name and text arguments in order."""
        pairs = zip(self.skill.arguments, self.arguments, strict=True)
        return tuple(str(v) for a, v in pairs if a.type is not ArgumentType.NUMBER)


@dataclass(frozen=True, slots=True)
class Course:
    """How a call will go, unless it is halted.

    Attributes:
        end_s: When it is over.
        motions: In order of time; the pose holds in between.
        finish: Changes the world at the end and returns the value; may raise ``SkillFailedError``.
    """

    end_s: float
    motions: tuple[Motion, ...] = ()
    finish: Callable[[], Value | None] = lambda: None


class Body:
    """Plans the course of calls by the effect of their skill. Subclasses add the effects that move.

    Args:
        model: Of the robot.
        world: Shared with the judge of the outcome.
        rng: Source of all noise.
        pose: Where to start; the model's start pose by default.
    """

    def __init__(self, model: RobotModel, world: World, rng: random.Random, pose: Pose | None = None) -> None:
        self.model = model
        self.world = world
        self.state = BodyState(pose or model.start)
        self._rng = rng

    def plan(self, job: Job) -> Course:
        """Returns the course of a call that starts now.

        Raises:
            SkillFailedError: If it cannot be carried out.
        """
        effect = job.skill.effect
        course = self._courses().get(type(effect))
        if course is None:
            raise PermanentFailureError(f"a robot of kind {self.model.kind.value} cannot {effect.kind}")
        return course(effect, job)

    def carry(self) -> None:
        """Moves along what the robot holds; called whenever the pose has changed."""

    def _courses(self) -> dict[type, Callable[[Any, Job], Course]]:
        """Returns what plans a call, by the class of its effect."""
        return {
            **dict.fromkeys((Stop, NoEffect, Delay, Replan), lambda _, job: self._still(job)),
            Say: self._say,
            TakePicture: self._take_picture,
            Ask: self._ask,
            Perceive: self._perceive,
        }

    def _say(self, _: Say, job: Job) -> Course:
        return self._still(job, lambda _: self.state.said.append(job.names[0]))

    def _take_picture(self, _: TakePicture, job: Job) -> Course:
        return self._still(job, lambda _: self.state.pictures.append(self.state.pose))

    def _ask(self, _: Ask, job: Job) -> Course:
        def answer(now_s: float) -> Value:
            known = self.world.answer(job.names[0])
            return known if known is not None else ", ".join(self._names_in_view(now_s)) or "nothing"

        return self._still(job, answer)

    def _names_in_view(self, now_s: float) -> list[str]:
        things = self.world.objects.values()
        return [v.object.name for v in visible(self.model.camera, self.state.pose, things, now_s)]

    def _perceive(self, effect: Perceive, job: Job) -> Course:
        camera = self.model.camera

        def look(now_s: float) -> Value:
            if effect.quantity == "visible":
                return bool(visible(camera, self.state.pose, self.world.find(job.names[0]), now_s))
            sight = seen(camera, self.state.pose, self.world, job.names[0], now_s)
            return measure(effect.quantity, effect.unit_m, camera, sight)

        return self._still(job, look)

    def _still(self, job: Job, finish: Callable[[float], Value | None] = lambda _: None) -> Course:
        end_s = job.start_s + sample_s(job.skill, job.number, self._rng)
        return Course(end_s, finish=lambda: finish(end_s))
