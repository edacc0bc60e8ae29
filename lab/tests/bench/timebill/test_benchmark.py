# SPDX-License-Identifier: Apache-2.0
"""The whole evaluation on a tiny random model: what is in the document, on the page, and what is refused."""

import itertools
import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from lab.tests.engine.length_builders import save_predictor
from llm_planner.cli.main import app
from llm_planner.core.config import EngineConfig, PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner_lab.bench.timebill.benchmark import TimeBillBench, run_timebill
from llm_planner_lab.bench.timebill.ete import Grid
from llm_planner_lab.bench.timebill.figures import draw_timebill
from llm_planner_lab.bench.timebill.jobs import Workload
from llm_planner_lab.reports import write_report
from tests.engine.builders import save_model

MEASURED = {
    "rlp": {"rlp": {"mae": 1.0, "rmse": 2.0, "r2": 0.9}, "regression": {"mae": 3.0, "rmse": 4.0, "r2": None}},
    "interval_coverage_90": 0.9,
}
POINT = {"budget_fraction", "strategy", "approach", "score", "completion_rate", "refused", "n"}
ALPHAS = {"alpha_25", "alpha_50", "alpha_75", "alpha_95"}
FIXED = ALPHAS | {"vanilla", "scene_50", "scene_90", "scene_50_95", "scene_90_95", "by_need", "by_need_90"}
APPROACHES = FIXED | {"timebill", "timebill_by_need", "ours_whole_scene", "ours"}


def save_planner(path):
    """Writes a random model with a length predictor that was measured; returns its directory."""
    save_model(path, max_position_embeddings=1024)
    (path / "planner.json").write_text('{"prompt_style": "compact"}')
    predictor = path.with_name(f"{path.name}-length")
    save_predictor(predictor, path)
    (predictor / "figures.json").write_text(json.dumps(MEASURED))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_planner(tmp_path_factory.mktemp("models") / "planner")


def make_bench(model, **changes):
    planner = PlannerConfig(engine=EngineConfig(model=str(model), device="cpu", dtype="float32", num_threads=1))
    bench = TimeBillBench(
        planner=planner,
        workload=Workload(
            num_seeds=1,
            per_class=1,
            classes=((60, 160), (160, 500)),
            max_tokens=24,  # a random model never ends
        ),
        further_per_class=2,
        grid=Grid(prompts=(32, 64, 96, 128, 256), caches=(32, 64, 96, 128, 256), batches=(1,), num_repeats=3),
        fractions=(0.6, 3.0),
        k_values=(1.0, 5.0),
        k_fraction=1.0,
        num_robots=2,
        num_waves=1,
        concurrent_fractions=(1.0,),
    )
    return replace(bench, **changes)


@pytest.fixture(scope="module")
def document(model):
    said = []
    document = run_timebill(make_bench(model), lambda what, share: said.append((what, share)))
    assert all(0.0 <= share <= 1.0 for _, share in said)
    return document


def test_the_document_has_its_documented_keys(document):
    assert {"prefill_mape", "decode_mape", "noise_floor"} <= document["ete"].keys()
    assert document["rlp"] == MEASURED["rlp"]
    assert document["interval_coverage_90"] == 0.9
    assert 0.0 <= document["wcet_share"] <= 1.0
    assert 0.0 <= document["ete"]["end_to_end"]["wcet_share_planner"] <= 1.0
    end_to_end, num_jobs = document["ete"]["end_to_end"], document["setup"]["num_tasks"] + 4
    assert end_to_end["num_by_ratio"]["0"] == num_jobs
    assert num_jobs < end_to_end["n"] == sum(end_to_end["num_by_ratio"].values()) < num_jobs * (1 + len(ALPHAS))
    assert end_to_end["wcet_share_by_ratio"].keys() == end_to_end["num_by_ratio"].keys()
    assert document["ete"]["reference"]["n"] > document["setup"]["num_generations"]
    assert document["ete"]["reference"]["p05_ratio"] <= 1.0 <= document["ete"]["reference"]["p95_ratio"]
    assert 0.0 < document["solver_ms"]["p50"] <= document["solver_ms"]["p99"]
    assert all(row.keys() >= POINT for row in document["sweep"])
    assert all(POINT | {"k"} <= row.keys() for row in document["k_sweep"])
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_every_approach_meets_every_budget_under_every_strategy(document):
    points = [(row["budget_fraction"], row["strategy"], row["approach"]) for row in document["sweep"]]
    assert len(points) == len(set(points)) == 2 * 3 * len(APPROACHES)
    assert {approach for _, _, approach in points} == APPROACHES
    assert {row["n"] for row in document["sweep"]} == {2}
    assert {(row["k"], row["approach"]) for row in document["k_sweep"]} == {
        (k, name) for k in (1.0, 5.0) for name in ("timebill", "timebill_by_need", "ours_whole_scene", "ours")
    }
    assert {row["num_robots"] for row in document["concurrent"]} == {2}


