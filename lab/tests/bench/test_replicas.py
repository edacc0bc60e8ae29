# SPDX-License-Identifier: Apache-2.0
"""The benchmark of replicas, with scripted plans."""

import pytest

from llm_planner.core.config import PlannerConfig
from llm_planner_lab.bench.replicas import ReplicaBench, run_replicas
from llm_planner_lab.reports import render


@pytest.fixture(scope="module")
def document():
    config = PlannerConfig(backend="fake")
    return run_replicas(ReplicaBench(config=config, num_robots=4, duration_s=2.0, num_repeats=1))


def test_one_engine_and_two_serve_the_same_robots(document):
    assert set(document["runs"]) == {"1", "2"}
    for run in document["runs"].values():
        assert run["goals_per_s"] > 0
        assert 0 < run["first_segment_p50_s"] <= run["first_segment_p99_s"]
        assert 0 <= run["cpu"]["host"] <= 2.0
    assert document["ratio"]["least"] <= document["ratio"]["median"] <= document["ratio"]["most"]


def test_no_goal_is_lost_when_an_engine_is_killed(document):
    killed = document["killed"]
    assert killed["num_ended"] == killed["num_under_way"] == 4
    assert killed["num_failed"] == killed["num_repeated_segments"] == 0
    assert killed["num_restarts"] == 1


def test_the_page_says_what_two_bring(document):
    page = render("replicas", document)
    assert f"**{document['ratio']['median']:.2f} times**" in page
    assert "4 goals were under way in all engines. 4 of them ended, 0 with ENGINE_FAILED" in page
