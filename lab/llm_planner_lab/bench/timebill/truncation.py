# SPDX-License-Identifier: Apache-2.0
"""What graceful truncation adds where a plan is closed to keep its budget (``Goal.truncate``): runs of both."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import OverrunStrategy, PlanResult
from llm_planner_lab.bench.timebill.approaches import OURS, OURS_WHOLE_SCENE, Approach, adaptive
from llm_planner_lab.bench.timebill.lab import Lab
from llm_planner_lab.bench.timebill.sweep import Cell, run_cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One point under PARTIAL, closed late (``late_``) and gracefully; the page documents its fields.

    Attributes:
        late_closed: Plans that were closed in time.
        fitted: Plans that were whole in time without graceful truncation.
        altered: Of these, how many are other plans with it.
        changed: Answers that graceful truncation changed.
        calls: Skill calls that reach the robot, all answers together.
        written_tokens: Of all plans that were closed.
        void_tokens: Of these, how many stand behind what was delivered, by the tokens of the delivered text.
    """

    budget_fraction: float
    approach: str
    n: int
    late_closed: int
    closed: int
    fitted: int
    altered: int
    changed: int
    late_score: float | None
    score: float | None
    late_same_numbers: float | None
    same_numbers: float | None
    late_in_time_rate: float
    in_time_rate: float
    late_calls: int
    calls: int
    written_tokens: int
    void_tokens: int


def run_truncation(
    lab: Lab,
    fractions: Sequence[float],
    encode: Callable[[str], Sequence[int]],
    on_progress: Callable[[str, float], None],
) -> list[dict[str, Any]]:
    """Returns a comparison for every budget under PARTIAL, of ours with and without its own measure.

    Args:
        lab: What all runs share; generations are replayed.
        fractions: Of the vanilla time.
        encode: Text to tokens, of the model.
        on_progress: Receives what is done, and how much of it.
    """
    ours = [a for a in adaptive(lab.profile, [], lab.clock) if a.name in (OURS, OURS_WHOLE_SCENE)]
    points = [(f, a) for f in fractions for a in ours]
    rows = []
    for number, (fraction, approach) in enumerate(points):
        on_progress(f"closing plans, budget {fraction:g}, {approach.name}", number / len(points))
        rows.append(asdict(_compare(lab, approach, fraction, encode)))
    return rows


def _compare(lab: Lab, approach: Approach, fraction: float, encode: Callable[[str], Sequence[int]]) -> Comparison:
    graceful = run_cell(lab, approach, OverrunStrategy.PARTIAL, fraction)
    late = run_cell(lab, replace(approach, truncates_gracefully=False), OverrunStrategy.PARTIAL, fraction)
    before, now = _results(late), _results(graceful)
    pairs = list(zip(before, now, strict=True))
    fitted = [(one, two) for one, two in pairs if one.error_code is ErrorCode.NONE]
    closed = [result for result in now if result.error_code is ErrorCode.PLAN_PARTIAL]
    return Comparison(
        budget_fraction=fraction,
        approach=approach.name,
        n=len(pairs),
        late_closed=late.row.partial,
        closed=graceful.row.partial,
        fitted=len(fitted),
        altered=sum(_delivered(one) != _delivered(two) for one, two in fitted),
        changed=sum(_delivered(one) != _delivered(two) for one, two in pairs),
        late_score=late.row.score,
        score=graceful.row.score,
        late_same_numbers=late.row.same_numbers,
        same_numbers=graceful.row.same_numbers,
        late_in_time_rate=late.row.in_time_rate,
        in_time_rate=graceful.row.in_time_rate,
        late_calls=sum(map(_num_calls, before)),
        calls=sum(map(_num_calls, now)),
        written_tokens=sum(result.metrics.num_output_tokens for result in closed),
        void_tokens=sum(max(0, r.metrics.num_output_tokens - len(encode(r.plan))) for r in closed),
    )


def _results(cell: Cell) -> list[PlanResult]:
    return [answer.result for answer in cell.answers]


def _delivered(result: PlanResult) -> tuple[ErrorCode, str]:
    return result.error_code, result.plan


def _num_calls(result: PlanResult) -> int:
    return sum(len(segment.calls) for segment in result.segments)
