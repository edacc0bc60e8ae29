# SPDX-License-Identifier: Apache-2.0
"""Plans that fail on the way: gone on with behind what the model had written, or asked for again."""

import itertools
import random
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llm_planner.assembly import build_library, build_loop
from llm_planner.core.clock import ProcessorClock
from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode
from llm_planner.core.interfaces import Backend
from llm_planner.core.request import PlanRequest
from llm_planner.demo.goal_tests import judge
from llm_planner.demo.outcome import Executed, distinct
from llm_planner.robots.driver import SkillStatus
from llm_planner.robots.interpreter import ExecutedCall, Outcome
from llm_planner.robots.library import RobotLibrary
from llm_planner.serving.loop import PlannerLoop
from llm_planner.sim.kinematics import KinematicDriver
from llm_planner_lab.bench.replanning.field import Attempt, CountingBackend, Field
from llm_planner_lab.bench.replanning.injected_faults import KINDS, InjectedFault
from llm_planner_lab.tasks.sample import Difficulty, Task, sample
from llm_planner_lab.tasks.worlds import build_world

DIFFICULTY = Difficulty(max_objects=10)
WAYS = ("again", "fresh", "keep")
"""The robot asks for a new plan; its plan goes on, of which the model sees what is done; or all that it wrote."""
NUM_KV_BLOCKS = 2048
"""Of each planner, unless the configuration says how many: there is one robot."""
MAX_DRAWS = 40  # per task that is wanted: some do not fit the injected fault, some the model gets wrong anyway


@dataclass(slots=True, kw_only=True)
class Score:
    """How one way of going on does in one family.

    Attributes:
        num_achieved: The goal test was passed in the end, whatever failed on the way.
        num_tokens: Per failure that was answered, tokens computed until the next segment came.
        seconds: Per failure that was answered, time until then; the robot stands.
    """

    num_tasks: int = 0
    num_achieved: int = 0
    num_tokens: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, attempts: Sequence[Attempt], *, is_achieved: bool) -> None:
        """Counts one task."""
        self.num_tasks += 1
        self.num_achieved += is_achieved
        for attempt in attempts:
            for index, went_on_at_s in enumerate(attempt.went_on_at_s):
                if went_on_at_s is not None:
                    self.seconds.append(went_on_at_s - attempt.failed_at_s[index])
                    self.num_tokens.append(attempt.num_tokens_on[index] - attempt.num_tokens_then[index])

    def row(self) -> dict[str, Any]:
        """Returns its figures."""
        return {
            "num_tasks": self.num_tasks,
            "num_achieved": self.num_achieved,
            "num_failures_answered": len(self.seconds),
            "mean_tokens": round(statistics.fmean(self.num_tokens)) if self.num_tokens else None,
            "median_ms": round(1e3 * statistics.median(self.seconds)) if self.seconds else None,
        }


