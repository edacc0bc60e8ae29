# SPDX-License-Identifier: Apache-2.0
"""A short run of the campaign of fuzzed plans, and proof that it notices what it looks for."""

import os

import pytest

from llm_planner.planning.safety.forecast import Forecast
from llm_planner.planning.safety.types import TypeChecker
from llm_planner.robots import arm
from llm_planner.robots.mobile import MobileBody
from tests.planning.campaign import judge, judge_many

NUM_PLANS = int(os.environ.get("FUZZED_PLANS", "0"))


def test_no_fuzzed_plan_escapes():
    counts, escapes = judge_many(seed=1, first=0, count=1_500)
    assert not escapes, escapes[0]
    assert counts["poses"] > 5_000
    assert {counts[name, "carried out"] > 50 for name in ("tello", "indy7")} == {True}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not NUM_PLANS, reason="FUZZED_PLANS says how many")
def test_none_of_very_many_escapes():
    _, escapes = judge_many(seed=2, first=0, count=NUM_PLANS)
    assert not escapes, escapes[0]


@pytest.mark.parametrize(
    ("broken", "name", "replacement"),
    [
        (arm, "straight_legs", lambda _space, _begin, end: (end,)),
        (Forecast, "_checked", lambda _self, _skill, _before, after: after),
        (MobileBody, "_permitted", lambda _self, pose: pose),
        (TypeChecker, "calls", lambda _self, _call, _variables, _depth=1: iter(())),
    ],
)
def test_the_campaign_notices_what_is_broken(monkeypatch, broken, name, replacement):
    monkeypatch.setattr(broken, name, replacement)
    verdicts = (judge(3, number) for number in range(4_000))
    assert any(verdict.escape for verdict in verdicts)


def test_a_plan_can_be_run_again():
    assert [judge(4, number) for number in range(20)] == [judge(4, number) for number in range(20)]
