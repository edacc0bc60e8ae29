# SPDX-License-Identifier: Apache-2.0
"""The approaches that section 6.1 of TimeBill compares, each in the place of ``serving.budgets.Budgets``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from llm_planner.core.errors import PlannerError
from llm_planner.core.eviction import num_removable_tokens
from llm_planner.core.interfaces import BackendInfo, Clock
from llm_planner.planning.session import Progress
from llm_planner.prediction.execution_time import ProfiledTime
from llm_planner.prediction.length import LengthDistribution
from llm_planner.prediction.profile import EngineProfile
from llm_planner.scheduling.budget import PESSIMISM, Lengths, Task, alpha_star
from llm_planner.scheduling.eviction import decide_eviction
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.budgets import Budgets, KeptBudget
from llm_planner.serving.goal import Goal
from llm_planner.serving.preparation import Session

ALPHAS = (0.25, 0.5, 0.75, 0.95)
SHARES = (0.5, 0.9)
VANILLA, BY_NEED, BY_NEED_90 = "vanilla", "by_need", "by_need_90"
TIMEBILL, TIMEBILL_BY_NEED, OURS, OURS_WHOLE_SCENE = "timebill", "timebill_by_need", "ours", "ours_whole_scene"
BudgetsMaker = Callable[[Scheduler, BackendInfo], Budgets]


@dataclass(frozen=True, slots=True)
class Approach:
    """A way to keep time budgets.

    Attributes:
        name: In the results.
        budgets: Makes what keeps them.
        by_need: Whether its prompt holds what the task needs of the scene, as a planner's does, or all of it.
        spares: Whether it leaves the scenes alone of which a task may need all, as our planner does.
        predicts: Whether it needs the length of the response, and so pays for the prediction.
        k: Pessimistic factor; without meaning for approaches that do not predict.
        truncates_gracefully: Whether a plan that is closed in time is truncated gracefully (``Goal.truncate``).
    """

    name: str
    budgets: BudgetsMaker
    by_need: bool = False
    spares: bool = False
    predicts: bool = False
    k: float = PESSIMISM
    truncates_gracefully: bool = True


class WholeSegments:
    """Implements ``serving.preparation.Session``: whole segments or nothing, as it was before graceful truncation."""

    is_closable = False

    def __init__(self, session: Session) -> None:
        self._session = session
        self.feed, self.finish = session.feed, session.finish

    @property
    def is_complete(self) -> bool:
        """As it is."""
        return self._session.is_complete

    @property
    def confidence(self) -> float:
        """As it is."""
        return self._session.confidence

    def close(self) -> Progress:
        """Adds nothing."""
        return Progress(is_complete=True)


class Fixed(Budgets):
    """Does the same to every prompt, refuses no request: what anybody could configure.

    Args:
        scheduler: That serves the goals.
        info: Of the engine.
        alpha: KV ratio that is evicted: the paper's baselines, ``Vanilla`` with 0.
        share: Of the prompt that is left out before the prefill: our measure without anything that decides.
    """

    def __init__(self, scheduler: Scheduler, info: BackendInfo, alpha: float = 0.0, share: float = 0.0) -> None:
        super().__init__(scheduler, info)
        self._alpha, self._share = alpha, share

    def open(self, goal: Goal, now_s: float) -> None:
        """Shortens the prompt, and orders the eviction."""
        self.on_admitted(goal)
        if self._share:
            goal.generation.shorten(round(self._share * goal.generation.num_prompt_tokens))
        decide_eviction(goal.generation, self._alpha, self._info)

    def keep(self, now_s: float) -> list[tuple[Goal, PlannerError]]:
        """Decides nothing."""
        return []


class TimeBillAlpha(Budgets):
    """Evicts ``alpha*`` of Eq. (11), refuses no request: TimeBill as in the paper.

    The predicted length is the end of the most probable bucket (Eq. (2)), the execution times are those of the
    profile without any correction, and the request counts as alone.
    """

    def __init__(self, scheduler: Scheduler, info: BackendInfo, profile: EngineProfile, k: float) -> None:
        super().__init__(scheduler, info)
        self._time = ProfiledTime(profile)
        self._k = k
        self._new: list[Goal] = []

    def open(self, goal: Goal, now_s: float) -> None:
        """Notes a goal whose ratio is to be decided."""
        self.on_admitted(goal)
        self._new.append(goal)

    def keep(self, now_s: float) -> list[tuple[Goal, PlannerError]]:
        """Decides the ratio of new goals: the prediction has been paid for by now, so it is part of ``now_s``."""
        for goal in self._new:
            ends_s = goal.budget_ends_at_s
            if ends_s is not None and goal.length is not None:
                task = paper_task(goal, goal.length)
                alpha = alpha_star(
                    ends_s - now_s, task, self._time, k=self._k, alpha_max=self._scheduler.config.max_eviction_ratio
                )
                decide_eviction(goal.generation, alpha, self._info)
        self._new.clear()
        return []


def paper_task(goal: Goal, length: LengthDistribution) -> Task:
    """Returns what the paper knows of a new request: its prompt, and one number for the length of its response."""
    generation = goal.generation
    return Task(
        num_uncomputed_tokens=generation.num_uncomputed_tokens,
        kv_len=generation.kv_len,
        num_removable_tokens=num_removable_tokens(generation.sequence),
        lengths=Lengths(expected=length.bucket_upper_tokens),
        max_tokens=generation.max_output_tokens,
    )


class TimedBudgets(Budgets):
    """The planner's own budgets, with a stopwatch: ``took_s`` receives how long each first decision took."""

    def __init__(self, scheduler: Scheduler, info: BackendInfo, took_s: list[float], clock: Clock) -> None:
        super().__init__(scheduler, info)
        self._took_s = took_s
        self._clock = clock
        self._is_new = False

    def open(self, goal: Goal, now_s: float) -> None:
        """Looks after a goal from now on."""
        super().open(goal, now_s)
        self._is_new = True

    def keep(self, now_s: float) -> list[tuple[Goal, PlannerError]]:
        """Decides where there is something to decide."""
        began_s = self._clock.now_s()
        refused = super().keep(now_s)
        if self._is_new:
            self._took_s.append(self._clock.now_s() - began_s)
        self._is_new = False
        return refused


