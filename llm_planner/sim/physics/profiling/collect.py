# SPDX-License-Identifier: Apache-2.0
"""Trials carried out in MuJoCo, in virtual time."""

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

from llm_planner.core.skill import SkillCall
from llm_planner.robots.driver import SkillStatus
from llm_planner.robots.effect import Scan
from llm_planner.robots.model import Pose, RobotKind, RobotModel
from llm_planner.robots.motion import wrapped_deg
from llm_planner.robots.world import World
from llm_planner.sim.physics.connection import PhysicsConnection
from llm_planner.sim.physics.driver import PhysicsDriver
from llm_planner.sim.physics.frame import Home
from llm_planner.sim.physics.port import LocalPort, RobotPort
from llm_planner.sim.physics.profiling.trials import Trial
from llm_planner.sim.physics.world import PhysicsWorld

PERIOD_S = 0.01
REST_S = 0.6
LONGEST_S = 60.0
PEDESTAL_M = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """How long one call took.

    Attributes:
        length: Of the way: by the argument in metres or degrees; of an arm, from tool to tool in metres.
        moving_s: For how long an arm's joints move by its orders, if they do as told. The orders follow from where tool
            and things are, before anything moves.
        num_steps: Of a search.
    """

    skill: str
    seconds: float
    length: float | None = None
    moving_s: float | None = None
    num_steps: int | None = None


def collect(model: RobotModel, trials: Iterable[Trial], *, seed: int, wind_m_per_s: float) -> Iterator[Sample]:
    """Yields a sample for each trial that succeeded.

    Args:
        model: Of the robot, with a body.
        trials: What it shall do.
        seed: Of wind and sensors.
        wind_m_per_s: Of the mean wind.
    """
    world = PhysicsWorld(wind_m_per_s=wind_m_per_s, seed=seed)
    world.add_robot("robot", model, Home(z_m=PEDESTAL_M if model.kind is RobotKind.ARM else 0.0))
    port = _Port(world, "robot", model)
    driver = PhysicsConnection(model, port, seed).driver
    epoch_s = 0.0
    for trial in trials:
        driver.enter(World(trial.objects), trial.pose, epoch_s)
        clock = _Clock(driver)
        clock.rest()
        if all(clock.run(call) is not None for call in trial.before):
            start, port.moving_s = driver.state.pose, 0.0
            seconds = clock.run(trial.call)
            if seconds is not None:
                yield _sample(model, trial, seconds, port.moving_s, start, driver.state.pose)
        epoch_s += clock.now_s


def samples_of(
    model: RobotModel, trials: Iterable[Trial], *, num_worlds: int, seed: int, wind_m_per_s: float, num_jobs: int = 1
) -> list[Sample]:
    """Returns the samples of trials that are dealt out to several worlds, each with a wind of its own.

    Args:
        model: Of the robot, with a body.
        trials: What it shall do.
        num_worlds: How many worlds.
        seed: Of wind and sensors.
        wind_m_per_s: Of the mean wind.
        num_jobs: Processes that simulate; the samples are the same with any number of them.
    """
    shuffled = list(trials)
    random.Random(seed).shuffle(shuffled)
    dealt = [(seed * num_worlds + number, shuffled[number::num_worlds]) for number in range(num_worlds)]
    simulate = partial(_in_one_world, model, wind_m_per_s)
    if num_jobs == 1:
        return [sample for hand in dealt for sample in simulate(hand)]
    with ProcessPoolExecutor(num_jobs, mp_context=get_context("spawn")) as pool:
        return [sample for samples in pool.map(simulate, dealt) for sample in samples]


def _in_one_world(model: RobotModel, wind_m_per_s: float, hand: tuple[int, list[Trial]]) -> list[Sample]:
    seed, trials = hand
    return list(collect(model, trials, seed=seed, wind_m_per_s=wind_m_per_s))


class _Port(LocalPort):
    """Adds up for how long an arm's set point moves, by its orders."""

    moving_s = 0.0

    def move(self, joints: Sequence[float]) -> None:
        super().move(joints)
        self.moving_s += self._world.arms[self._name].motion.ramp.duration_s


class _Clock:
    def __init__(self, driver: PhysicsDriver[RobotPort]) -> None:
        self._driver = driver
        self.now_s = 0.0

    def rest(self) -> None:
        self.now_s += REST_S
        self._driver.tick(self.now_s)

    def run(self, call: SkillCall) -> float | None:
        """Returns how long a call takes, by a clock that ticks as a robot node's; None if it fails."""
        start_s = self.now_s
        self._driver.start(call, start_s)
        while (result := self._driver.tick(self.now_s)).status is SkillStatus.RUNNING:
            self.now_s += PERIOD_S
            if self.now_s - start_s > LONGEST_S:
                return None
        return self.now_s - start_s if result.status is SkillStatus.SUCCEEDED else None


def _sample(model: RobotModel, trial: Trial, seconds: float, moving_s: float, start: Pose, end: Pose) -> Sample:
    effect = model.skills[trial.skill].effect
    if isinstance(effect, Scan):
        turned_deg = (effect.direction * wrapped_deg(end.yaw_deg - start.yaw_deg)) % 360.0
        num_steps = round(turned_deg / effect.step_deg) % effect.num_steps
        return Sample(skill=trial.skill, seconds=seconds, num_steps=num_steps)
    if model.kind is RobotKind.ARM:
        way_m = math.dist((start.x_m, start.y_m, start.z_m), (end.x_m, end.y_m, end.z_m))
        return Sample(skill=trial.skill, seconds=seconds, length=way_m, moving_s=moving_s)
    return Sample(skill=trial.skill, seconds=seconds, length=trial.length)
