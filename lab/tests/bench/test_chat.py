# SPDX-License-Identifier: Apache-2.0
import json

import pytest
from typer.testing import CliRunner

from llm_planner.core.errors import PlannerError
from llm_planner_lab.bench.chat import ChatBench, run_chat
from llm_planner_lab.cli.bench import app


def test_three_ways_to_answer_on_the_same_chats():
    lines = []
    document = run_chat(ChatBench(policies=("tardiness",), num_seeds=1, duration_s=30.0), lines.append)
    assert list(document["ways"]) == ["whole answer", "paragraphs, tardiness", "sentences, tardiness"]
    assert document["engine"] == "simulated"
    assert [line.split()[0] for line in lines] == ["whole", "paragraphs,", "sentences,"]
    whole, paragraphs, sentences = document["ways"].values()
    assert whole["n"] == paragraphs["n"] == sentences["n"] > 0
    assert sentences["utility_mean"] > paragraphs["utility_mean"] > whole["utility_mean"]
    assert sentences["waiting_time_s"]["mean"] < whole["waiting_time_s"]["mean"]


def test_an_unknown_policy_is_refused_before_anything_runs():
    with pytest.raises(PlannerError, match="lottery"):
        ChatBench(policies=("lottery",))


def test_the_page_shows_each_way_against_whole_answers(tmp_path):
    arguments = ["chat", "--policies", "tardiness", "--seeds", "2", "--duration", "30", "--output", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "chat.json").read_text())
    page = (tmp_path / "chat.md").read_text()
    assert f"2 traces\n(seeds from 0) of 30 s each, {document['ways']['whole answer']['n']} chats in all" in page
    assert all(f"| {way} | {metrics['utility_mean']:.3f} " in page for way, metrics in document["ways"].items())