class Bench:
    """Planners with one configuration: two whose plans go on, and one that is asked again.

    Args:
        config: Of the planner; ``max_replans`` bounds the tries of both.
    """

    def __init__(self, config: PlannerConfig) -> None:
        engine = replace(config.engine, num_kv_blocks=config.engine.num_kv_blocks or NUM_KV_BLOCKS)
        self._config = config = replace(config, engine=engine)
        self._library: RobotLibrary = build_library(config)
        self._planners = {
            "again": self._build(replace(config, max_replans=0)),
            "fresh": self._build(replace(config, replan_context="fresh")),
            "keep": self._build(replace(config, replan_context="keep")),
        }
        self._ids = itertools.count()

    def _build(self, config: PlannerConfig) -> tuple[PlannerLoop, CountingBackend]:
        backends: list[CountingBackend] = []

        def count(backend: Backend) -> Backend:
            backends.append(CountingBackend(backend, ProcessorClock()))
            return backends[-1]

        loop = build_loop(config, watch=count)
        return loop, backends[0]

    def run(self, num_tasks: int, seed: int) -> Iterator[tuple[str, str, dict[str, Score]]]:
        """Yields kind, family, and the scores of each of ``WAYS``."""
        for kind, (_, families) in KINDS.items():
            for family in families:
                scores = {way: Score() for way in WAYS}
                for fault in self._draw(kind, family, num_tasks, random.Random(f"{seed}/{kind}/{family}")):
                    for way, score in scores.items():
                        attempts, is_achieved = self._carry_out(fault, way)
                        score.add(attempts, is_achieved=is_achieved)
                yield kind, family, scores

    def _draw(self, kind: str, family: str, num_tasks: int, rng: random.Random) -> Iterator[InjectedFault]:
        """Yields tasks that the model solves where nothing goes wrong, with what goes wrong."""
        make, num_found = KINDS[kind][0], 0
        for _ in range(MAX_DRAWS * num_tasks):
            if num_found == num_tasks:
                return
            task = sample(rng, DIFFICULTY, held_out=True, family=family)
            model = self._library.get(task.robot)
            driver = KinematicDriver(model, build_world(task), random.Random(0))
            field_ = Field(*self._planners["again"], driver)
            attempt = field_.carry_out(self._request(task))
            if not self._is_achieved(task, driver, field_.calls, attempt):
                continue
            fault = make(task, "" if attempt.result is None else attempt.result.plan, model, rng)
            if fault is not None:
                num_found += 1
                yield fault

    def _carry_out(self, fault: InjectedFault, way: str) -> tuple[list[Attempt], bool]:
        """Returns what happened, and whether the task was achieved in the end."""
        task, driver = fault.task, fault.make_driver()
        field_ = Field(*self._planners[way], driver)
        attempts = [field_.carry_out(self._request(task))]
        calls = list(field_.calls)
        while way == "again" and _has_failed(attempts[-1]) and len(attempts) <= self._config.max_replans:
            seen = field_.look()
            again = replace(self._request(task), scene=seen.scene, start_pose=seen.pose)
            since = attempts[-1].failed_at_s[-1], attempts[-1].num_tokens_then[-1]
            attempts.append(field_.carry_out(again, since))
            calls += field_.calls
        field_.come_to_rest()
        return attempts, self._is_achieved(task, driver, calls, attempts[-1])

    def _request(self, task: Task) -> PlanRequest:
        name = f"{next(self._ids):032x}"
        return PlanRequest(
            request_id=name, robot_id="robot", robot_model=task.robot, instruction=task.instruction, scene=task.scene
        )

    def _is_achieved(
        self, task: Task, driver: KinematicDriver, calls: Sequence[ExecutedCall], attempt: Attempt
    ) -> bool:
        """Judges by the world; a call that failed is no step of the way."""
        is_success = attempt.result is not None and attempt.result.error_code is ErrorCode.NONE
        done = [call for call in calls if call.result.status is SkillStatus.SUCCEEDED]
        duration_s = calls[-1].end_s if calls else 0.0
        executed = Executed(
            outcome=Outcome(
                is_success=is_success,
                reason="" if attempt.result is None else attempt.result.error_msg,
                value=None,
                calls=tuple(done),
                duration_s=duration_s,
                wants_replan=False,
            ),
            world=driver.world,
            start=build_world(task),
            pose=driver.state.pose,
            held=driver.state.held,
            said=tuple(driver.state.said),
            pictures=tuple(driver.state.pictures),
            waypoints=distinct([driver.pose_at(0.0), *(driver.pose_at(call.end_s) for call in done)]),
        )
        return judge(task, executed, self._library.get(task.robot))[0]

    def close(self) -> None:
        """Frees the planners."""
        for loop, _ in self._planners.values():
            loop.close()


def _has_failed(attempt: Attempt) -> bool:
    return attempt.result is not None and attempt.result.error_code is ErrorCode.SKILL_FAILED


def total(scores: Iterable[Score]) -> Score:
    """Returns the scores of several families together."""
    whole = Score()
    for score in scores:
        whole.num_tasks += score.num_tasks
        whole.num_achieved += score.num_achieved
        whole.num_tokens += score.num_tokens
        whole.seconds += score.seconds
    return whole
