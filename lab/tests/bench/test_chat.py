# SPDX-License-Identifier: Apache-2.0
import pytest

from llm_planner.core.errors import PlannerError
from llm_planner_lab.bench.chat import ChatBench, run_chat


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
