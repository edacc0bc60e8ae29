# SPDX-License-Identifier: Apache-2.0
"""Scenarios come from files: what is wrong with them is named."""

from pathlib import Path

import pytest
import rclpy

import llm_planner.msg as msgs
from llm_planner.action import PlanTask
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.robots.world import ObjectRole
from llm_planner.ros import qos
from llm_planner.ros.composition import Composition, Fleet
from llm_planner.ros.scenario import absent_robots, load_scenario
from llm_planner.ros.snapshot import Snapshot
from tests.ros.nodes import Spinner, wait_until

pytestmark = pytest.mark.ros
EXAMPLE = Path(__file__).resolve().parents[2] / "config/scenario_example.yaml"
TIMEOUT_S = 180.0


def test_the_example_is_in_order_and_its_worlds_can_be_entered():
    events = load_scenario(EXAMPLE, "drone_1")
    assert [event.at_s for event in events] == [0.0, 6.0]
    assert events[1].order.urgency == PlanTask.Goal.URGENT
    assert set(Snapshot.from_json(events[0].order.world).world.objects) == {"chair"}
    (arm,) = load_scenario(EXAMPLE, "arm_1")
    assert Snapshot.from_json(arm.order.world).world.objects["bin"].role is ObjectRole.CONTAINER
    assert load_scenario(EXAMPLE, "absent") == []


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("drone_1: [{instruction: go, urgency: SOON}]", "SOON"),
        ("drone_1: [{instruction: go, overrun: HALF}]", "HALF"),
        ("drone_1: [{instruction: go, budget_scope: ALL}]", "ALL"),
        ("drone_1: [{instruction: go, when: 3}]", "when"),
        ("drone_1: [{instruktion: go}]", r"drone_1\.0\.instruktion: there is no such key; did you mean instruction\?"),
        ("drone_1: 3", "drone_1: "),
        ("drone_1: [{at_s: .nan, instruction: go}]", "at_s"),
        ("drone_1: {", "YAML"),
        ("[1, 2]", "list instead of a mapping"),
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


@pytest.mark.parametrize(
    ("started", "said"),
    [
        (["arm_1", "drone_1", "drone_2", "drone_3"], ""),
        (["drone_1"], "tells robots that are not started: drone_2, arm_1; started: drone_1"),
        ([], "tells robots that are not started: drone_1, drone_2, arm_1; started: none"),
    ],
)
def test_robots_that_are_not_started_are_named(started, said):
    assert absent_robots(EXAMPLE, started) == (f"{EXAMPLE} {said}" if said else "")


def test_the_example_succeeds_with_the_bundled_model(ros, tmp_path):
    node = rclpy.create_node("observer")
    outcomes = {name: [] for name in ("drone_1", "drone_2", "arm_1")}
    for name, ended in outcomes.items():
        node.create_subscription(msgs.PlanOutcome, f"/{name}/outcome", ended.append, qos.OUTCOMES)
    spinner = Spinner(node)
    composition = Composition(drones=2, arms=1, scenario=EXAMPLE, time_scale=20.0)
    with Fleet(composition.commands(), log_dir=tmp_path):
        wait_until(lambda: [len(ended) for ended in outcomes.values()] == [2, 1, 1], TIMEOUT_S, "all outcomes")
    spinner.stop()
    node.destroy_node()
    (to_the_chair, warned), (turned,), (placed,) = outcomes.values()
    assert to_the_chair.error_code in (ErrorCode.NONE, ErrorCode.SUPERSEDED)  # by the warning, on a slow machine
    assert [(o.error_code, o.error_msg) for o in (warned, turned, placed)] == [(ErrorCode.NONE, "")] * 3
    assert placed.plan == "pick(red_box);place(red_box,bin);"
    assert {segment.status for segment in placed.segments} == {msgs.SegmentOutcome.SUCCEEDED}
