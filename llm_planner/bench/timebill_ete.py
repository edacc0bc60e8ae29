"""How good the execution-time estimator is, and how quick the budget solver (TimeBill, section 6.3)."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.execution_time import ExecutionTime
from llm_planner.core.interfaces import Clock
from llm_planner.core.request import BudgetScope, PlanMetrics, PlanRequest
from llm_planner.prediction.fit import held_out_accuracy
from llm_planner.prediction.samples import StepKind, StepSample
from llm_planner.scheduling.budget import Lengths, Task
from llm_planner.scheduling.levers import BudgetSolver, Load
from llm_planner.serving.events import Finished
from llm_planner.serving.loop import PlannerLoop

LARGE_BUDGET_S = 3600.0
"""A budget that pulls no lever, so that the worst case of the plain request is noted."""


@dataclass(frozen=True, slots=True)
class EndToEnd:
    """One request that had the engine to itself; seconds from its arrival to its last segment."""

    predicted_s: float
    wcet_s: float
    measured_s: float


def ete_accuracy(samples: Sequence[StepSample]) -> dict[str, Any]:
    """Returns the MAPE of prompts and decode steps on held-out lengths, and the noise floor of each; fractions."""
    accuracy = held_out_accuracy(samples)
    prefill, decode = accuracy[StepKind.PREFILL], accuracy[StepKind.DECODE]
    return {
        "prefill_mape": prefill.mape,
        "decode_mape": decode.mape,
        "noise_floor": {"prefill": prefill.noise_floor, "decode": decode.noise_floor},
    }


def measure_end_to_end(loop: PlannerLoop, requests: Iterable[PlanRequest], clock: Clock) -> list[EndToEnd]:
    """Returns what was predicted and measured for requests that are planned one after the other.

    A request without a complete plan, or planned before the engine's speed was known, is left out.

    Args:
        loop: Ready to plan, with clients that do not report.
        requests: Their budgets are replaced by one that is easily kept.
        clock: Tells the time.
    """
    measured: list[EndToEnd] = []
    for request in requests:
        metrics = _plan(loop, request, clock)
        if metrics is not None and None not in (metrics.predicted_time_s, metrics.wcet_s, metrics.plan_time_s):
            times = (metrics.predicted_time_s or 0.0, metrics.wcet_s or 0.0, metrics.plan_time_s or 0.0)
            measured.append(EndToEnd(*times))
    return measured


def _plan(loop: PlannerLoop, request: PlanRequest, clock: Clock) -> PlanMetrics | None:
    budgeted = replace(request, time_budget_s=LARGE_BUDGET_S, budget_scope=BudgetScope.WHOLE_PLAN)
    events = loop.submit(budgeted, clock.now_s())
    while not (ended := [event for event in events if isinstance(event, Finished)]):
        events = loop.step(clock.now_s())
    result = ended[0].result
    return result.metrics if result.error_code is ErrorCode.NONE else None


def wcet_share(measured: Sequence[EndToEnd]) -> float:
    """Returns the share of requests that took no longer than their WCET.

    Raises:
        PlannerError: INVALID_CONFIG if there are none.
    """
    if not measured:
        raise PlannerError(ErrorCode.INVALID_CONFIG, "no request was measured; give more tasks")
    return sum(m.measured_s <= m.wcet_s for m in measured) / len(measured)


def solver_ms(
    time: ExecutionTime, num_problems: int = 2000, seed: int = 0, clock: Clock | None = None
) -> dict[str, float]:
    """Returns how long the solver takes over random budgets, prompts, lengths and queues: p50 and p99, milliseconds."""
    rng, solver, clock = random.Random(seed), BudgetSolver(), clock or MonotonicClock()
    spent_ms: list[float] = []
    for _ in range(num_problems):
        task, load, budget_s = _task(rng), _load(rng), 10.0 ** rng.uniform(-2, 1.5)
        started_s = clock.now_s()
        try:
            solver.solve(budget_s, task, load, time)
        except PlannerError as error:
            if error.code is not ErrorCode.BUDGET_INFEASIBLE:
                raise
        spent_ms.append(1000.0 * (clock.now_s() - started_s))
    p50, p99 = np.percentile(spent_ms, (50, 99))
    return {"p50": float(p50), "p99": float(p99)}


def _task(rng: random.Random) -> Task:
    num_new, expected = rng.randint(1, 4000), rng.uniform(5, 500)
    return Task(
        num_uncomputed_tokens=num_new,
        kv_len=rng.randint(0, 1500),
        num_removable_tokens=rng.randint(0, num_new),
        lengths=Lengths(lower=5, expected=expected, upper=rng.choice((None, int(3 * expected)))),
        max_tokens=2048,
    )


def _load(rng: random.Random) -> Load:
    return Load(
        has_free_slot=rng.random() < 0.5,
        kv_lens=tuple(rng.randint(100, 4000) for _ in range(rng.randint(0, 15))),
        num_prompt_tokens=rng.randint(0, 5000),
        chunk_tokens=rng.choice((192, 2048)),
    )
