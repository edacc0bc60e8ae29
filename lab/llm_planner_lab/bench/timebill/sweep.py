# SPDX-License-Identifier: Apache-2.0
"""The sweep of TimeBill's evaluation: budgets, approaches, overrun strategies and k, on measured steps (Figs. 7, 8)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from llm_planner.core.config import PlannerConfig, SchedulerConfig
from llm_planner.core.errors import ErrorCode
from llm_planner.core.interfaces import Backend
from llm_planner.core.request import OverrunStrategy
from llm_planner.serving.admission import Admission
from llm_planner_lab.bench.intervals import mean_and_ci95
from llm_planner_lab.bench.timebill.approaches import OURS, Approach, adaptive, fixed, is_fixed
from llm_planner_lab.bench.timebill.drive import Answer, Arrival, Driver, make_driver, periodic
from llm_planner_lab.bench.timebill.jobs import Job
from llm_planner_lab.bench.timebill.lab import Lab, MeasuredPreparer

FRACTIONS = (0.2, 0.35, 0.5, 0.7, 0.9, 1.2)
K_VALUES = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
K_FRACTION = 0.9
CONCURRENT_FRACTIONS = (0.8, 1.0)
ONE_STEP_TOKENS = 8192
"""A prompt is computed in one step: replays know no other way."""
ALONE = SchedulerConfig(
    policy="fcfs_segment", max_num_seqs=1, max_num_batched_tokens=ONE_STEP_TOKENS, network_latency_s=0.0
)
Progress = Callable[[str, float], None]
_BY_TIME = (ErrorCode.NONE, ErrorCode.PLAN_PARTIAL, ErrorCode.BUDGET_INFEASIBLE, ErrorCode.BUDGET_EXCEEDED)
_TIMELY_CODES = (*(code.name for code in _BY_TIME), "skipped")
"""Of answers, and of those that time prevented; with any other code the model wrote no plan, however long it had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One point of a sweep; the page documents its fields (``bench.timebill.page``)."""

    budget_fraction: float
    strategy: str
    approach: str
    k: float
    score: float | None
    score_ci95: float | None
    same_numbers: float | None
    completion_rate: float | None
    completion_ci95: float | None
    in_time_rate: float
    in_time_of_admitted: float | None
    partial: int
    refused: int
    skipped: int
    no_plan: int
    n: int
    eviction_ratio: float
    omitted_ratio: float


@dataclass(frozen=True, slots=True)
class Cell:
    """A row, and what is behind it, in the order of the jobs: two approaches are compared job by job."""

    row: Row
    successes: tuple[float, ...]
    answers: tuple[Answer, ...]


def run_cell(lab: Lab, approach: Approach, strategy: OverrunStrategy, fraction: float) -> Cell:
    """Returns one point of the sweep: a robot that asks for one plan after another, each with its budget."""
    jobs = lab.jobs
    budgets_s = {job.name: fraction * lab.vanilla_s[job.class_index] for job in jobs}
    requests = [(job.request(job.name, lab.max_tokens, budgets_s[job.name], strategy), job) for job in jobs]
    driver = _driver(lab, lab.engine, approach, ALONE)
    prepared = ((request, _prepare_s(lab, job, approach)) for request, job in requests)
    answers = driver.run(periodic(prepared, driver.now_s))
    return judge(lab, jobs, answers, budgets_s, Point(fraction, strategy, approach))


@dataclass(frozen=True, slots=True)
class Point:
    """What one cell is about."""

    fraction: float
    strategy: OverrunStrategy
    approach: Approach


def judge(
    lab: Lab, jobs: Sequence[Job], answers: Mapping[str, Answer], budgets_s: Mapping[str, float], point: Point
) -> Cell:
    """Returns what became of jobs: an answer that does not count (refused, skipped, killed) is an empty one.

    A plan that was closed in time counts under PARTIAL alone: the rivals' plans are killed, not closed.
    """
    closed_counts = point.strategy is OverrunStrategy.PARTIAL
    answered = (ErrorCode.NONE, ErrorCode.PLAN_PARTIAL) if closed_counts else (ErrorCode.NONE,)
    scores, codes, complete, in_time, ratios, omitted = [], [], [], [], [], []
    for job in jobs:
        answer = answers[job.name]
        result, is_skipped = answer.result, answer.is_skipped
        codes.append("skipped" if is_skipped else result.error_code.name)
        has_answer = result.error_code in answered
        scores.append(lab.score(job, result.plan if has_answer else None))
        complete.append(float(result.error_code is ErrorCode.NONE))
        in_time.append(has_answer and answer.ended_s - answer.arrival_s <= budgets_s[job.name])
        if num_left := result.metrics.num_prompt_tokens:  # none of what was skipped, refused or killed
            ratios.append(result.metrics.eviction_ratio)
            omitted.append(1.0 - num_left / job.num_prompt_tokens)
    refused, num_in_time = codes.count(ErrorCode.BUDGET_INFEASIBLE.name), sum(in_time)
    successes = tuple(score.success for score in scores)
    mean, ci95 = mean_and_ci95(successes)
    completion, completion_ci95 = mean_and_ci95(complete)
    row = Row(
        budget_fraction=point.fraction,
        strategy=point.strategy.name.lower(),
        approach=point.approach.name,
        k=point.approach.k,
        score=mean,
        score_ci95=ci95,
        same_numbers=mean_and_ci95([s.same_numbers for s in scores if s.same_numbers is not None])[0],
        completion_rate=completion,
        completion_ci95=completion_ci95,
        in_time_rate=num_in_time / len(jobs),
        in_time_of_admitted=num_in_time / (len(jobs) - refused) if refused < len(jobs) else None,
        partial=codes.count(ErrorCode.PLAN_PARTIAL.name),
        refused=refused,
        skipped=codes.count("skipped"),
        no_plan=sum(code not in _TIMELY_CODES for code in codes),
        n=len(jobs),
        eviction_ratio=mean_and_ci95(ratios)[0] or 0.0,
        omitted_ratio=mean_and_ci95(omitted)[0] or 0.0,
    )
    return Cell(row, successes, tuple(answers[job.name] for job in jobs))


def run_sweep(lab: Lab, fractions: Sequence[float], on_progress: Progress) -> list[Cell]:
    """Returns every point of the sweep (Fig. 7)."""
    approaches = [*fixed(), *adaptive(lab.profile, lab.took_s, lab.clock)]
    points = [(f, s, a) for f in fractions for s in OverrunStrategy for a in approaches]
    cells: list[Cell] = []
    for number, (fraction, strategy, approach) in enumerate(points):
        on_progress(f"budget {fraction:g}, {strategy.name}, {approach.name}", number / len(points))
        cells.append(run_cell(lab, approach, strategy, fraction))
    return cells


def sweep_figures(cells: Sequence[Cell]) -> dict[str, Any]:
    """Returns ``sweep`` and ``against_best_fixed``: ours less the best fixed approach, job by job."""
    return {"sweep": [asdict(cell.row) for cell in cells], "against_best_fixed": against_best(cells, OURS, is_fixed)}


def against_best(cells: Sequence[Cell], name: str, is_rival: Callable[[str], bool]) -> list[dict[str, Any]]:
    """Returns, for each budget and strategy, an approach less the best of its rivals at that point, job by job."""
    points = dict.fromkeys((cell.row.budget_fraction, cell.row.strategy) for cell in cells)
    return [
        _against_best([c for c in cells if (c.row.budget_fraction, c.row.strategy) == point], name, is_rival)
        for point in points
    ]


def _against_best(cells: Sequence[Cell], name: str, is_rival: Callable[[str], bool]) -> dict[str, Any]:
    own = next(cell for cell in cells if cell.row.approach == name)
    best = max((c for c in cells if is_rival(c.row.approach)), key=lambda cell: cell.row.score or 0.0)
    differences = [one - two for one, two in zip(own.successes, best.successes, strict=True)]
    mean, ci95 = mean_and_ci95(differences)
    return {
        "budget_fraction": own.row.budget_fraction,
        "strategy": own.row.strategy,
        "best": best.row.approach,
        "difference": mean,
        "ci95": ci95,
        "num_differing": len(differences) - differences.count(0.0),
    }


def run_k_sweep(lab: Lab, fraction: float, values: Sequence[float], on_progress: Progress) -> list[dict[str, Any]]:
    """Returns ``k_sweep``: pessimistic factors under KILL at one budget (Fig. 8)."""
    rows = []
    for number, k in enumerate(values):
        on_progress(f"k = {k:g}", number / len(values))
        approaches = adaptive(lab.profile, lab.took_s, lab.clock, k)
        rows += [asdict(run_cell(lab, approach, OverrunStrategy.KILL, fraction).row) for approach in approaches]
    return rows


def run_concurrent(
    lab: Lab, jobs: Sequence[Job], num_robots: int, fractions: Sequence[float], on_progress: Progress
) -> list[dict[str, Any]]:
    """Returns the same under load, every step on the engine itself: ``num_robots`` robots ask at the same moment.

    Budgets are fractions of what vanilla inference takes under this load. The next wave comes when the last is over.
    """
    approaches = [*fixed((0.5, 0.95), ()), *adaptive(lab.profile, [], lab.clock)]
    points = [(f, a) for f in fractions for a in approaches]
    vanilla_s = _loaded_times(lab, jobs, num_robots)
    rows = []
    for number, (fraction, approach) in enumerate(points):
        on_progress(f"{num_robots} robots, budget {fraction:g}, {approach.name}", number / len(points))
        budgets_s = {job.name: fraction * vanilla_s for job in jobs}
        answers = _run_waves(lab, jobs, num_robots, approach, budgets_s)
        cell = judge(lab, jobs, answers, budgets_s, Point(fraction, OverrunStrategy.KILL, approach))
        rows.append({"num_robots": num_robots, "vanilla_s": vanilla_s, **asdict(cell.row)})
    return rows


def _loaded_times(lab: Lab, jobs: Sequence[Job], num_robots: int) -> float:
    """Returns the mean time of vanilla inference under load."""
    answers = _run_waves(lab, jobs, num_robots, fixed((), ())[0], {job.name: 3600.0 for job in jobs})
    return sum(answer.ended_s - answer.arrival_s for answer in answers.values()) / len(answers)


def _run_waves(
    lab: Lab, jobs: Sequence[Job], num_robots: int, approach: Approach, budgets_s: Mapping[str, float]
) -> Mapping[str, Answer]:
    driver = _driver(lab, lab.engine.engine, approach, replace(ALONE, max_num_seqs=num_robots))
    for start in range(0, len(jobs), num_robots):
        arrivals = []
        for job in jobs[start : start + num_robots]:
            request = job.request(job.name, lab.max_tokens, budgets_s[job.name], OverrunStrategy.KILL)
            arrivals.append(Arrival(replace(request, robot_id=job.name), driver.now_s, _prepare_s(lab, job, approach)))
        driver.run(arrivals)
    return driver.answers


def _driver(lab: Lab, backend: Backend, approach: Approach, scheduler: SchedulerConfig) -> Driver:
    """Returns a driver that has served two requests without a budget."""
    admission = Admission(PlannerConfig(), lab.library.names())
    preparer = MeasuredPreparer(lab, approach)
    driver = make_driver(backend, preparer, approach, lab.profile, admission, replace(scheduler, pessimism=approach.k))
    driver.warm_up(lab.jobs[0].request(lab.jobs[0].name, lab.max_tokens, None, OverrunStrategy.KILL))
    return driver


def _prepare_s(lab: Lab, job: Job, approach: Approach) -> float:
    predict_s = lab.predict_s[job.name, approach.by_need] if approach.predicts else 0.0
    return lab.prepare_s[job.name, approach.by_need, approach.spares] + predict_s
