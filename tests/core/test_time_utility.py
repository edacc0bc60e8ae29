# SPDX-License-Identifier: Apache-2.0
"""Eq. (1) and TUF_1 of TimelyLLM, section 4.2, and functions by registration."""

import math
import pickle
import sys
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core import time_utility
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import Urgency
from llm_planner.core.time_utility import (
    NORMAL,
    URGENT,
    TimeUtility,
    register_time_utility,
    time_utility_functions,
)

times_s = st.floats(-100, 1e4)
linear = st.builds(TimeUtility, st.floats(0, 100), st.floats(-1e3, 0), st.floats(1e-3, 1e3))
utilities = st.builds(
    TimeUtility,
    st.floats(0, 100),
    st.floats(-1e3, 0),
    st.floats(1e-3, 1e3),
    st.sampled_from(("linear", "step", "exponential")),
)


@contextmanager
def registered(name, function):
    register_time_utility(name, function)
    try:
        yield
    finally:
        del time_utility._functions[name]


@given(utilities, times_s, st.floats(0, 1e4))
def test_it_never_rises_with_time(utility, now_s, later_s):
    assert utility(now_s + later_s) <= utility(now_s)


@given(utilities, st.floats(0, 1))
def test_until_the_expected_response_time_it_is_beta(utility, share):
    assert utility(share * utility.ert_s) == utility.beta


@given(linear, st.floats(0, 1e3))
def test_equation_1_falls_by_alpha_per_second_afterwards(utility, lateness_s):
    expected = min(utility.beta, utility.alpha * lateness_s + utility.beta)
    assert utility(utility.ert_s + lateness_s) == pytest.approx(expected, abs=1e-6 * max(1.0, -utility.alpha))
    assert utility.loss_per_s(lateness_s) == -utility.alpha


@given(utilities, times_s)
def test_a_suspended_generation_inherits_all_but_the_expected_response_time(utility, time_s):
    later = utility.suspended()
    assert (later.ert_s, later.alpha, later.beta, later.function) == (0, utility.alpha, utility.beta, utility.function)
    # TUF_1(t) = min(beta, alpha max(t, 0) + beta): in time while the robot is still at work
    assert later(time_s) == later(max(time_s, 0.0))
    assert later(time_s) == pytest.approx(utility.after_ert(time_s))


@given(utilities, st.floats(0, 1e4))
def test_the_loss_per_second_is_finite_and_never_a_gain(utility, lateness_s):
    assert math.isfinite(utility.loss_per_s(lateness_s))
    assert utility.loss_per_s(lateness_s) >= 0


def test_the_presets_reach_zero_where_the_paper_says():
    assert NORMAL(1.5) == pytest.approx(0)
    assert URGENT(0.5) == pytest.approx(0)
    assert Urgency.CHAT.time_utility == NORMAL


@pytest.mark.parametrize(
    ("ert_s", "alpha", "beta"),
    [
        (1.0, 0.1, 1.0),
        (1.0, -1.0, -1.0),
        (1.0, -1.0, 0.0),
        (-0.1, -1.0, 1.0),
        (math.nan, -1.0, 1.0),
        (1.0, math.nan, 1.0),
        (1.0, -1.0, math.nan),
        (math.inf, -1.0, 1.0),
        (1.0, -math.inf, 1.0),
        (1.0, -1.0, math.inf),
    ],
)
def test_parameters_outside_their_range_are_refused_with_a_number(ert_s, alpha, beta):
    with pytest.raises(PlannerError, match="time utility") as refusal:
        TimeUtility(ert_s, alpha, beta)
    assert refusal.value.code is ErrorCode.INVALID_TIME_UTILITY


def test_a_registered_function_serves_requests_by_its_name():
    with registered("stairs", lambda lateness_s, alpha, beta: beta + alpha * math.floor(lateness_s)):
        utility = TimeUtility(0.5, -1.0, 2.0, "stairs")
        assert [utility(t) for t in (0.5, 1.4, 1.6, 2.6)] == [2.0, 2.0, 1.0, 0.0]
        assert pickle.loads(pickle.dumps(utility)) == utility
        assert "stairs" in time_utility_functions()
    assert "stairs" not in time_utility_functions()


