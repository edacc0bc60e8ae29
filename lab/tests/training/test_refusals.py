# SPDX-License-Identifier: Apache-2.0
"""Right plans that would be refused."""

from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.tasks.frames import Frame
from llm_planner_lab.training.refusals import refusals

ROBOTS = {name: RobotLibrary().get(name) for name in ("tello", "indy7")}


def frame(sentence, plan):
    return Frame(author="test", robot="tello", sentence=sentence, scene=(), plan=plan)


def test_plans_that_contradict_their_words_are_counted_by_check():
    right = [frame("turn left", "tu(90);"), frame("go to the <cup>", "g(<cup>);"), frame("sing", "fail('no');")]
    wrong = [frame("turn left", "tc(90);"), frame("wait thirty seconds", "d(3);")]
    num_judged, refused = refusals([*right, *wrong], ROBOTS)
    assert num_judged == 4
    assert {name: len(sentences) for name, sentences in refused.items()} == {"direction": 1, "amount": 1}
