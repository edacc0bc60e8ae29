# SPDX-License-Identifier: Apache-2.0
"""Tables of what robots ask for: they survive a file, and a bad one is refused with its path."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.time_utility import NORMAL, URGENT
from llm_planner.prediction.capacity import demand as module
from llm_planner.prediction.capacity.demand import Demand, DemandTable, load_demands, write_demands

SIZES = st.floats(1e-6, 1e6)
DEMANDS = st.builds(
    Demand,
    per_s=SIZES,
    num_prompt_tokens=SIZES,
    first_tokens=st.integers(1, 10_000),
    num_tokens=st.integers(1, 10_000),
    time_utility=st.sampled_from([NORMAL, URGENT]),
)


@pytest.fixture
def share(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "share_dir", lambda: tmp_path)
    (tmp_path / "profiles" / "demands").mkdir(parents=True)
    return tmp_path / "profiles" / "demands"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # each example writes the file again
@given(st.lists(DEMANDS, min_size=1, max_size=5))
def test_a_table_survives_a_file(share, demands):
    write_demands(DemandTable(robot_model="r", description="drawn", demands=tuple(demands)), share / "r.yaml")
    assert load_demands("r") == tuple(demands)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("demands: []", "robot_model"),
        ("{robot_model: r, description: d, demands: []}", "at least one"),
        ("{robot_model: r, description: d, demands: [{per_s: -1}]}", "demands.0"),
        ("[", "YAML"),
    ],
)
def test_a_bad_table_is_refused_with_its_file(share, text, message):
    (share / "bad.yaml").write_text(text)
    with pytest.raises(PlannerError, match=message) as error:
        load_demands("bad")
    assert "bad.yaml" in error.value.message
    assert error.value.code is ErrorCode.INVALID_FILE


def test_a_robot_without_a_table_is_refused_with_those_that_have_one():
    with pytest.raises(PlannerError, match=r"for indy7, tello \["):
        load_demands("unicorn")
