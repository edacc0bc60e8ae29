"""``llm-planner bench encounters``: a hundred encounters for each condition of the planner, and what they add up to."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from llm_planner.bench.document import write_document
from llm_planner.bench.encounters.answering import STALL_S, Answering, Planner
from llm_planner.bench.encounters.kinds import Asking, Begin, Kind
from llm_planner.bench.encounters.outcome import Trial
from llm_planner.bench.encounters.page import write_page
from llm_planner.bench.encounters.scenario import AIM, COMERS, draw_encounter
from llm_planner.bench.encounters.summary import Condition, begins_of, summary
from llm_planner.bench.encounters.trial import Control, run_trial
from llm_planner.bench.timely.benchmark import commit
from llm_planner.core.config import PlannerConfig
from llm_planner.prediction.profile import find_profile
from llm_planner.robots.library import RobotLibrary

ROBOT = "tello"
FIRST_SEED = 400  # the reflex and the question were tuned while earlier encounters were known


CONDITIONS = (
    Condition(Planner.IN_TIME),
    Condition(Planner.ALONE),
    Condition(Planner.LATE),
    Condition(Planner.DEAD),
    Condition(Planner.IN_TIME, Asking.COMES),
    Condition(Planner.ALONE, Asking.COMES),
    Condition(Planner.NOBODY),
)


def run_encounters(
    config: PlannerConfig,
    make_control: Callable[..., Control],
    *,
    seeds: range,
    profile: str,
    on_progress: Callable[[str, float], None],
    kind: Kind = Kind.PERSON,
    begins: Sequence[Begin] = tuple(Begin),
) -> dict[str, Any]:
    """Returns the document of all encounters: the same seeds in every condition.

    Args:
        config: Of the planner.
        make_control: ``ros.robot_control.RobotControl``.
        seeds: Of the encounters of each condition.
        profile: Name of the engine profile that says how long steps take.
        on_progress: Hears what is being done, and which share of it is.
        kind: What comes.
        begins: Where it may be when an encounter begins; each is a set of encounters of its own.
    """
    model = RobotLibrary().get(ROBOT)
    on_progress("loading the model", 0.0)
    answering = Answering(config, find_profile(profile), model.network.latency_s.value)
    rows: list[dict[str, Any]] = []
    trials: list[Trial] = []
    num_trials = len(begins) * len(CONDITIONS) * len(seeds)
    try:
        for begin in begins:
            met: dict[Condition, list[Trial]] = {condition: [] for condition in CONDITIONS}
            for condition, found in met.items():
                for seed in seeds:
                    on_progress(f"{begin.value}, planner {condition.planner.value}: {seed}", len(trials) / num_trials)
                    encounter = draw_encounter(seed, kind, begin)
                    trial = run_trial(encounter, condition.planner, answering, model, make_control, condition.asking)
                    found.append(trial)
                    trials.append(trial)
            rows += [summary(condition, begin, met) for condition in CONDITIONS]
    finally:
        answering.close()
    return {
        "setup": {
            "first_seed": seeds.start,
            "num_seeds": len(seeds),
            "tuned_seeds": FIRST_SEED,
            "robot": ROBOT,
            "kind": kind.value,
            "name": COMERS[kind].name,
            "size_m": COMERS[kind].size_m,
            "aim_m": AIM * COMERS[kind].size_m[0],
            "model": config.engine.model,
            "profile": profile,
            "policy": config.scheduler.policy,
            "stall_s": STALL_S,
            "ahead_s": model.reflex.ahead_s if model.reflex else 0.0,
            "commit": commit(),
        },
        "begins": [begins_of([draw_encounter(seed, kind, begin) for seed in seeds]) for begin in begins],
        "conditions": rows,
        "trials": [asdict(trial) | {"use": trial.use.value if trial.use else None} for trial in trials],
    }


def write_encounters(document: dict[str, Any], out: Path | None, page: Path | None) -> list[Path]:
    """Writes the document as JSON and as a page; returns what was written."""
    return write_document(document, out, page, write_page)
