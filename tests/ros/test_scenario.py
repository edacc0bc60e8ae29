"""Scenarios come from files: what is wrong with them is named."""

from pathlib import Path

import pytest

from llm_planner.action import PlanTask
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.robots.world import ObjectRole
from llm_planner.ros.scenario import load_scenario
from llm_planner.ros.snapshot import Snapshot

pytestmark = pytest.mark.ros
EXAMPLE = Path(__file__).resolve().parents[2] / "config/scenario_example.yaml"


def test_the_example_is_in_order_and_its_worlds_can_be_entered():
    events = load_scenario(EXAMPLE, "drone_1")
    assert [event.at_s for event in events] == [0.0, 6.0]
    assert events[1].order.urgency == PlanTask.Goal.URGENT
    assert set(Snapshot.from_json(events[0].order.world).world.objects) == {"chair"}
    (arm,) = load_scenario(EXAMPLE, "arm_1")
    assert Snapshot.from_json(arm.order.world).world.objects["bin"].role is ObjectRole.CONTAINER
    assert load_scenario(EXAMPLE, "nobody") == []


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("drone_1: [{instruction: go, urgency: SOON}]", "SOON"),
        ("drone_1: [{instruction: go, overrun: HALF}]", "HALF"),
        ("drone_1: [{instruction: go, budget_scope: ALL}]", "ALL"),
        ("drone_1: [{instruction: go, when: 3}]", "when"),
        ("drone_1: [{at_s: .nan, instruction: go}]", "at_s"),
        ("drone_1: {", "YAML"),
        ("[1, 2]", "object"),
    ],
)
def test_a_broken_scenario_names_its_fault(tmp_path, text, part):
    path = tmp_path / "scenario.yaml"
    path.write_text(text)
    with pytest.raises(PlannerError, match=part) as caught:
        load_scenario(path, "drone_1")
    assert caught.value.code is ErrorCode.INVALID_FILE


def test_a_missing_scenario_is_named(tmp_path):
    with pytest.raises(PlannerError, match="nowhere"):
        load_scenario(tmp_path / "nowhere.yaml", "drone_1")