def test_fixed_ratios_evict_more_and_more_and_only_ours_may_refuse(document):
    wide = [row for row in document["sweep"] if row["budget_fraction"] == 3.0 and row["strategy"] == "skip_next"]
    by_name = {row["approach"]: row["eviction_ratio"] for row in wide}
    names = ("vanilla", "alpha_25", "alpha_50", "alpha_75", "alpha_95")
    assert by_name["vanilla"] == 0.0
    assert [by_name[name] for name in names] == sorted(by_name[name] for name in names)
    assert by_name["alpha_25"] > 0.0
    assert all(row["omitted_ratio"] == 0.0 for row in document["sweep"] if row["approach"] == "vanilla")
    assert all(row["refused"] == 0 for row in document["sweep"] if not row["approach"].startswith("ours"))


def test_every_budget_that_closes_plans_is_compared_with_graceful_truncation_and_without(document):
    rows = document["truncation"]
    points = {(row["budget_fraction"], row["approach"]) for row in rows}
    assert points == set(itertools.product((0.6, 3.0), ("ours", "ours_whole_scene")))
    of_sweep = {(r["budget_fraction"], r["approach"]): r for r in document["sweep"] if r["strategy"] == "partial"}
    for row in rows:
        assert row["fitted"] == row["altered"] == 0  # a random model never ends by itself
        assert row["calls"] >= row["late_calls"]
        assert 0 <= row["void_tokens"] <= row["written_tokens"]
        same = of_sweep[row["budget_fraction"], row["approach"]]
        assert (row["closed"], row["score"]) == (same["partial"], same["score"])  # replayed, so the very same


def test_classes_say_what_budgets_are_fractions_of(document):
    classes = document["setup"]["classes"]
    assert [row["n"] for row in classes] == [1, 1]
    assert all(0 < row["prefill_s"] < row["vanilla_s"] for row in classes)
    assert all(row["prompt_tokens"][0] <= row["mean_prompt_tokens"] < row["prompt_tokens"][1] for row in classes)


def test_page_and_figures_come_from_the_document(document, tmp_path):
    written = write_report("timebill", document, tmp_path / "timebill.json", tmp_path / "docs" / "timebill.md")
    written += draw_timebill(document, tmp_path / "docs" / "figures")
    assert all(path.stat().st_size > 0 for path in written)
    assert json.loads((tmp_path / "timebill.json").read_text()) == document
    page = (tmp_path / "docs" / "timebill.md").read_text()
    assert "Not reached:" in page  # a random model never scores
    assert "3.00" in page
    pictures = [line.split("](")[1][:-1] for line in page.splitlines() if line.startswith("![")]
    assert len(pictures) == 3
    assert all((tmp_path / "docs" / picture).is_file() for picture in pictures)


def test_a_model_without_a_predictor_is_refused(tmp_path):
    alone = save_model(tmp_path / "alone")
    with pytest.raises(PlannerError) as caught:
        run_timebill(make_bench(alone), lambda _what, _share: None)
    assert caught.value.code is ErrorCode.MODEL_NOT_FOUND


def test_the_command_says_what_is_wrong(tmp_path):
    result = CliRunner().invoke(app, ["bench", "timebill", "--quick", "--model", str(tmp_path / "nowhere")])
    assert isinstance(result.exception, PlannerError), result.output
    assert result.exception.code is ErrorCode.MODEL_NOT_FOUND
    assert "nowhere" in result.exception.message
