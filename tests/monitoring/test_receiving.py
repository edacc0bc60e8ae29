# SPDX-License-Identifier: Apache-2.0
"""Whatever is said on the topics of a planner and its robots, a fleet's state can be shown."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.monitoring import receiving
from llm_planner.monitoring.fleet import FleetState
from tests.monitoring.lines import lines
from tests.ros.hostile import texts

RECEIVERS = (receiving.receive_event, receiving.receive_planner, receiving.receive_robot)


@given(st.lists(st.tuples(st.sampled_from(RECEIVERS), lines()), max_size=12))
@settings(max_examples=400)
def test_any_line_leaves_a_state_that_can_be_shown(said):
    state, revisions = FleetState(), None
    for number, (receive, text) in enumerate(said):
        receive(state, "/planner", text, float(number))
        document = state.document(float(number), revisions)
        revisions = document["revisions"]
        json.dumps(document, allow_nan=False)


@given(st.lists(st.tuples(texts(), texts(), texts(), st.booleans()), max_size=5))
def test_any_reflex_and_diagnosis_leave_a_state_that_can_be_shown(said):
    state = FleetState()
    for robot_id, reason, action, is_over in said:
        state.receive_reflex(robot_id, reason, action, is_over=is_over, now_s=1.0)
        state.receive_diagnostic(robot_id, 2, reason, 1.0)
        assert len(json.dumps(state.document(1.0), allow_nan=False)) < 100_000