class WholeSceneBudgets(TimedBudgets):
    """The planner's own budgets without the measure that TimeBill does not know: what the others do alone."""

    def _task(self, kept: KeptBudget) -> Task:
        return replace(super()._task(kept), droppable_tokens=())


def fixed(alphas: Sequence[float] = ALPHAS, shares: Sequence[float] = SHARES) -> list[Approach]:
    """Returns what anybody could configure.

    Vanilla inference, fixed eviction ratios, fixed shares that are left out, the most of both; and prompts as ours are,
    with nothing that keeps a budget, whole and without all that they can spare.
    """
    evicted = [Approach(f"alpha_{round(100 * a)}", partial(Fixed, alpha=a)) for a in alphas]
    left_out = [Approach(f"scene_{round(100 * s)}", partial(Fixed, share=s)) for s in shares]
    both = [
        Approach(f"{one.name}_{alphas[-1] * 100:.0f}", partial(Fixed, alpha=alphas[-1], share=share))
        for one, share in zip(left_out, shares, strict=True)
    ]
    by_need = [
        Approach(BY_NEED, Fixed, by_need=True),
        Approach(BY_NEED_90, partial(Fixed, share=SHARES[-1]), by_need=True),
    ]
    return [Approach(VANILLA, Fixed), *evicted, *left_out, *both, *by_need]


def is_fixed(name: str) -> bool:
    """Returns whether an approach is one of ``fixed``."""
    return name in (VANILLA, BY_NEED, BY_NEED_90) or name.startswith(("alpha_", "scene_"))


def adaptive(profile: EngineProfile, took_s: list[float], clock: Clock, k: float = PESSIMISM) -> list[Approach]:
    """Returns TimeBill and ours, each with prompts by need and without; the times of decisions go into ``took_s``."""
    return [
        Approach(TIMEBILL, partial(TimeBillAlpha, profile=profile, k=k), predicts=True, k=k),
        Approach(TIMEBILL_BY_NEED, partial(TimeBillAlpha, profile=profile, k=k), by_need=True, predicts=True, k=k),
        Approach(
            OURS, partial(TimedBudgets, took_s=took_s, clock=clock), by_need=True, spares=True, predicts=True, k=k
        ),
        Approach(OURS_WHOLE_SCENE, partial(WholeSceneBudgets, took_s=[], clock=clock), spares=True, predicts=True, k=k),
    ]
