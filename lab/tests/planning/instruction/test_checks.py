# SPDX-License-Identifier: Apache-2.0
"""Right plans of sensible orders pass the checks, whatever their words look like."""

from pathlib import Path

from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.tasks.frames import ROBOTS, read_frames
from llm_planner_lab.training.refusals import refusals

MISTAKABLE = Path(__file__).parents[3] / "orders" / "mistakable.txt"


def test_few_sensible_orders_are_mistaken():
    library = RobotLibrary()
    num_judged, refused = refusals(read_frames(MISTAKABLE), {name: library.get(name) for name in ROBOTS})
    assert num_judged >= 310
    assert sum(map(len, refused.values())) <= 24, refused
