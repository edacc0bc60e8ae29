# SPDX-License-Identifier: Apache-2.0
"""What the task families and the stories say is never taken for a model that is stuck."""

import random

from llm_planner.planning.repetition import AnswerWatch, TextWatch
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.simulation.workload import compose, workload
from llm_planner_lab.tasks.sample import FAMILY_NAMES, sample
from tests.planning.test_repetition import stops_at


def test_the_reference_plan_of_every_family_passes():
    rng = random.Random(0)
    for family in FAMILY_NAMES:
        for _ in range(10):
            assert stops_at(sample(rng, family=family).plan) is None


def test_the_stories_of_the_chat_preset_pass():
    trace = compose(workload("chat"), 0, RobotLibrary())
    chats = [request for request in trace.requests if request.urgency == "chat"]
    assert chats
    assert all(stops_at(request.plan, AnswerWatch) is None for request in chats)


def test_the_texts_of_reference_plans_pass():
    rng = random.Random(1)
    plans = [sample(rng, family=family).plan for family in FAMILY_NAMES for _ in range(10)]
    assert all(stops_at(plan, TextWatch) is None for plan in plans)
