# SPDX-License-Identifier: Apache-2.0
"""Orders within larger ones, and scenes with other names: executed, and right by the planner's own checks."""

import random
from collections import Counter

import pytest

from llm_planner.demo.outcome import execute, refusal
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.tasks.composed import composed
from llm_planner_lab.tasks.frames import HELD_OUT_AUTHORS, Frame, corpus, nouns, of_authors
from llm_planner_lab.tasks.renamed import renamed
from llm_planner_lab.tasks.spoken import literal
from llm_planner_lab.training.refusals import refusals

ROBOTS = {name: RobotLibrary().get(name) for name in ("tello", "indy7")}
FRAMES = of_authors(corpus(), HELD_OUT_AUTHORS, is_in=False)


def frame(sentence, plan, robot="indy7", scene=(), **changes):
    return Frame(author="test", robot=robot, sentence=sentence, scene=scene, plan=plan, **changes)


def all_of(one):
    rng = random.Random(0)
    made = [composed(rng, one, lambda r: r.choice(("spoon", "vase", "drum", "fork"))) for _ in range(600)]
    return {(f.sentence, f.scene, f.plan) for f in made if f != one}


def assert_right(frames):
    """Asserts that plans are executed where the gate lets them, and that the checks find nothing wrong with them."""
    judged, refused = refusals(frames, ROBOTS)
    assert judged > 0.5 * len(frames)  # one that asks back is not judged
    assert sum(map(len, refused.values())) <= 0.01 * judged, refused
    for one in frames:
        task = literal(random.Random(0), one, has_scene=False)
        if (why := refusal(task, task.plan, ROBOTS[task.robot])) is not None and why:
            assert "GEOFENCE_VIOLATED" in why or "PLAN_TOO_LONG" in why, (task, why)
            continue
        outcome = execute(task, task.plan, ROBOTS[task.robot]).outcome
        is_room = "there is no room" not in outcome.reason
        assert outcome.is_success or outcome.has_given_up or not is_room, (task, outcome.reason)


def test_orders_of_the_corpus_can_be_parts_of_larger_ones():
    rng, things = random.Random(1), {robot: nouns(FRAMES, robot) for robot in ROBOTS}
    drawn = rng.sample(FRAMES, 20_000)
    larger = [composed(rng, f, lambda r, f=f: r.choice(things[f.robot]).lower()) for f in drawn]
    changed = [new for new, old in zip(larger, drawn, strict=True) if new != old]
    assert len(changed) > 1300
    assert_right(changed)


def test_sentences_about_a_scene_can_be_about_other_things():
    rng = random.Random(2)
    drawn = [f for f in rng.sample([f for f in FRAMES if f.scene], 300) if not refusals([f], ROBOTS)[1]]
    changed = [new for new, old in zip([renamed(rng, f) for f in drawn], drawn, strict=True) if new != old]
    assert len(changed) > 180
    assert_right(changed)


def test_the_same_words_change_in_sentence_scene_and_plan():
    one = frame("Not the red cups, the blue Cup", "pick(blue_cup);", scene=("red_cup", "blue_cup", "tray"))
    for seed in range(20):
        new = renamed(random.Random(seed), one)
        red, blue = (name.split("_") for name in new.scene[:2])
        assert red[1] == blue[1] != "cup"
        assert red[0] != blue[0]
        assert new.scene[2] == "tray"  # nobody speaks of it
        assert new.plan == f"pick({'_'.join(blue)});"
        assert new.sentence.lower().startswith(f"not the {red[0]} {red[1]}")
        assert new.sentence.lower().endswith(f"the {blue[0]} {blue[1]}")


@pytest.mark.parametrize(
    "one",
    [
        frame("pick up the <cup>", "pick(<cup>);"),  # no scene
        frame("sides keep their names: the left <cup>", "pick(<cup>);", scene=("left_cup", "right_cup")),
        frame("what one drinks from", "pick(mug);", scene=("mug", "pen")),
    ],
)
def test_what_shares_no_word_with_its_scene_stays(one):
    assert renamed(random.Random(0), one) == one


def test_an_order_for_several_things():
    made = all_of(frame("Put the <cup> on the <tray>.", "pick(<cup>);place(<cup>,<tray>);"))
    plans = Counter(plan for _, _, plan in made)
    assert "pick(<cup>);place(<cup>,<tray>);pick(<spoon>);place(<spoon>,<drum>);" in plans
    (sentence,) = {
        s for s, _, p in made if s.startswith("Put the <cup> on the <tray>, the <spoon> on the <drum>.")
    } or {""}
    assert sentence


def test_what_is_said_of_it_is_said_of_them():
    made = all_of(frame("Take the <cup> and bin it", "pick(<cup>);place(<cup>,bin);"))
    lists = [s for s, scene, p in made if not scene and p.count("pick(") == 2]
    assert lists
    assert all("bin them" in s for s in lists)


def test_the_other_one_of_two_things():
    made = all_of(frame("go to the <door>", "g(<door>);", "tello"))
    others = [(s, scene, p) for s, scene, p in made if "other" in s and scene]
    assert others
    for sentence, (out, meant), plan in others:
        assert plan == f"g({meant});"
        assert out.split("_")[0] in sentence
        assert meant.split("_")[0] not in sentence


def test_all_but_one():
    made = all_of(frame("take a picture of the <door>", "o(<door>);tp();", "tello"))
    but = [(s, scene, p) for s, scene, p in made if "all" in s and len(scene) > 1 and p.count("tp") == len(scene) - 1]
    assert but
    for sentence, scene, plan in but:
        assert scene[-1].split("_")[0] in sentence
        assert scene[-1] not in plan


def test_in_a_case_only():
    made = all_of(frame("Go home.", "home();"))
    tests = {p.partition("{")[0] for _, _, p in made}
    assert tests == {f"?iv(<{x}>){no}" for x in ("spoon", "vase", "drum", "fork") for no in ("", "==False")}
    unless = {p for s, _, p in made if "nless" in s}
    assert unless
    assert all("==False" in plan for plan in unless)


@pytest.mark.parametrize(
    "one",
    [
        frame("if it is free, put the <cup> on the <tray>", "pick(<cup>);place(<cup>,<tray>);"),
        frame("the <cup> in your hand goes on the <tray>", "place(<cup>,<tray>);"),
        frame("watch out, the <cup>", "stop();", is_danger=True),
        frame("do you see the <cup>", "->iv(<cup>);"),
    ],
)
def test_what_is_no_plain_order_stays(one):
    assert all_of(one) == set()


def test_the_plural_leaves_names_alone():
    made = all_of(frame("turn to the <post it> and photograph it", "o(<post it>);tp();", "tello"))
    several = [sentence for sentence, _, plan in made if plan.count("tp(") > 1 and "{" not in plan]
    assert any(sentence.endswith("photograph them") for sentence in several)
    assert all("<post it>" in sentence for sentence in several if "<" in sentence)


def test_a_hand_that_stays_full_is_asked_for_one_thing():
    held = frame("move over the <cup>, then lift it", "move_to(<cup>);pick(<cup>);")
    assert not any(plan.count("pick(") > 1 for _, scene, plan in all_of(held) if not scene)
