# SPDX-License-Identifier: Apache-2.0
"""The experiments, the theorems and the page of admission."""

import json
import random

import pytest
from typer.testing import CliRunner

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner_lab.bench.admission.evaluation import Evaluation, quick, run_evaluation
from llm_planner_lab.bench.admission.experiment import OURS, AdmissionExperiment, fitting_jobs, run_experiment
from llm_planner_lab.bench.admission.figures import draw_admission
from llm_planner_lab.bench.admission.lengths import chat_like_jobs
from llm_planner_lab.bench.admission.theorems import a_l_bound, checked, claims, lemma_2, linear_ratio
from llm_planner_lab.cli.bench import app as bench_app
from llm_planner_lab.reports import write_report
from llm_planner_lab.simulation.admission.jobs import TrueJob


def some_jobs(num_jobs=60, seed=0):
    rng = random.Random(seed)
    return [TrueJob(prompt_tokens=rng.randint(1, 60), output_tokens=rng.randint(1, 80)) for _ in range(num_jobs)]


def an_experiment(**changes):
    fields = {
        "policies": ("a_max", "a_min", OURS),
        "intervals": ("1:100", "relative:0"),
        "num_jobs": (30,),
        "kv_tokens": 600,
        "num_seeds": 2,
    }
    return AdmissionExperiment(**{**fields, **changes})


def silent(what, share):
    pass


def test_the_document_has_a_row_for_each_case_and_ratios_to_h_sf():
    document = run_experiment(an_experiment(), some_jobs(), silent)
    assert len(document["runs"]) == 2 * 2 * 4
    keys = {"policy", "interval", "n", "seed", "mean_latency", "overflows", "cancellations", "decision_ms_p99"}
    assert all(keys <= set(run) for run in document["runs"])
    assert all(run["overflows"] == 0 for run in document["runs"])
    ratios = document["ratio_to_h_sf"]
    assert ratios["h_sf"] == {i: {"mean": 1.0, "max": 1.0} for i in ("1:100", "relative:0")}
    assert ratios["a_min"]["relative:0"] == {"mean": 1.0, "max": 1.0}
    assert ratios["a_max"]["1:100"]["mean"] > ratios["a_min"]["1:100"]["mean"] > 1.0
    assert ratios[OURS]["1:100"]["max"] < ratios["a_min"]["1:100"]["mean"]


def test_runs_are_the_same_for_a_seed():
    first, second = (run_experiment(an_experiment(), some_jobs(), silent) for _ in range(2))
    assert first["ratio_to_h_sf"] == second["ratio_to_h_sf"]


def test_with_a_profile_latencies_are_seconds_and_arrivals_count():
    document = run_experiment(an_experiment(step="llama2-70b-2xa100", rate_per_s=2.0), some_jobs(), silent)
    assert all(0.04 < run["mean_latency"] < 60 for run in document["runs"])


def test_jobs_that_exceed_the_memory_alone_are_left_out_and_counted():
    jobs = [*some_jobs(), TrueJob(prompt_tokens=600, output_tokens=1)]
    assert run_experiment(an_experiment(), jobs, silent)["setup"]["left_out"] == 1


def test_a_memory_smaller_than_every_job_is_refused_with_what_it_takes():
    with pytest.raises(PlannerError, match="the smallest needs 9, the largest 30") as error:
        fitting_jobs([TrueJob(prompt_tokens=8, output_tokens=1), TrueJob(prompt_tokens=10, output_tokens=20)], 8)
    assert error.value.code is ErrorCode.OUT_OF_MEMORY


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policies": ("lifo",)}, "no admission policy 'lifo'"),
        ({"num_jobs": (0,)}, "at least 1"),
        ({"rate_per_s": float("nan")}, "a rate of nan"),
        ({"intervals": ()}, "at least one"),
    ],
)
def test_an_experiment_that_cannot_be_is_refused(changes, message):
    with pytest.raises(PlannerError, match=message):
        an_experiment(**changes)


def test_an_interval_that_does_not_hold_the_truth_is_refused():
    with pytest.raises(PlannerError, match="interval 1:10 does not hold an output of"):
        run_experiment(an_experiment(intervals=("1:10",)), some_jobs(), silent)


def test_bounds_of_the_paper():
    assert a_l_bound(0.5) == pytest.approx(1.5)
    assert a_l_bound(0.2) == pytest.approx(1.125)
    assert linear_ratio(1.0) == pytest.approx(14 / 9)
    assert linear_ratio(0.0) == pytest.approx(1.0)


def test_two_points_stay_within_theorem_6():
    claim = next(iter(claims(random.Random(0), 300)))
    assert (claim.theorem, claim.policy) == ("6", "a_min")
    row = checked((300,), 2)[0]
    assert (row["theorem"], row["n"], row["num_samples"]) == ("6", 300, 2)
    assert 1.0 < row["ratio"] < row["bound"] + 0.1


@pytest.mark.parametrize("alpha", [0.2, 0.5, 0.8])
def test_lemma_2_gives_the_bound_of_theorem_6_for_the_worst_mix_of_two_points(alpha):
    """Theorem 6 is Lemma 2 for x_l / x_u = u / l as l and u grow; the bound is (3 - alpha) / 2."""
    upper = 2000
    lower = round(alpha * upper)
    outputs = [lower] * upper + [upper] * lower
    assert lemma_2(outputs, lower) == pytest.approx((3 - alpha) / 2, rel=0.01)


def test_lemma_2_is_one_where_all_outputs_are_alike():
    assert lemma_2([7] * 10, 7) == pytest.approx(1.0)


def test_an_engine_that_cannot_offload_computes_again():
    def counts(**changes):
        runs = run_experiment(an_experiment(**changes), some_jobs(), silent)["runs"]
        own = [run for run in runs if run["policy"] == "live/a_min"]
        return sum(run["suspensions"] for run in own), sum(run["cancellations"] for run in own)

    policies = ("live/a_min",)
    assert counts(policies=policies)[0] > 0 == counts(policies=policies)[1]
    assert counts(policies=policies, can_offload=False)[0] == 0 < counts(policies=policies, can_offload=False)[1]


def test_chat_like_lengths_are_as_published():
    jobs = chat_like_jobs()
    outputs = sorted(job.output_tokens for job in jobs)
    assert outputs[len(outputs) // 2] == pytest.approx(43, rel=0.15)
    assert sum(outputs) / len(outputs) == pytest.approx(85, rel=0.2)
    assert max(outputs) <= 883
    assert max(job.prompt_tokens for job in jobs) <= 468


def test_a_quick_evaluation_becomes_a_page_with_figures(tmp_path):
    evaluation = quick(Evaluation())
    jobs = some_jobs(120)
    document = run_evaluation(evaluation, jobs, silent)
    write_report("admission", document, None, tmp_path / "admission.md")
    text = (tmp_path / "admission.md").read_text()
    assert "| ours, live |" in text
    assert "Theorems" in text
    assert all(len(line) <= 120 for line in text.splitlines() if not line.startswith(("|", "#")))
    assert {path.name for path in draw_admission(document["sweep"], tmp_path)} == {
        f"admission_fig{number}.png" for number in (5, 6, 7)
    }


def test_a_result_that_is_written_nowhere_is_printed(monkeypatch):
    monkeypatch.setattr("llm_planner_lab.bench.admission.evaluation.run_evaluation", lambda *_: {"sweep": [1]})
    assert json.loads(CliRunner().invoke(bench_app, ["admission", "--quick"]).stdout) == {"sweep": [1]}
