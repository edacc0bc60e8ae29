# SPDX-License-Identifier: Apache-2.0
"""What encounters add up to: collisions, gaps, and what became of the planner's answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from llm_planner_lab.bench.encounters.answering import Planner
from llm_planner_lab.bench.encounters.kinds import Asking
from llm_planner_lab.bench.encounters.outcome import Trial, Use
from llm_planner_lab.bench.encounters.scenario import Encounter

FLOWN_M = 0.3  # the drone went by the answer if it flew at least this far
CLEAR_M = 0.4  # what comes no nearer is clear: the reflex acts on what would come nearer


@dataclass(frozen=True, slots=True)
class Condition:
    """How the planner is, and how it is asked."""

    planner: Planner
    asking: Asking = Asking.PASSES


def summary(condition: Condition, met: Mapping[Condition, Sequence[Trial]]) -> dict[str, Any]:
    """Returns the figures of one condition.

    Args:
        condition: Which.
        met: What happened in each condition of a set, the same encounters in the same order.
    """
    trials = met[condition]
    asked = [trial for trial in trials if trial.alarm_s is not None]
    in_time = [trial for trial in asked if trial.is_in_time]
    uses = [trial.use for trial in in_time]
    return {
        "begin": trials[0].begin,
        "planner": condition.planner.value,
        "asking": condition.asking.value,
        "encounters": len(trials),
        "collisions": sum(bool(trial.collided_with) for trial in trials),
        "collisions_hovering": sum(bool(t.collided_with) for t in trials if t.errand.startswith("d(")),
        "asked": len(asked),
        "reflex_before_asking": sum(bool(trial.reflexes) for trial in trials if trial.alarm_s is None),
        "answered_in_time": len(in_time),
        "flown": sum(trial.flown_m >= FLOWN_M for trial in in_time),
        "used": uses.count(Use.ENDED) + uses.count(Use.OVER),
        "ended": uses.count(Use.ENDED),
        "ended_then_reflex": sum(t.use is Use.ENDED and _last_reflex_s(t) > (t.ended_s or 0.0) for t in in_time),
        "danger_over": uses.count(Use.OVER),
        "overridden": uses.count(Use.OVERRIDDEN),
        "not_begun": uses.count(Use.NOT_BEGUN),
        "not_used_though_clear": _not_used_though_clear(trials, met.get(Condition(Planner.ALONE, condition.asking))),
        "with_reflex": sum(bool(trial.reflexes) for trial in trials),
        "least_gap_m": round(min(trial.least_gap_m for trial in trials), 3),
        "twentieth_gap_m": round(sorted(trial.least_gap_m for trial in trials)[len(trials) // 20], 3),
        "median_gap_m": round(median(trial.least_gap_m for trial in trials), 3),
        "median_budget_s": _median([trial.budget_s for trial in asked]),
        "median_answer_s": _median([trial.within_s for trial in in_time]),
        "longest_answer_s": max((round(trial.within_s, 3) for trial in in_time), default=None),
    }


def begins_of(encounters: Sequence[Encounter]) -> dict[str, Any]:
    """Returns how far from the drone they begin."""
    ways = sorted(encounter.begins_m for encounter in encounters)
    return {
        "begin": encounters[0].begin.value,
        "encounters": len(encounters),
        "least_m": round(ways[0], 2),
        "twentieth_m": round(ways[len(ways) // 20], 2),
        "median_m": round(median(ways), 2),
        "most_m": round(ways[-1], 2),
    }


def _last_reflex_s(trial: Trial) -> float:
    return max((begun_s for begun_s, *_ in trial.reflexes), default=0.0)


def _not_used_though_clear(trials: Sequence[Trial], alone: Sequence[Trial] | None) -> int | None:
    """Returns how many answers were not used that keep clear by themselves, as far as is known."""
    if alone is None or trials is alone:
        return None
    lost = [by_itself for trial, by_itself in zip(trials, alone, strict=True) if trial.use in _NOT_USED]
    return sum(trial.least_gap_m >= CLEAR_M for trial in lost)


_NOT_USED = (Use.OVERRIDDEN, Use.NOT_BEGUN)


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(median(known), 3) if known else None
