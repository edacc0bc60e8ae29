# SPDX-License-Identifier: Apache-2.0
"""Profiles a robot: tries its skills, fits its duration models, and says how good they are on other calls."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.robots.model import RobotModel, Skill
from llm_planner.robots.timing import DurationModel, Quantiles
from llm_planner.sim.physics.profiling.collect import Sample, samples_of
from llm_planner.sim.physics.profiling.evaluate import Accuracy, accuracy, of, predicted, predicted_by_argument
from llm_planner.sim.physics.profiling.fit import Fit, fit
from llm_planner.sim.physics.profiling.trials import groups, trials

NUM_WORLDS = 64
"""Worlds with a wind of their own each; what is held out meets others."""
LEAST_SHARE = 0.1
"""Of the calls that must have succeeded, or the skills keep their duration model."""
P90_VARIANCE = 0.9 * 0.1
"""Of whether one call lies within the p90. The share of later calls within the p90 of n calls varies by this / n."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Skills that share a duration model.

    Attributes:
        before: Their duration model as it was.
        after: As fitted.
        held_out: Calls with other arguments, places and seeds.
        was: How good the model was on these.
        now: How good the fitted one is.
        ahead: How good it is without knowing where things are: for the scheduler, before the call.
    """

    skills: tuple[str, ...]
    before: DurationModel
    after: Fit
    held_out: tuple[Sample, ...]
    was: Accuracy
    now: Accuracy
    ahead: Accuracy

    @property
    def is_table(self) -> bool:
        """Whether its times are a distribution, of which no single call has to be near the median."""
        return isinstance(self.after, Quantiles)

    @property
    def coverage_error(self) -> float:
        """Standard error of ``now.coverage``: that of the p90 that was fitted, and that of the calls to judge it by."""
        return math.sqrt(P90_VARIANCE / max(1, self.after.num_samples or 0) + P90_VARIANCE / self.now.num_samples)

    @property
    def label(self) -> str:
        """Its skills."""
        return ", ".join(self.skills)


def profile(
    model: RobotModel,
    *,
    num_calls: int,
    seed: int,
    wind_m_per_s: float,
    num_jobs: int = 1,
    on_progress: Callable[[str], None] = lambda _: None,
) -> list[Group]:
    """Returns the fitted duration models of a robot's skills.

    Args:
        model: Of the robot, with a body.
        num_calls: That each duration model is fitted to, and as many to judge it by; at least, those that succeed.
        seed: Of everything that is random.
        wind_m_per_s: Mean wind in the worlds.
        num_jobs: Processes that simulate.
        on_progress: Receives what is done.

    Raises:
        PlannerError: INVALID_ROBOT_MODEL if the robot has no body, or no skill succeeded.
    """
    if model.body is None:
        raise PlannerError(
            ErrorCode.INVALID_ROBOT_MODEL,
            f"robot model {model.name} has no body, so it cannot be simulated; describe one (docs/robot_models.md)",
        )
    collected = []
    for number, held_out in enumerate((False, True)):
        rng = random.Random(f"{seed}/{held_out}")
        tried = list(trials(model, rng, num_calls=num_calls, held_out=held_out))
        on_progress(f"{len(tried)} calls, {'to judge by' if held_out else 'to fit to'}")
        collected.append(
            samples_of(
                model,
                tried,
                num_worlds=NUM_WORLDS,
                seed=2 * seed + number,
                wind_m_per_s=wind_m_per_s,
                num_jobs=num_jobs,
            )
        )
    fitted, judged = collected
    names = {sample.skill for sample in judged}
    together = [(skills, of(skills, fitted), of(skills, judged)) for skills in groups(model, names)]
    found = [
        judge(skills, fit(skills[0], known, model.speed_limits), others)
        for skills, known, others in together
        if len(known) >= LEAST_SHARE * num_calls
    ]
    if not found:
        raise PlannerError(ErrorCode.INVALID_ROBOT_MODEL, f"no skill of {model.name} succeeded; try it by hand first")
    return found


def overall_coverage(found: Sequence[Group]) -> tuple[float, float]:
    """Returns the share of all held-out calls that lie within their p90, and its standard error."""
    num_samples = sum(group.now.num_samples for group in found)
    weights = [group.now.num_samples / num_samples for group in found]
    coverage = sum(weight * group.now.coverage for weight, group in zip(weights, found, strict=True))
    return coverage, math.hypot(*(w * group.coverage_error for w, group in zip(weights, found, strict=True)))


def judge(skills: list[Skill], after: Fit, held_out: list[Sample]) -> Group:
    """Returns how good a fitted duration model of some skills is, and how good theirs was, on calls not fitted to."""
    before = skills[0].duration
    by_name = {skill.name: replace(skill, duration=after) for skill in skills}
    return Group(
        skills=tuple(by_name),
        before=before,
        after=after,
        held_out=tuple(held_out),
        was=accuracy([predicted(before, sample) for sample in held_out], held_out),
        now=accuracy([predicted(after, sample) for sample in held_out], held_out),
        ahead=accuracy([predicted_by_argument(by_name[sample.skill], sample) for sample in held_out], held_out),
    )
