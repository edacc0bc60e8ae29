# SPDX-License-Identifier: Apache-2.0
"""What was said, live or in a recording, passed on to a fleet's state; what makes no sense is counted there."""

from llm_planner.core.errors import PlannerError
from llm_planner.core.text import parse_json
from llm_planner.monitoring.fleet import FleetState
from llm_planner.monitoring.robot_view import RobotView
from llm_planner.serving.planner_view import PlannerView


def receive_event(state: FleetState, sender: str, text: str, now_s: float) -> None:
    """Passes on a line of ``~/goal_events``."""
    try:
        line = parse_json(text)
    except ValueError:
        state.receive_broken(sender, now_s)
        return
    state.receive_event(line if isinstance(line, dict) else {}, now_s)


def receive_planner(state: FleetState, sender: str, text: str, now_s: float) -> None:
    """Passes on a planner's ``~/view``."""
    try:
        view = PlannerView.from_json(text)
    except PlannerError:
        state.receive_broken(sender, now_s)
        return
    state.receive_planner(view, now_s)


def receive_robot(state: FleetState, sender: str, text: str, now_s: float) -> None:
    """Passes on a robot's ``~/view``."""
    try:
        view = RobotView.from_json(text)
    except PlannerError:
        state.receive_broken(sender, now_s)
        return
    state.receive_robot(view, now_s)
