# SPDX-License-Identifier: Apache-2.0
"""What counts as a resumption, whose KV was gone, and the page that says how often robots waited."""

import json
from dataclasses import asdict

import pytest
from typer.testing import CliRunner

from llm_planner.core.errors import PlannerError
from llm_planner_lab.bench import resumption
from llm_planner_lab.bench.resumption import ResumptionBench, Scene
from llm_planner_lab.cli.bench import app
from llm_planner_lab.simulation.backend import KVReturn

SMALL = ResumptionBench(num_seeds=2, duration_s=12.0)
SCARCE = Scene(num_kv_blocks=200)


def resumed(scene):
    return [found for s in SMALL.simulators(scene, "tardiness") for found in resumption.resumptions(s, s.run())]


def test_segments_behind_a_suspension_are_told_from_those_without():
    runs = [simulator.run() for simulator in SMALL.simulators(Scene(), "tardiness")]
    later = [wait_s for run in runs for record in run.requests for wait_s in record.later_waits_s]
    assert 0 < len(resumed(Scene())) < len(later)
    runs = [simulator.run() for simulator in SMALL.simulators(Scene(), "fcfs_stream")]
    assert not any(record.resumptions for run in runs for record in run.requests)  # it never suspends


@pytest.mark.parametrize(
    ("scene", "returns"),
    [
        (Scene(), {KVReturn.NOTHING}),
        (SCARCE, {KVReturn.NOTHING, KVReturn.RESTORED}),
        (Scene(num_kv_blocks=200, can_offload=False), {KVReturn.NOTHING, KVReturn.RECOMPUTED}),
    ],
    ids=["enough memory", "offloaded", "dropped"],
)
def test_a_resumption_says_where_its_kv_came_from(scene, returns):
    assert {kv_return for kv_return, _ in resumed(scene)} == returns


def test_waits_are_shares_and_means_of_what_there_is():
    assert resumption.waits([]) == {"n": 0, "share_waited": None, "mean_wait_s": None}
    waits = resumption.waits([0.0, 0.0005, 0.2, 0.1])
    assert waits["share_waited"] == 0.5
    assert waits["mean_wait_s"] == pytest.approx(0.300_5 / 4)


def test_the_command_keeps_runs_of_other_names_and_shows_them_side_by_side(tmp_path, monkeypatch):
    monkeypatch.setattr(resumption, "SCENES", (Scene(workload="wid1"), SCARCE))
    for label in ("before", "after"):
        arguments = ["resumption", "--output", str(tmp_path), "--label", label, "--seeds", "2", "--duration", "12"]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "resumption.json").read_text())
    assert list(document) == ["before", "after"]
    assert document["before"]["rows"] == document["after"]["rows"]  # the same seeds, the same run
    page = (tmp_path / "resumption.md").read_text()
    assert "before: waited" in page
    assert page.count("| wid2 4x, 200 blocks, KV offloaded | `tardiness` |") == 2


def run_of(scenes, **about):
    rows = [{**asdict(scene), "policy": policy, "of": (scene, policy)} for scene in scenes for policy in ("a", "b")]
    return {"profile": "p", "seeds": 2, "first_seed": 300, "duration_s": 12.0, **about, "rows": rows}


def test_rows_stand_beside_those_of_the_same_scene_and_policy():
    scenes = [Scene(), SCARCE, Scene(workload="wid1")]
    sides = resumption.facts({"before": run_of(scenes), "after": run_of(scenes[::-1])})["sides"]
    assert len(sides) == 6
    assert all(side["before"]["of"] == side["after"]["of"] for side in sides)


@pytest.mark.parametrize("other", [{"seeds": 3}, {"first_seed": 0}, {"duration_s": 60.0}, {"profile": "q"}], ids=str)
def test_runs_of_other_traces_or_engines_do_not_stand_side_by_side(other):
    with pytest.raises(PlannerError, match=f"different {next(iter(other))}"):
        resumption.facts({"before": run_of([Scene()]), "after": run_of([Scene()], **other)})


def test_that_is_said_before_anything_runs(monkeypatch):
    monkeypatch.setattr(ResumptionBench, "rows", lambda _: pytest.fail("it runs"))
    with pytest.raises(PlannerError, match=r"different profile .*before: p, now: llama3-8b-rtx4090"):
        SMALL.document("now", {"before": run_of([Scene()])})
