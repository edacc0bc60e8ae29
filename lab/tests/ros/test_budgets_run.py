# SPDX-License-Identifier: Apache-2.0
"""A short ``llm-planner bench budgets``: planner, engine, load and robot in processes of their own."""

import pytest

from llm_planner_lab.ros.budgets import BudgetsBench, run_budgets

pytestmark = pytest.mark.ros


def test_a_short_run_counts_every_emergency():
    bench = BudgetsBench(budgets_s=(2.0, 0.001), trials=5, robots=4, slots=2, engine="fake")
    document = run_budgets(bench, lambda *_: None)
    long, short = document["budgets"]
    assert [row["sent"] for row in document["budgets"]] == [5, 5]
    assert long["admitted"] == 5
    assert short["refused"] == 5
    assert document["all"]["sent"] == 10
    assert document["load"]["share_of_time_all_slots_wanted"] > 0.5  # the load has not ended
