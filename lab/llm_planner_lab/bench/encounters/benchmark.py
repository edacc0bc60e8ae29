# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench encounters``: a hundred encounters for each condition of the planner, and what they add up to."""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import closing
from typing import TYPE_CHECKING, Any

from llm_planner.core.config import PlannerConfig
from llm_planner.prediction.profile import find_profile
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.bench.encounters.answering import STALL_S, Answering, Planner
from llm_planner_lab.bench.encounters.kinds import Asking, Begin, Kind
from llm_planner_lab.bench.encounters.outcome import Trial
from llm_planner_lab.bench.encounters.scenario import AIM, COMERS, draw_encounter
from llm_planner_lab.bench.encounters.summary import Condition, begins_of, summary
from llm_planner_lab.bench.encounters.trial import Control, run_trial
from llm_planner_lab.checkout import commit

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

ROBOT = "tello"
LOOK_S = 0.5  # between two looks at how far the sets are
FIRST_SEED = 400  # the reflex and the question were tuned while earlier encounters were known


CONDITIONS = (
    Condition(Planner.IN_TIME),
    Condition(Planner.ALONE),
    Condition(Planner.LATE),
    Condition(Planner.DEAD),
    Condition(Planner.IN_TIME, Asking.COMES),
    Condition(Planner.ALONE, Asking.COMES),
    Condition(Planner.NEITHER),
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
    """Returns the document of all encounters: the same seeds in every condition. Each set has a process of its own.

    Args:
        config: Of the planner.
        make_control: ``ros.robot_control.RobotControl``.
        seeds: Of the encounters of each condition.
        profile: Name of the engine profile that says how long steps take.
        on_progress: Receives what is being done, and which share of it is done.
        kind: What comes.
        begins: Where it may be when an encounter begins; each is a set of encounters of its own.
    """
    context = multiprocessing.get_context("spawn")
    num_met, num_trials = context.Value("i", 0), len(begins) * len(CONDITIONS) * len(seeds)
    with ProcessPoolExecutor(len(begins), context, initializer=_count_in, initargs=(num_met,)) as pool:
        sets = [pool.submit(_run_set, config, make_control, seeds, profile, kind, begin) for begin in begins]
        while wait(sets, timeout=LOOK_S).not_done:
            share = num_met.value / num_trials
            on_progress(f"encounter {num_met.value} of {num_trials}" if share else "loading the model", share)
        met = [future.result() for future in sets]
    trials = [trial for found in met for row in found.values() for trial in row]
    asked = {trial.asking: trial.instruction for trial in reversed(trials) if trial.instruction}  # the first
    rows = [summary(condition, found) for found in met for condition in CONDITIONS]
    model = RobotLibrary().get(ROBOT)
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
        "questions": asked,
    }


_num_met: "Synchronized[int] | None" = None  # of this process: how many encounters all of them have run


def _count_in(num_met: "Synchronized[int]") -> None:
    global _num_met  # noqa: PLW0603 (a pool hands it to its processes when they start)
    _num_met = num_met


def _run_set(
    config: PlannerConfig,
    make_control: Callable[..., Control],
    seeds: range,
    profile: str,
    kind: Kind,
    begin: Begin,
) -> dict[Condition, list[Trial]]:
    """Returns what happens in the encounters of one set.

    Each condition has a planner of its own: one that has learned how long an engine hangs refuses what it could answer.
    """
    model = RobotLibrary().get(ROBOT)
    met: dict[Condition, list[Trial]] = {}
    for condition in CONDITIONS:
        trials = met[condition] = []
        with closing(Answering(config, find_profile(profile), model.network.latency_s.value)) as answering:
            for seed in seeds:
                encounter = draw_encounter(seed, kind, begin)
                trial = run_trial(encounter, condition.planner, answering, model, make_control, condition.asking)
                trials.append(trial)
                if _num_met is not None:
                    with _num_met.get_lock():
                        _num_met.value += 1
    return met
