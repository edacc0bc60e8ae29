# SPDX-License-Identifier: Apache-2.0
"""The default policy is not the wrong choice where it was; and the page says what was measured."""

import json
from dataclasses import asdict, replace
from itertools import product

import pytest
from typer.testing import CliRunner

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.time_utility import NORMAL
from llm_planner_lab.bench.overload.benchmark import (
    DEFAULT,
    INTERCEPTS,
    LIMITS,
    LOADS,
    Engine,
    OverloadBench,
    all_cells,
    shortfall,
    urgent_gap,
)
from llm_planner_lab.bench.overload.figures import facts
from llm_planner_lab.bench.timely.metrics import policy_metrics
from llm_planner_lab.cli.bench import app
from llm_planner_lab.reports import write_report
from llm_planner_lab.simulation.records import RequestRecord, RunRecord

SMALL = OverloadBench(num_seeds=1, duration_s=12.0)


def test_the_comparison_covers_what_is_claimed():
    cells = list(all_cells())
    assert len(cells) == len(set(cells)) == 4 * len(INTERCEPTS) * len(LOADS)
    assert {engine.intercept for engine, _ in cells} == set(INTERCEPTS)
    profile = Engine(intercept=1.0, hides_prompts=False).profile
    assert profile.prefill.c_s.value == profile.decode.base_s.value
    assert not profile.hides_prompts
    assert Engine().profile.prefill.c_s.value > 0  # the profile's own


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "load"),
    [
        (Engine(intercept=1.0), 2.0),
        (Engine(intercept=1.0, hides_prompts=False), 1.0),
        (Engine(intercept=1.0, hides_prompts=False), 2.0),
        (Engine(intercept=0.3, hides_prompts=False, reuses_prefixes=False), 1.0),
        (Engine(intercept=0.3, reuses_prefixes=False), 2.0),
        (Engine(hides_prompts=False), 4.0),
    ],
    ids=str,
)
def test_the_default_is_not_the_wrong_choice_where_prompt_chunks_have_a_price(engine, load):
    (row,) = SMALL.comparisons([(engine, load)], ("fcfs_segment", "edf_segment", "pud_printed", "gain_density"))
    assert shortfall(row) <= 1.0
    assert urgent_gap(row) <= 0.0


def test_a_row_says_how_far_the_default_is_off():
    shares = {DEFAULT: (0.5, 0.9), "edf_segment": (0.4, 0.95), "pud": (0.6, 0.2)}
    row = {"policies": {n: {"all": {"share_of_max": a}, "urgent": {"share_of_max": u}} for n, (a, u) in shares.items()}}
    assert shortfall(row) == pytest.approx(10.0)
    assert urgent_gap(row) == pytest.approx(5.0)


def record(error_code, finished_s):
    return RequestRecord(
        request_id="r",
        robot_id="r",
        task=1,
        urgency="normal",
        time_utility=NORMAL,
        arrival_s=0.0,
        bound_s=0.1,
        error_code=error_code,
        finished_s=finished_s,
    )


def test_what_was_shed_is_reported_with_what_was_served():
    records = [record(ErrorCode.LOAD_SHED, 1.6), record(ErrorCode.OVERLOADED, 0.0)]
    metrics = policy_metrics([RunRecord(requests=records, busy_s=0.0, end_s=2.0, num_steps=0)])
    assert metrics["all"]["share_shed"] == 0.5
    assert metrics["all"]["share_served"] == 0.0


def test_shedding_in_an_overload_loses_less_than_serving_all():
    engine, load = Engine(hides_prompts=False, reuses_prefixes=False), 4.0
    kept, shed = (SMALL.metrics(engine, load, replace(LIMITS, sheds_load=sheds)) for sheds in (False, True))
    assert kept["all"]["share_served"] == 1.0
    assert 0.0 < shed["all"]["share_served"] == pytest.approx(1.0 - shed["all"]["share_shed"])
    assert kept["all"]["share_of_max"] < min(0.0, shed["all"]["share_of_max"])


def test_the_command_writes_document_and_page_and_keeps_the_other_part(tmp_path, monkeypatch):
    monkeypatch.setattr("llm_planner_lab.bench.overload.benchmark.LOADS", (0.5,))
    monkeypatch.setattr("llm_planner_lab.bench.overload.benchmark.INTERCEPTS", (0.0,))
    monkeypatch.setattr("llm_planner_lab.bench.overload.benchmark.SCENES", ((Engine(), 0.5),))
    options = ["overload", "--output", str(tmp_path), "--seeds", "1", "--duration", "15"]
    for part in ("factors", "comparison"):
        result = CliRunner().invoke(app, [*options, "--parts", part])
        assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "overload.json").read_text())
    assert len(document["factors"]["rows"]) == 20
    assert len(document["comparison"]["rows"]) == 4
    page = (tmp_path / "overload.md").read_text()
    assert page.count("| `tardiness` |") == 4
    assert "simulated" in page
    write_report("overload", {"factors": document["factors"]}, None, tmp_path / "factors.md")
    assert "What each of the three brings" in (tmp_path / "factors.md").read_text()


def test_what_each_of_the_three_brings_has_a_sign():
    shares = {"tardiness": 0.5, "edf_segment": 0.6, "fcfs_segment": -3.0}
    rows = [
        {
            **asdict(Engine()),
            "load": 4.0,
            "order": order,
            "batch_limit": limit,
            "sheds_load": sheds,
            "all": {"share_of_max": share - 0.2 * (limit == "on") + 0.3 * sheds},
        }
        for (order, share), limit, sheds in product(shares.items(), ("off", "on"), (False, True))
    ]
    (scene,) = facts({"factors": {"rows": rows}})["scenes"]
    assert scene["brings"] == pytest.approx({"order": -10.0, "limit": -20.0, "shedding": 30.0})


def test_a_part_that_does_not_exist_names_those_that_do(tmp_path):
    result = CliRunner().invoke(app, ["overload", "--parts", "all", "--output", str(tmp_path)])
    assert isinstance(result.exception, PlannerError)
    assert "factors, comparison" in result.exception.message
