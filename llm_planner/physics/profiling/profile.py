"""Profiles a robot: tries its skills, fits its duration models, and says how good they are on other calls."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.physics.profiling.collect import Sample, samples_of
from llm_planner.physics.profiling.evaluate import Accuracy, accuracy, groups, of
from llm_planner.physics.profiling.fit import Fit, fit
from llm_planner.physics.profiling.trials import trials
from llm_planner.robots.model import RobotModel
from llm_planner.robots.timing import DurationModel, Quantiles

NUM_WORLDS = 64
"""Worlds with a wind of their own each; what is held out meets others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Skills that share a duration model.

    Attributes:
        before: Their duration model as it was.
        after: As fitted.
        held_out: Calls with other arguments, places and seeds.
        was: How good the model was on these.
        now: How good the fitted one is.
    """

    skills: tuple[str, ...]
    before: DurationModel
    after: Fit
    held_out: tuple[Sample, ...]
    was: Accuracy
    now: Accuracy

    @property
    def is_table(self) -> bool:
        """Whether its times are a distribution, of which no single call has to be near the median."""
        return isinstance(self.after, Quantiles)

    @property
    def label(self) -> str:
        """Its skills."""
        return ", ".join(self.skills)


def profile(
    model: RobotModel,
    *,
    num_seeds: int,
    seed: int,
    wind_m_per_s: float,
    on_progress: Callable[[str], None] = lambda _: None,
) -> list[Group]:
    """Returns the fitted duration models of a robot's skills.

    Args:
        model: Of the robot, with a body.
        num_seeds: How often each argument is tried, and as often one that is held out.
        seed: Of everything that is random.
        wind_m_per_s: Mean wind in the worlds.
        on_progress: Hears what is done.

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
        tried = list(trials(model, rng, num_seeds=num_seeds, held_out=held_out))
        on_progress(f"{len(tried)} calls, {'to judge by' if held_out else 'to fit to'}")
        collected.append(
            samples_of(model, tried, num_worlds=NUM_WORLDS, seed=2 * seed + number, wind_m_per_s=wind_m_per_s)
        )
    fitted, judged = collected
    found = []
    for skills in groups(model, judged):
        known, others = of(skills, fitted), of(skills, judged)
        if len(known) < num_seeds:
            continue
        after = fit(skills[0], known, model.speed_limits)
        found.append(
            Group(
                skills=tuple(skill.name for skill in skills),
                before=skills[0].duration,
                after=after,
                held_out=tuple(others),
                was=accuracy(skills[0].duration, others),
                now=accuracy(after, others),
            )
        )
    if not found:
        raise PlannerError(ErrorCode.INVALID_ROBOT_MODEL, f"no skill of {model.name} succeeded; try it by hand first")
    return found
