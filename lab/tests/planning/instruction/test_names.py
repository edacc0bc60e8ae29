# SPDX-License-Identifier: Apache-2.0
"""Names and words of a plan against those of its instruction."""

import random

import pytest

from llm_planner.core.errors import PlannerError
from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.planning.instruction.names import NameCheck
from llm_planner.planning.instruction.verdict import Verdict
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.tasks.frames import corpus
from llm_planner_lab.tasks.spoken import literal

LIBRARY = RobotLibrary()


def problem(instruction, plan, scene="", robot="tello", **options):
    check, gate = NameCheck(LIBRARY.get(robot), instruction, scene, **options), SafetyGate(LIBRARY.get(robot))
    verdicts = [check.feed(gate.admit(statement), to_text(statement)) for statement in parse(plan)]
    assert bool(check.problem) == (Verdict.CONTRADICTED in verdicts)
    return check.problem


def test_nothing_is_put_on_itself():
    assert (
        problem("put the mug on the mug", "pick(mug);place(mug,mug);", robot="indy7") == "the plan brings mug to itself"
    )
    assert problem("push the mug to the cup", "push(mug,cup);", robot="indy7") == ""


@pytest.mark.parametrize(
    ("instruction", "said", "is_right"),
    [
        ("if the person is visible, say hi to them", "hi to them", False),
        ("if the person is visible, say hi to them", "hi", True),
        ("say good morning to her, please", "good morning to her", False),
        ("then wave goodbye in words", "goodbye in words", False),
        ("say stop out loud", "stop out loud", False),
        ('say "give it to them"', "give it to them", True),
        ("say welcome to the depot", "welcome to the depot", True),
        ("yell when you see it", "when you see it", False),
        ("say if only", "if only", True),
        ("if you find no bolt, tell me so", "so", False),
        ("has the rope gone? say yes or no", "yes or no", False),
        ("is it wet? just say it, please", "it, please", False),
        ("look through the window and say what you see", "what you see", False),
        ("say which one", "which one", False),
        ('say "yes or no"', "yes or no", True),
        ("say so long", "so long", True),
        ("say that will do", "that will do", True),
        ("say yes", "yes", True),
        ("call the master with please come to me", "please come to me", True),
    ],
)
def test_whom_to_say_it_to_is_not_said(instruction, said, is_right):
    assert (not problem(instruction, f"l('{said}');", says_only_what_is_asked=True)) == is_right


@pytest.mark.parametrize(
    ("asked", "is_right"),
    [
        ("does the meter show 40", True),
        ("does the meter show forty", True),
        ("does the meter show 14", False),
        ("does the meter show fourteen", False),
        ("what does the meter show", True),
    ],
)
def test_what_is_asked_has_the_numbers_of_the_instruction(asked, is_right):
    plan = f"->p('{asked}');"
    assert (not problem("is the meter at forty?", plan, says_only_what_is_asked=True)) == is_right
    assert not problem("is the meter at forty?", plan)
    assert not problem("is the meter broken?", plan, says_only_what_is_asked=True)


def test_nothing_is_put_on_what_lies_on_it():
    stack = "stack the mug, the bowl and the lid"
    around = "pick(mug);place(mug,bowl);pick(bowl);place(bowl,lid);pick(lid);place(lid,mug);"
    assert problem(stack, around, robot="indy7") == "the plan puts lid on what lies on it"
    tower = "pick(bowl);place(bowl,lid);pick(mug);place(mug,bowl);"
    assert problem(stack, tower, robot="indy7") == ""
    taken_off = "pick(mug);place(mug,bowl);push(mug,left_area);pick(bowl);place(bowl,mug);"
    assert problem(f"{stack} on the left", taken_off, robot="indy7") == ""
    either = "?iv(lid){pick(mug);place(mug,bowl);}?iv(lid)==False{pick(bowl);place(bowl,mug);}"
    assert problem(stack, either, robot="indy7") == ""


def test_what_is_quoted_is_said_as_a_whole():
    instruction = 'say "enjoy the show, everybody" and land'
    assert "enjoy the show" in problem(instruction, "l('enjoy the show');ld();", says_only_what_is_asked=True)
    assert problem(instruction, "l('enjoy the show, everybody');ld();", says_only_what_is_asked=True) == ""
    assert problem("say enjoy the show and land", "l('enjoy the show');", says_only_what_is_asked=True) == ""
    either = 'say "bake" or "do not bake"'
    assert problem(either, "l('bake');", says_only_what_is_asked=True) == ""
    twice = 'say "hello there" to her and hello to me'
    assert problem(twice, "l('hello');", says_only_what_is_asked=True) == ""


