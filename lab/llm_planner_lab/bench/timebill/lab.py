# SPDX-License-Identifier: Apache-2.0
"""What all runs of the TimeBill sweep share: engine, tasks, and what was measured of them before any budget."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from llm_planner.core.interfaces import Clock
from llm_planner.core.request import OverrunStrategy, PlanRequest
from llm_planner.prediction.length import LengthDistribution, LengthPredictor
from llm_planner.prediction.profile import EngineProfile
from llm_planner.robots.library import RobotLibrary
from llm_planner.serving.awaited_length import AwaitedLength
from llm_planner.serving.plan_preparer import PlanPreparer
from llm_planner.serving.preparation import Prepared, Session
from llm_planner_lab.bench.timebill.approaches import Approach, WholeSegments
from llm_planner_lab.bench.timebill.drive import WARM_UP
from llm_planner_lab.bench.timebill.jobs import Job, Score, Workload
from llm_planner_lab.bench.timebill.replay import NOTHING, Evicted, MeasuredStep, ReplayedEngine


@dataclass(slots=True)
class Lab:
    """What all runs share: engine, tasks, and what was measured of them.

    Attributes:
        engine: Replays what it has measured.
        plans: Prepares requests for the engine, as in service: with what the task needs of the scene. What is written
            is read without the checks and the least confidence of service, which no baseline has.
        whole: The same with the whole scene, as whoever puts a scene into a prompt.
        service: Prepares requests as they are in service.
        predictor: Of response lengths.
        workload: Of which the jobs are.
        clock: Times what is not a step.
        prepare_s: By job, ``Approach.by_need`` and ``Approach.spares``, the seconds to make its prompt ready, of a task
            that was never seen among things that were. Only ours pays for finding what may be left out.
        predict_s: By job and ``Approach.by_need``, the seconds to predict its length.
        took_s: Of our decisions.
        vanilla_s: By class, the mean time from arrival to the whole plan of vanilla inference with the whole scene,
            measured in this run.
    """

    engine: ReplayedEngine
    plans: PlanPreparer
    whole: PlanPreparer
    service: PlanPreparer
    predictor: LengthPredictor
    library: RobotLibrary
    profile: EngineProfile
    jobs: list[Job]
    workload: Workload
    clock: Clock
    prepare_s: dict[tuple[str, bool, bool], float] = field(default_factory=dict)
    predict_s: dict[tuple[str, bool], float] = field(default_factory=dict)
    took_s: list[float] = field(default_factory=list)
    vanilla_s: list[float] = field(default_factory=list)
    _prepared: dict[tuple[str, bool], Prepared] = field(default_factory=dict)
    _lengths: dict[tuple[str, bool], LengthDistribution] = field(default_factory=dict)
    _can_spare: dict[str, bool] = field(default_factory=dict)
    _scores: dict[tuple[str, str | None], Score] = field(default_factory=dict)

    @property
    def max_tokens(self) -> int:
        """N_max of every request."""
        return self.workload.max_tokens

    def measure_jobs(self, on_progress: Callable[[str, float], None] = lambda _what, _share: None) -> None:
        """Measures what comes before and after the first token of every job without a budget, after a warm-up."""
        for job in {job.task.robot: job for job in self.jobs}.values():  # a first one compiles its robot's grammar
            self._measure(job, by_need=True)
        self.engine.forget()
        for number, job in enumerate(self.jobs):
            on_progress("vanilla inference", number / len(self.jobs))
            for by_need in (False, True):
                self._measure(job, by_need=by_need)
        of_class: dict[int, list[float]] = {}
        for job in self.jobs:
            steps = self.response(job, by_need=False)
            total_s = self.prepare_s[job.name, False, False] + sum(step.duration_s for step in steps)
            of_class.setdefault(job.class_index, []).append(total_s)
        self.vanilla_s = [fmean(times_s) for _, times_s in sorted(of_class.items())]

    def with_more(self, jobs: Sequence[Job]) -> "Lab":
        """Returns a lab with further jobs, of which only what the planner itself does without a budget is measured.

        The times of this lab stay those of its own jobs.
        """
        lab = replace(self, jobs=[*self.jobs, *jobs], prepare_s=dict(self.prepare_s), predict_s=dict(self.predict_s))
        for job in jobs:
            lab._measure(job, by_need=True)  # noqa: SLF001 (its own)
        return lab

    def _measure(self, job: Job, *, by_need: bool) -> None:
        request = job.request(job.name, self.max_tokens, 1.0, OverrunStrategy.KILL)
        key, preparer = (job.name, by_need), self.plans if by_need else self.whole
        prepared = self._prepared[key] = preparer.prepare(request)
        plain, ours = (_unseen(request, number + 2 * by_need) for number in (1, 2))
        self.prepare_s[*key, False] = self._timed(preparer, replace(plain, time_budget_s=None))
        self.prepare_s[*key, True] = self._timed(self.service if by_need else self.whole, ours)
        model = self.library.get(request.robot_model)
        self._can_spare[job.name] = self.service.can_spare(model, self.service.as_shown(model, request))
        began_s = self.clock.now_s()
        self._lengths[key] = self.predictor.predict(prepared.sequence.prompt_token_ids).limited_to(self.max_tokens)
        self.predict_s[key] = self.clock.now_s() - began_s
        self.engine.steps(prepared.sequence)

    def _timed(self, preparer: PlanPreparer, request: PlanRequest) -> float:
        began_s = self.clock.now_s()
        preparer.prepare(request)
        return self.clock.now_s() - began_s

    def response(self, job: Job, evicted: Evicted = NOTHING, *, by_need: bool = True) -> list[MeasuredStep]:
        """Returns the steps of a job's whole response; a plan that the gate refuses ends there."""
        steps = self.engine.steps(self._prepared[job.name, by_need].sequence, evicted)
        return _until_complete(steps, self.session(job.request(job.name, self.max_tokens, None, OverrunStrategy.KILL)))

    def served(self, job: Job, response: list[MeasuredStep]) -> list[MeasuredStep]:
        """Returns as many steps of a response as service lets go on: a plan that is not understood ends there, too.

        None of a job that service answers at once.
        """
        prepared = self.service.prepare(job.request(job.name, self.max_tokens, 1.0, OverrunStrategy.KILL))
        return [] if prepared.at_once else _until_complete(response, prepared.session)

    def session(self, request: PlanRequest) -> Session:
        """Returns a new session for a request's plan."""
        return self.plans.prepare(replace(request, scene="", instruction="-")).session  # a short prompt is quick

    def prepared(self, name: str, *, by_need: bool) -> tuple[Prepared, LengthDistribution]:
        """Returns a job as it was prepared when it was measured, and the prediction for it."""
        return self._prepared[name, by_need], self._lengths[name, by_need]

    def classes(self, ranges: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
        """Returns what is to be known of each class of prompt lengths."""
        rows = []
        for index, vanilla_s in enumerate(self.vanilla_s):
            jobs = [job for job in self.jobs if job.class_index == index]
            steps = [self.response(job, by_need=False) for job in jobs]
            rows.append(
                {
                    "prompt_tokens": list(ranges[index]),
                    "n": len(jobs),
                    "mean_prompt_tokens": fmean(job.num_prompt_tokens for job in jobs),
                    "mean_needed_tokens": fmean(
                        len(self._prepared[job.name, True].sequence.prompt_token_ids) for job in jobs
                    ),
                    "mean_response_tokens": fmean(map(len, steps)),
                    "vanilla_s": vanilla_s,
                    "prefill_s": fmean(of_job[0].duration_s for of_job in steps),
                }
            )
        return rows

    def can_spare(self, name: str) -> bool:
        """Returns whether our planner would leave out or evict some of a job's scene."""
        return self._can_spare[name]

    def score(self, job: Job, plan: str | None) -> Score:
        """Returns the score of an answer; the same answer is executed once."""
        key = (job.name, plan)
        if key not in self._scores:
            self._scores[key] = self.workload.score(job.task, plan, self.library)
        return self._scores[key]


def _unseen(request: PlanRequest, number: int) -> PlanRequest:
    """Returns the same request in a text of its own, by its number: a planner remembers tasks by their texts."""
    return replace(request, instruction=request.instruction + " " * number)


def _until_complete(steps: list[MeasuredStep], session: Session) -> list[MeasuredStep]:
    numbered = enumerate(steps, start=1)
    ends = (number for number, step in numbered if session.feed(step.token_ids, step.choices).is_complete)
    return steps[: next(ends, len(steps))]


@dataclass(frozen=True, slots=True)
class MeasuredPreparer:
    """Implements ``Preparer`` with what was prepared before; only the plan's session is new every time."""

    lab: Lab
    approach: Approach

    def prepare(self, request: PlanRequest) -> Prepared:
        """Returns the job ``request.request_id``, with what the approach has of it."""
        name = request.request_id.split(WARM_UP)[0]
        prepared, length = self.lab.prepared(name, by_need=self.approach.by_need)
        session = self.lab.session(request)
        sequence = replace(prepared.sequence, request_id=request.request_id)
        if self.approach.spares and not self.lab.can_spare(name):
            sequence = replace(sequence, droppable=(), evictable=())
        known = AwaitedLength.known(length) if self.approach.predicts else None
        if not self.approach.truncates_gracefully:
            session = WholeSegments(session)
        return replace(prepared, sequence=sequence, session=session, length=known)