def test_a_jump_counts_before_it_comes():
    firm = TimeUtility(1.0, -1.0, 2.0, "step")
    assert firm.loss_per_s(-0.5) == 2.0
    assert firm.loss_per_s(0.5) == 0.0


@pytest.mark.parametrize(
    "function",
    [
        lambda lateness_s, alpha, beta: beta - 1 / (1 + lateness_s),
        lambda lateness_s, alpha, beta: math.nan,
        lambda lateness_s, alpha, beta: -math.inf,
        lambda lateness_s, alpha, beta: 1 / alpha,
        lambda lateness_s, alpha, beta: math.cos(lateness_s),
        lambda lateness_s, alpha, beta: beta - math.log(beta - lateness_s),
        lambda lateness_s, alpha, beta: (-lateness_s) ** 0.5,
        lambda lateness_s, alpha, beta: None,
    ],
    ids=["rises", "nan", "infinite", "fails", "swings", "has no value", "is complex", "returns nothing"],
)
def test_a_function_that_rises_or_is_not_finite_is_refused(function):
    with pytest.raises(PlannerError) as refusal:
        register_time_utility("broken", function)
    assert refusal.value.code is ErrorCode.INVALID_TIME_UTILITY
    assert "broken" not in time_utility_functions()


def test_a_function_that_breaks_only_with_a_request_s_parameters_refuses_the_request():
    with registered("narrow", lambda lateness_s, alpha, beta: beta if beta < 100 else math.nan):
        assert TimeUtility(1.0, -1.0, 99.0, "narrow")(5.0) == 99.0
        with pytest.raises(PlannerError, match="never rise"):
            TimeUtility(1.0, -1.0, 101.0, "narrow")


@pytest.mark.parametrize("name", ["linear", "step", "no identifier", ""])
def test_a_name_is_an_identifier_and_taken_once(name):
    with pytest.raises(PlannerError, match="taken or is no identifier"):
        register_time_utility(name, lambda lateness_s, alpha, beta: beta)


def test_an_unknown_function_lists_the_known_ones():
    with pytest.raises(PlannerError, match="exponential") as refusal:
        TimeUtility(1.0, -1.0, 1.0, "lottery")
    assert refusal.value.code is ErrorCode.INVALID_TIME_UTILITY


def test_another_package_registers_by_its_entry_point(tmp_path, monkeypatch):
    (tmp_path / "their_utilities.py").write_text("def hold(lateness_s, alpha, beta):\n    return beta\n")
    metadata = tmp_path / "their_utilities-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: their-utilities\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{time_utility.ENTRY_POINTS}]\nhold = their_utilities:hold\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    time_utility._declared.cache_clear()
    try:
        assert TimeUtility(1.0, -1.0, 2.0, "hold")(50.0) == 2.0
    finally:
        time_utility._functions.pop("hold", None)
        sys.modules.pop("their_utilities", None)
        time_utility._declared.cache_clear()


@pytest.mark.parametrize("module", ["import nothing_of_this_name", "raise RuntimeError('no licence')", "hold = None"])
def test_another_package_that_cannot_be_loaded_refuses_the_request(tmp_path, monkeypatch, module):
    (tmp_path / "their_broken.py").write_text(module)
    metadata = tmp_path / "their_broken-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: their-broken\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{time_utility.ENTRY_POINTS}]\nhold_not = their_broken:hold\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    time_utility._declared.cache_clear()
    try:
        with pytest.raises(PlannerError, match="hold_not") as refusal:
            TimeUtility(1.0, -1.0, 2.0, "hold_not")
        assert refusal.value.code is ErrorCode.INVALID_TIME_UTILITY
    finally:
        sys.modules.pop("their_broken", None)
        time_utility._declared.cache_clear()
