# SPDX-License-Identifier: Apache-2.0
from llm_planner_lab.bench.turns import rotated


def test_each_turn_begins_with_another_one():
    assert [rotated("abc", turn) for turn in range(4)] == [tuple("abc"), tuple("bca"), tuple("cab"), tuple("abc")]
