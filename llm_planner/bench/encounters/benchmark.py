"""``llm-planner bench encounters``: a hundred encounters for each condition of the planner, and what they add up to."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from llm_planner.bench.document import write_document
from llm_planner.bench.encounters.answering import STALL_S, Answering, Planner
from llm_planner.bench.encounters.page import write_page
from llm_planner.bench.encounters.scenario import draw_encounter
from llm_planner.bench.encounters.trial import Control, Trial, run_trial
from llm_planner.bench.timely.benchmark import commit
from llm_planner.core.config import PlannerConfig
from llm_planner.prediction.profile import find_profile
from llm_planner.robots.library import RobotLibrary

ROBOT = "tello"
TUNED_SEEDS = 200  # the reflex was tuned while these encounters were known
FLOWN_M = 0.3  # an answer was used if the drone flew so far by it


def run_encounters(
    config: PlannerConfig,
    make_control: Callable[..., Control],
    *,
    num_seeds: int,
    profile: str,
    on_progress: Callable[[str, float], None],
) -> dict[str, Any]:
    """Returns the document of all encounters: the same seeds in every condition.

    Args:
        config: Of the planner.
        make_control: ``ros.robot_control.RobotControl``.
        num_seeds: Encounters per condition.
        profile: Name of the engine profile that says how long steps take.
        on_progress: Hears what is being done, and which share of it is.
    """
    model = RobotLibrary().get(ROBOT)
    on_progress("loading the model", 0.0)
    answering = Answering(config, find_profile(profile), model.network.latency_s.value)
    trials: list[Trial] = []
    try:
        for planner in Planner:
            for seed in range(num_seeds):
                share = len(trials) / (len(Planner) * num_seeds)
                on_progress(f"planner {planner.value}: encounter {seed + 1} of {num_seeds}", share)
                trials.append(run_trial(draw_encounter(seed), planner, answering, model, make_control))
    finally:
        answering.close()
    return {
        "setup": {
            "num_seeds": num_seeds,
            "tuned_seeds": TUNED_SEEDS,
            "robot": ROBOT,
            "model": config.engine.model,
            "profile": profile,
            "policy": config.scheduler.policy,
            "stall_s": STALL_S,
            "ahead_s": model.reflex.ahead_s if model.reflex else 0.0,
            "commit": commit(),
        },
        "conditions": [_summary(planner, trials) for planner in Planner],
        "trials": [asdict(trial) for trial in trials],
    }


def _summary(planner: Planner, trials: Sequence[Trial]) -> dict[str, Any]:
    mine = [trial for trial in trials if trial.planner == planner.value]
    asked = [trial for trial in mine if trial.alarm_s is not None]
    in_time = [trial for trial in asked if trial.is_in_time]
    return {
        "planner": planner.value,
        "encounters": len(mine),
        "collisions": sum(bool(trial.collided_with) for trial in mine),
        "collisions_hovering": sum(bool(t.collided_with) for t in mine if t.errand.startswith("d(")),
        "encounters_unseen": sum(trial.seed >= TUNED_SEEDS for trial in mine),
        "collisions_unseen": sum(bool(t.collided_with) for t in mine if t.seed >= TUNED_SEEDS),
        "asked": len(asked),
        "answered_in_time": len(in_time),
        "flown": sum(trial.flown_m >= FLOWN_M for trial in in_time),
        "flown_to_the_end": sum(trial.used_s is not None for trial in in_time),
        "with_reflex": sum(bool(trial.reflexes) for trial in mine),
        "least_gap_m": round(min(trial.least_gap_m for trial in mine), 3),
        "median_gap_m": round(median(trial.least_gap_m for trial in mine), 3),
        "median_budget_s": _median([trial.budget_s for trial in asked]),
        "median_answer_s": _median([trial.within_s for trial in in_time]),
        "longest_answer_s": max((round(trial.within_s, 3) for trial in in_time), default=None),
    }


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(median(known), 3) if known else None


def write_encounters(document: dict[str, Any], out: Path | None, page: Path | None) -> list[Path]:
    """Writes the document as JSON and as a page; returns what was written."""
    return write_document(document, out, page, write_page)
