# SPDX-License-Identifier: Apache-2.0
"""Which verbs a model is taught: nearly all of people it never heard, and few of what no robot can do."""

import random

from llm_planner.checkpoints import taught_verbs
from llm_planner.core.config import EngineConfig, PlannerConfig
from llm_planner.planning.instruction.names import bare_words
from llm_planner.planning.instruction.verbs import VerbCheck, verbs_of_things
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.tasks.frames import CORPUS, HELD_OUT_AUTHORS, Frame, corpus, of_authors, read_frames
from llm_planner_lab.tasks.spoken import literal
from llm_planner_lab.training.refusals import judged
from llm_planner_lab.training.verbs import taught_verbs as of_orders
from llm_planner_lab.training.verbs import trained_frames

LAST_AUTHOR = 222  # of the bundled weights (lab/corpus/README.md)
ROBOTS = {name: RobotLibrary().get(name) for name in ("tello", "indy7")}
TAUGHT = taught_verbs(PlannerConfig(engine=EngineConfig(model="planner-small")))


def test_the_bundled_model_has_the_verbs_of_the_authors_on_whom_it_was_trained():
    frames = trained_frames(LAST_AUTHOR)
    assert len({frame.author for frame in frames}) == 214
    for name, verbs in of_orders(frames[::40]).items():
        assert verbs
        assert TAUGHT[name].issuperset(verbs.split())


def test_orders_teach_their_verbs_and_refusals_do_not():
    frames = [
        Frame(author="one", robot="indy7", sentence=sentence, scene=(), plan=plan)
        for sentence, plan in [
            ("push the <cup> to the left", "push(<cup>,left_area);"),
            ("peel the <apple>", "fail('I cannot peel');"),
            ("watch the <lamp>, it's hot, and take the <pen>", "pick(<pen>);"),
        ]
    ]
    assert of_orders(frames) == {"tello": "", "indy7": "push take"}


def test_hardly_any_order_of_people_it_never_heard_is_refused():
    unheard = [*of_authors(corpus(), HELD_OUT_AUTHORS)]
    unheard += [o for path in CORPUS.with_name("orders").rglob("*.txt") for o in read_frames(path)]
    num_judged = num_refused = 0
    for plan in judged(unheard, ROBOTS):
        task = plan.task
        num_judged += 1
        check = VerbCheck(ROBOTS[task.robot], task.instruction, task.scene, TAUGHT[task.robot])
        num_refused += bool(plan.refused_by([check]))
    assert num_judged > 1500
    assert num_refused / num_judged <= 0.005


def test_most_of_what_a_robot_cannot_do_to_a_thing_has_a_verb_that_it_was_not_taught():
    rng = random.Random(0)
    num_impossible = num_unknown = 0
    for frame in corpus():
        if not frame.plan.startswith("fail(") or "too " in frame.plan or "<" not in frame.sentence:
            continue
        task = literal(rng, frame, has_scene=False)
        things = {"_".join(bare_words(thing.name)) for thing in task.objects} | {thing.name for thing in task.objects}
        verbs = [verb for verb, _ in verbs_of_things(task.instruction, things)]
        if verbs:
            num_impossible += 1
            num_unknown += any(verb not in TAUGHT[frame.robot] for verb in verbs)
    assert num_impossible > 300
    assert num_unknown / num_impossible >= 0.5