def test_what_is_of_a_kind_may_be_looked_for():
    plan = "?iv(cup){pick(cup);place(cup,tray);}"
    assert problem("clean up the desk", plan, robot="indy7") == ""
    assert problem("clean up the desk", "pick(cup);place(cup,tray);", robot="indy7") != ""  # not looked for
    assert "itself" in problem("clean up the desk", "?iv(cup){pick(cup);place(cup,cup);}", robot="indy7")
    assert problem("clean up the desk", plan, "pen, tray", "indy7") != ""  # the scene has none
    assert problem("put the pen on the tray", plan, robot="indy7") != ""


def test_somebody_is_a_person():
    assert problem("if anybody is at the lift say hello", "?iv(person){l('hello');}") == ""
    assert problem("if the guest is at the lift say hello", "?iv(person){l('hello');}") != ""


def test_an_arm_uses_the_name_that_the_scene_has():
    instruction, scene = "put the nut on the clean cloth", "nut at (0.4, 0.1); cloth"
    plan = "pick(nut);place(nut,{});"
    assert problem(instruction, plan.format("clean_cloth"), scene, "indy7") == "the scene has cloth, and no clean_cloth"
    assert problem(instruction, plan.format("cloth"), scene, "indy7") == ""
    assert problem(instruction, plan.format("clean_cloth"), "nut", "indy7") == ""  # nothing that it could be
    assert problem(instruction, plan.format("clean_cloth"), "", "indy7") == ""
    name = "the_10_mm_pin"
    assert problem("take the 10 mm pin", f"pick({name});", name, "indy7") == ""
    assert problem("go to the red sofa", "g(red_sofa);", "blue_sofa") == ""  # a drone looks for it


def test_an_arm_may_look_for_what_its_scene_lacks():
    instruction, scene = "if the big cup is there put it on the tray, otherwise the small one", "small_cup, tray"
    plan = "_1=iv(big_cup);?_1{{pick(big_cup);place(big_cup,{});}}?_1==False{{pick(small_cup);place(small_cup,tray);}}"
    assert problem(instruction, plan.format("tray"), scene, "indy7") == ""
    assert problem(instruction, plan.format("shelf"), scene, "indy7") != ""  # not spoken of
    assert problem(instruction, "pick(big_cup);", scene, "indy7") == "the scene has small_cup, and no big_cup"
    cloth = problem("if you see the clean cloth take it", "?iv(clean_cloth){pick(clean_cloth);}", "cloth", "indy7")
    assert cloth == "the scene has cloth, and no clean_cloth"


@pytest.mark.parametrize(
    ("instruction", "plan", "scene", "robot"),
    [
        ("go to the curtain rail", "g(curtain_rail);", "", "tello"),
        ("face the dogs", "o(dog);", "", "tello"),
        ("is there still a 25 mm clip", "->iv(the_25_mm_clip);", "", "indy7"),
        ("have a look at the cr\u00e8me br\u00fbl\u00e9e", "o(creme_brulee);", "", "tello"),
        ("stack the red, white and blue cups", "pick(white_cup);place(white_cup,red_cup);", "", "indy7"),
        ("stack the red and blue boxes", "pick(blue_box);place(blue_box,red_box);", "", "indy7"),
        ("look at that", "o(cat_2);", "cat_2 at (1, 2), dog", "tello"),
        ("to the left with the cup", "pick(cup);place(cup,left_area);", "", "indy7"),
        ("look for something to sit on", "_1=sa('something to sit on');g(_1);", "", "tello"),
    ],
)
def test_what_was_spoken_of_or_seen_passes(instruction, plan, scene, robot):
    assert problem(instruction, plan, scene, robot) == ""


@pytest.mark.parametrize(
    ("instruction", "plan", "scene", "robot"),
    [
        ("go to the curtain rail", "g(curtainrail);", "", "tello"),
        ("pick up the denture pot", "pick(den_ture_pot);", "", "indy7"),
        ("go to the sofa", "g(chair);", "sofa, table", "tello"),
        ("take the mug or the cup", "pick(mug_cup);", "", "indy7"),
        ("get the salt", "?iv(pepper){pick(salt);}", "salt", "indy7"),
    ],
)
def test_what_was_not_is_refused(instruction, plan, scene, robot):
    assert "neither the scene nor the instruction has" in problem(instruction, plan, scene, robot)


def test_a_model_that_copies_says_what_stands_there():
    said = {"says_only_what_is_asked": True}
    assert problem("tell them we're closing at five", "l('we\\'re closing at five');", **said) == ""
    assert problem("tell them we close at five", "l('kindly close at five');", **said) != ""
    assert problem("tell them we close at five", "l('kindly close at five');") == ""


def test_hardly_a_plan_of_the_authors_is_refused():
    flagged, frames = [], corpus()
    for frame in frames:
        task = literal(random.Random(0), frame, has_scene=False)
        try:
            found = problem(task.instruction, task.plan, task.scene, task.robot, says_only_what_is_asked=True)
        except PlannerError:  # too far from where it starts
            continue
        if found:
            flagged.append((task.instruction, found))
    assert len(flagged) <= len(frames) / 1000, flagged
