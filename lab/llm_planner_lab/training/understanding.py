# SPDX-License-Identifier: Apache-2.0
"""How well a model understands people: sentences of authors that it never saw, judged by execution.

A sentence is *right* if the executed plan leaves what the author's plan leaves, *wrong* if something else was executed,
and *not understood* if nothing was executed although something should have been.

What a planner makes of them at any ``min_confidence`` follows from two servings: of the first plans, all executed, and
of what a second look finds where none is sure enough.
"""

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from enum import Enum

from llm_planner.assembly import build_loop
from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanResult, Urgency
from llm_planner.demo.goal_tests import is_achieved
from llm_planner.language.parser import parse
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.model import RobotModel
from llm_planner.serving.loop import PlannerLoop
from llm_planner_lab.simulation.serving import serve_all
from llm_planner_lab.tasks.frames import Frame
from llm_planner_lab.tasks.sample import Task
from llm_planner_lab.tasks.spoken import literal
from llm_planner_lab.training.evaluate import STANDS_STILL, written

THRESHOLDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)


class Verdict(Enum):
    """What came of a sentence."""

    RIGHT = "right"
    WRONG = "wrong"
    NOT_UNDERSTOOD = "not understood"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A sentence with what a model made of it.

    Attributes:
        is_offered: Whether the plan was not executed, but is what the planner thinks most probable.
        may_stand_still: Whether nothing should be done, so that not to understand it is right.
    """

    frame: Frame
    task: Task
    plan: str
    verdict: Verdict
    reason: str
    result: PlanResult
    is_offered: bool = False
    may_stand_still: bool = False

    @property
    def confidence(self) -> float:
        """Of its least sure statement, or what a second look gives, 0 to 1."""
        return self.result.metrics.confidence or 0.0

    @property
    def is_executed(self) -> bool:
        """Whether a robot has something to do, if this is sure enough."""
        return bool(self.result.plan) or self.is_offered

    @property
    def held_back(self) -> "Answer":
        """The same, if it is not."""
        verdict = Verdict.RIGHT if self.may_stand_still else Verdict.NOT_UNDERSTOOD
        result = replace(self.result, segments=(), candidates=())
        return replace(self, plan="", verdict=verdict, result=result, is_offered=False)


@dataclass(frozen=True, slots=True)
class Understanding:
    """What a planner made of sentences.

    Attributes:
        first: First plans, whatever their confidence.
        second: What a second look found of each, executed or not; the same where none is taken.
    """

    first: Sequence[Answer]
    second: Sequence[Answer]

    def at(self, threshold: float) -> list[Answer]:
        """Returns what comes of each sentence if a plan must be as sure as that."""
        return [_at(threshold, *answers) for answers in zip(self.first, self.second, strict=True)]


def _at(threshold: float, first: Answer, second: Answer) -> Answer:
    if first.is_executed and first.confidence >= threshold:
        return first
    return second if not second.is_executed or second.confidence >= threshold else second.held_back


_HARD = re.compile(
    r"\b(not|no|don't|dont|doesn't|isn't|never|instead|wait|sorry|actually|other|others|another|except|but|before|after"
    r"|first|last|unless|until|only|rest|both|every|all|each|which|what|how|where|who|again|rather|correction|scratch)\b|\?"
)
_CALL = re.compile(r"[a-z_]+\(")


def grade(frame: Frame) -> str:
    """Returns how hard a sentence is: danger, plain, everyday or hard."""
    if frame.is_danger:
        return "danger"
    calls = len(_CALL.findall(frame.plan))
    if frame.scene or re.search(r"unclear|fail|->", frame.plan) or (_HARD.search(frame.sentence.lower()) and calls > 1):
        return "hard"
    return "plain" if calls <= 2 and "{" not in frame.plan else "everyday"


def understanding(
    config: PlannerConfig, robots: Mapping[str, RobotModel], frames: Sequence[Frame], *, seed: int = 0
) -> Understanding:
    """Returns what a planner makes of sentences at any least confidence.

    Args:
        config: Of the planner; its own least confidence does not matter.
        robots: By name.
        frames: The sentences.
        seed: Of the worlds.

    Raises:
        PlannerError: As ``ask``; what ``build_loop`` raises.
    """

    def answers(*, counts_offers: bool, **options: float) -> list[Answer]:
        with closing(build_loop(replace(config, **options), do_clients_report=False)) as loop:  # type: ignore[arg-type]
            return ask(loop, robots, frames, seed=seed, counts_offers=counts_offers)

    first = answers(counts_offers=False, min_confidence=0.0, second_look_s=0.0)
    looks_again = config.backend == "torch" and config.second_look_s > 0.0
    return Understanding(first, answers(counts_offers=True, min_confidence=1.0) if looks_again else first)


def ask(
    loop: PlannerLoop,
    robots: Mapping[str, RobotModel],
    frames: Sequence[Frame],
    *,
    seed: int = 0,
    scene_share: float = 0.5,
    counts_offers: bool = False,
) -> list[Answer]:
    """Returns what a planner makes of sentences, each with the author's own words.

    Args:
        loop: Without reports of robots.
        robots: By name.
        frames: The sentences.
        seed: Of the worlds.
        scene_share: Share of the sentences that come with a scene, where the author gave none.
        counts_offers: Whether to judge what can be confirmed as if it had been executed.

    Raises:
        PlannerError: UNTRAINED_ROBOT_MODEL if the model plans for none of these robots.
    """
    rng = random.Random(seed)
    tasks = [literal(rng, frame, has_scene=rng.random() < scene_share) for frame in frames]
    requests = [
        task.request(str(index), Urgency.URGENT if frame.is_danger else Urgency.NORMAL)
        for index, (frame, task) in enumerate(zip(frames, tasks, strict=True))
    ]
    results = serve_all(loop, requests)
    for result in results:
        if result.error_code is ErrorCode.UNTRAINED_ROBOT_MODEL:
            raise PlannerError(result.error_code, result.error_msg)
    return [
        _judge(*case, robots, is_offered=counts_offers and bool(case[-1].candidates))
        for case in zip(frames, tasks, results, strict=True)
    ]


def mistake(robots: Mapping[str, RobotModel], frames: Iterable[Frame]) -> str:
    """Returns what is wrong with the first plan of an author that is none; empty if all are plans.

    No planner could be right there. Whether a plan keeps the robot's limits is not asked.
    """
    for frame in frames:
        task = literal(random.Random(0), frame, has_scene=True)
        gate = SafetyGate(robots[frame.robot])
        try:
            for statement in parse(task.plan):
                gate.admit(statement)
        except PlannerError as error:
            if error.code in (ErrorCode.PLAN_SYNTAX, ErrorCode.UNKNOWN_SKILL, ErrorCode.INVALID_ARGUMENT):
                return f"the plan of {frame.sentence!r} ({task.plan!r}) is none: {error.message}"
    return ""


def _judge(
    frame: Frame, task: Task, result: PlanResult, robots: Mapping[str, RobotModel], *, is_offered: bool
) -> Answer:
    plan = result.candidates[0] if is_offered else written(result)
    try:
        is_right, reason = is_achieved(task, plan, robots[task.robot])
    except PlannerError as error:  # a plan that was refused in its midst
        is_right, reason = False, error.message
    if is_right and result.error_code in STANDS_STILL | {ErrorCode.NONE}:
        verdict = Verdict.RIGHT
    elif not (result.plan or is_offered):
        verdict = Verdict.NOT_UNDERSTOOD
    else:
        verdict = Verdict.WRONG
    try:
        may_stand_still, _ = is_achieved(task, "fail('not understood');", robots[task.robot])
    except PlannerError:  # the author's own plan leads out of the robot's space
        may_stand_still = False
    return Answer(
        frame=frame,
        task=task,
        plan=plan,
        verdict=verdict,
        reason=reason or result.error_msg,
        result=result,
        is_offered=is_offered,
        may_stand_still=may_stand_still,
    )


def shares(answers: Sequence[Answer]) -> dict[str, dict[str, float]]:
    """Returns by grade: the number of sentences and the share of each verdict."""
    table: dict[str, dict[str, float]] = {}
    for name in ("plain", "everyday", "hard", "danger", "all"):
        group = [answer for answer in answers if name in ("all", grade(answer.frame))]
        counts = Counter(answer.verdict for answer in group)
        table[name] = {"n": len(group)} | {v.value: counts[v] / max(1, len(group)) for v in Verdict}
    return table


@dataclass(frozen=True, slots=True)
class Begun:
    """Shares of the sentences that were begun, and then stopped where the plan was not understood, or refused.

    Attributes:
        share: Of all sentences.
        as_meant: The same, of those of which nothing was done that is not the beginning of the author's plan, too.
    """

    share: float
    as_meant: float


def begun(answers: Sequence[Answer]) -> Begun:
    """Returns which sentences were begun and then stopped.

    Only with a scheduling policy that streams: any other has the whole plan judged before.
    """
    stopped = [a for a in answers if a.verdict is Verdict.WRONG and a.result.error_code is not ErrorCode.NONE]
    as_meant = [a for a in stopped if a.task.plan.startswith(a.result.plan)]
    return Begun(len(stopped) / max(1, len(answers)), len(as_meant) / max(1, len(answers)))


def risk_coverage(understood: Understanding, thresholds: Sequence[float] = THRESHOLDS) -> list[dict[str, float]]:
    """Returns, for each least confidence, what share of all sentences would be executed, and how it would end.

    Returns:
        Rows with ``threshold``, ``coverage`` (executed, of all), ``right`` (of all), ``wrong`` (of all) and ``risk``
        (wrong, of the executed). A plan that says why it cannot moves nothing, counts as covered if it is right, and as
        not executed otherwise. Below its least confidence a sentence is right if nothing should be done.
    """
    rows = []
    for threshold in thresholds:
        answers = understood.at(threshold)
        counts = Counter(answer.verdict for answer in answers)
        num_executed = counts[Verdict.RIGHT] + counts[Verdict.WRONG]
        rows.append(
            {
                "threshold": threshold,
                "coverage": num_executed / max(1, len(answers)),
                "right": counts[Verdict.RIGHT] / max(1, len(answers)),
                "wrong": counts[Verdict.WRONG] / max(1, len(answers)),
                "risk": counts[Verdict.WRONG] / max(1, num_executed),
            }
        )
    return rows
