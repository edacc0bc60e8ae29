# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench admission``: the whole evaluation of A_min, section 6, with its theorems, and ours."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llm_planner_lab.bench.admission.experiment import LIVE, OURS, AdmissionExperiment, run_experiment
from llm_planner_lab.bench.admission.lengths import chat_like_jobs
from llm_planner_lab.bench.admission.theorems import NUM_JOBS, NUM_SAMPLES, checked
from llm_planner_lab.bench.section7 import rounded
from llm_planner_lab.checkout import commit
from llm_planner_lab.simulation.admission.jobs import TrueJob
from llm_planner_lab.simulation.admission.step_time import UNIT

POLICIES = ("h_sf", "a_max", "a_min", OURS)
ALL = ("h_sf", "h_sf_volume", "a_max", "a_min", "a_l", "adaptive", f"{LIVE}a_min", OURS)
INTERVALS = ("1:1000", "bins:100", "relative:0.1", "relative:0.95", "relative:0.99")
MAX_PROMPT_TOKENS = 1000
MAX_OUTPUT_TOKENS = 1000
PROFILE = "llama2-70b-2xa100"
_EXPLAINED = ("1:1000", "bins:100", "relative:0.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What is run.

    Attributes:
        num_jobs: Sizes of the random subsets.
        middle: Size of the experiments that are not about size.
        num_seeds: Random subsets of each size.
        theorem_jobs: Sample sizes for the theorems.
        theorem_samples: Samples of each size.
        online_rate: Arrivals per unit in the experiment with arrivals.
    """

    num_jobs: tuple[int, ...] = (200, 400, 600, 800, 1000, 1200, 1400, 1600, 1800, 2000)
    middle: int = 400
    num_seeds: int = 3
    theorem_jobs: tuple[int, ...] = NUM_JOBS
    theorem_samples: int = NUM_SAMPLES
    online_rate: float = 0.3


def quick(evaluation: Evaluation) -> Evaluation:
    """Returns an evaluation that takes seconds: its figures show that everything works, and no more."""
    return replace(evaluation, num_jobs=(40, 80), middle=60, num_seeds=1, theorem_jobs=(100, 200), theorem_samples=2)


def run_evaluation(
    evaluation: Evaluation, jobs: Iterable[TrueJob], on_progress: Callable[[str, float], None]
) -> dict[str, Any]:
    """Returns the JSON document, a part for each experiment."""
    jobs = list(jobs)
    usual = [job for job in jobs if job.prompt_tokens <= MAX_PROMPT_TOKENS]
    sweep = AdmissionExperiment(
        policies=POLICIES, intervals=INTERVALS, num_jobs=evaluation.num_jobs, num_seeds=evaluation.num_seeds
    )
    agreement = replace(sweep, num_jobs=(evaluation.middle,), intervals=_EXPLAINED, policies=ALL)
    few = replace(agreement, policies=POLICIES)
    live = replace(agreement, policies=(f"{LIVE}a_min", OURS))
    anything = [job for job in jobs if job.output_tokens <= MAX_OUTPUT_TOKENS]
    document = {
        "agreement": run_experiment(agreement, usual, on_progress),
        "sweep": run_experiment(sweep, usual, on_progress),
        "step_time": _step_times(few, usual, max(evaluation.num_jobs), on_progress),
        "online": run_experiment(replace(agreement, rate_per_s=evaluation.online_rate), usual, on_progress),
        "recomputed": run_experiment(replace(live, can_offload=False), usual, on_progress),
        "long_prompts": run_experiment(agreement, anything, on_progress),
        "theorems": checked(evaluation.theorem_jobs, evaluation.theorem_samples),
        "setup": {"commit": commit(), "policies": list(POLICIES), "profile": PROFILE, "num_jobs": evaluation.middle},
    }
    return dict(rounded(document))


def _step_times(
    experiment: AdmissionExperiment,
    jobs: Sequence[TrueJob],
    largest: int,
    on_progress: Callable[[str, float], None],
) -> list[dict[str, Any]]:
    """Returns ratios to H-SF by lengths and step times: what makes A_min and H-SF alike?"""
    rows = []
    most = replace(experiment, num_jobs=(largest,))
    for name, of_size, sample in (("Azure", experiment, jobs), ("chat-like", most, chat_like_jobs())):
        for step in (UNIT, PROFILE):
            document = run_experiment(replace(of_size, step=step), sample, on_progress)
            ratios = document["ratio_to_h_sf"]
            rows.append({"lengths": name, "n": of_size.num_jobs[0], "step": step, "ratio_to_h_sf": ratios})
    return rows
