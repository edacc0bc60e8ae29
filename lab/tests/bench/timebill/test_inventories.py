# SPDX-License-Identifier: Apache-2.0
"""The bench of long lists on a tiny random model: what is in the document, and on the page."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from lab.tests.bench.timebill.test_benchmark import save_planner
from llm_planner.cli.main import app
from llm_planner.core.config import EngineConfig, PlannerConfig
from llm_planner.core.request import OverrunStrategy
from llm_planner_lab.bench.timebill.benchmark import TimeBillBench
from llm_planner_lab.bench.timebill.ete import Grid
from llm_planner_lab.bench.timebill.inventories import INVENTORIES, run_inventories
from llm_planner_lab.reports import write_report
from llm_planner_lab.tasks.inventory import sample_inventory


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    model = save_planner(tmp_path_factory.mktemp("models") / "inventory")
    planner = PlannerConfig(engine=EngineConfig(model=str(model), device="cpu", dtype="float32", num_threads=1))
    bench = TimeBillBench(
        planner=planner,
        workload=replace(
            INVENTORIES,
            num_seeds=1,
            per_class=2,
            classes=((60, 500),),
            max_tokens=16,  # a random model never ends
            draw=lambda rng: sample_inventory(rng, 20, 4),
        ),
        grid=Grid(prompts=(32, 64, 96, 128, 256), caches=(32, 64, 96, 128, 256), batches=(1,), num_repeats=3),
        fractions=(0.6, 3.0),
    )
    return run_inventories(bench, lambda _what, share: _check(share))


def _check(share):
    assert 0.0 <= share <= 1.0


def test_ours_and_timebill_are_compared_with_the_best_of_what_could_be_configured(document):
    points = {(row["budget_fraction"], row["strategy"]) for row in document["sweep"]}
    assert len(points) == 2 * len(OverrunStrategy)
    for name in ("against_best_fixed", "ours_whole_against_fixed_ratios", "timebill_against_fixed_ratios"):
        assert {(row["budget_fraction"], row["strategy"]) for row in document[name]} == points
    for name in ("ours_whole_against_fixed_ratios", "timebill_against_fixed_ratios"):
        assert all(row["best"] == "vanilla" or row["best"].startswith("alpha_") for row in document[name])


def test_what_the_model_can_do_with_all_its_time_is_in_the_document(document):
    unlimited = document["unlimited"]
    assert (unlimited["approach"], unlimited["right"], unlimited["n"]) == ("vanilla", 0.0, 2)  # a random model
    assert {row["kind"] for row in document["quality"]} == {"may need all", "all"}  # "all 3 things on rack 7"
    assert document["setup"]["num_tasks"] == 2
    assert 0.0 <= document["ete"]["end_to_end"]["wcet_share_planner"] <= 1.0
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_the_page_comes_from_the_document(document, tmp_path):
    written = write_report("inventories", document, tmp_path / "inventories.json", tmp_path / "inventories.md")
    assert all(path.stat().st_size > 0 for path in written)
    page = (tmp_path / "inventories.md").read_text()
    assert "above at 0 of 6, 0 of them outside of noise; below outside of noise at 0" in page
    assert page.count("timebill - best ratio") == 3


def test_the_command_says_which_model_it_needs(tmp_path):
    result = CliRunner().invoke(app, ["bench", "inventories", "--quick", "--model", str(tmp_path / "nowhere")])
    assert result.exit_code != 0
    assert "MODEL_NOT_FOUND" in f"{result.output}{result.exception}"
