# SPDX-License-Identifier: Apache-2.0
"""Things that an instruction rules out or takes back against those that its plan acts on."""

import random

import pytest

from llm_planner.core.errors import PlannerError
from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.planning.exclusions import ExclusionCheck
from llm_planner.planning.gate import SafetyGate
from llm_planner.planning.verdict import Verdict
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.tasks.frames import corpus
from llm_planner_lab.tasks.spoken import literal

LIBRARY = RobotLibrary()


def ruled_out(instruction, plan, robot="tello"):
    check, gate = ExclusionCheck(LIBRARY.get(robot), instruction), SafetyGate(LIBRARY.get(robot))
    verdicts = [check.feed(gate.admit(statement), to_text(statement)) for statement in parse(plan)]
    assert bool(check.problem) == (Verdict.CONTRADICTED in verdicts)
    return check.problem.removeprefix("the instruction rules out the ")


@pytest.mark.parametrize(
    ("instruction", "plan", "robot", "thing"),
    [
        ("not to the filler, to the labeller", "g(filler);", "tello", "filler"),
        ("I don't mean the grey sofa, fly to the other one", "g(grey_sofa);", "tello", "grey sofa"),
        ("everything to the rubbish except the pliers", "pick(pliers);place(pliers,bin);", "indy7", "pliers"),
        ("not the big one, the other one", "g(big_parcel);", "tello", "big parcel"),
        ("go to the one that isn't a painting", "g(painting);", "tello", "painting"),
        ("the tablet goes in the small cup, never in the big one", "place(tablet,big_cup);", "indy7", "big cup"),
        ("take the bearing, no wait, the bushing", "pick(bearing);", "indy7", "bearing"),
        ("take the scalpel no not the scalpel take the clamp", "pick(scalpel);", "indy7", "scalpel"),
        ("go to the office, sorry, I mean the kitchen", "g(office);", "tello", "office"),
        ("don't pick up the knife, pick up the spoon", "pick(knife);", "indy7", "knife"),
        ("Please do not touch the knife, pick up the spoon", "pick(knife);", "indy7", "knife"),
        ("pick up the spoon without touching the knife", "push(knife,left_area);", "indy7", "knife"),
        ("I don't want you to grab the knife, go above it", "pick(knife);", "indy7", "knife"),
        ("slide it to the left without gripping the jar", "pick(jar);", "indy7", "jar"),
        ("never take the red knife, go above it", "pick(red_knife_1);", "indy7", "red knife 1"),
        ("don't lift the vase, push it to the left", "pick(vase);place(vase,left_area);", "indy7", "vase"),
        ("don't push the vase, lift it", "push(vase,left_area);", "indy7", "vase"),
        ("take the pen and don't put it in the drawer", "pick(pen);place(pen,drawer);", "indy7", "drawer"),
        ("don\u2019t fly to the chair, go to the table", "g(chair);", "tello", "chair"),
        ("do not go near the pond, face it", "a(pond);", "tello", "pond"),
        ("avoid the chair and go to the table", "g(chair);", "tello", "chair"),
        ("you don't have to go to the kitchen, land here", "g(kitchen);", "tello", "kitchen"),
        ("stay away from the dogs, look at them", "g(dog);", "tello", "dog"),
    ],
)
def test_what_is_ruled_out_or_taken_back_is_left_alone(instruction, plan, robot, thing):
    assert ruled_out(instruction, plan, robot) == thing


@pytest.mark.parametrize(
    ("instruction", "plan", "robot"),
    [
        ("not to the filler, to the labeller", "g(labeller);", "tello"),
        ("not the sofa yet, first the lamp, then the sofa", "g(lamp);g(sofa);", "tello"),
        ("is the light on? if not, the lamp needs a look", "o(lamp);", "tello"),
        ("if there isn't a cup, say so, else take it", "?iv(cup)==False{say('so');}?iv(cup){pick(cup);}", "indy7"),
        ("not the cup, is the jar there?", "->iv(jar);", "indy7"),
        ("is it not the cup that you see?", "->iv(cup);", "indy7"),
        ("no, the cup goes on the tray", "pick(cup);place(cup,tray);", "indy7"),
        ("on top of it the nut, I mean on the plate", "pick(nut);place(nut,plate);", "indy7"),
        ("do not forget the window", "g(window);", "tello"),
        ("don't miss the window", "g(window);", "tello"),
        ("don't only pick up the knife", "pick(knife);", "indy7"),
        ("do not stop until you are at the window", "g(window);", "tello"),
        ("why don't you go to the chair?", "g(chair);", "tello"),
        ("why don't you go to the chair and take a picture", "g(chair);tp();", "tello"),
        ("don't go to the chair until you have taken a picture", "tp();g(chair);", "tello"),
        ("do not go to the chair before you have landed once", "ld();tk();g(chair);", "tello"),
        ("don't pick up the cup yet, wait five seconds", "wait(5);pick(cup);", "indy7"),
        ("don't fly to the safe, just turn to face it", "o(safe);", "tello"),
        ("don't lift the vase, push it to the left", "push(vase,left_area);", "indy7"),
        ("don't move the rack, move the tube next to it", "push(tube,rack);", "indy7"),
        ("don't touch the vaccine, hover over it", "move_to(vaccine);", "indy7"),
        ("don't take the cup to the shelf, put it on the tray", "pick(cup);place(cup,tray);", "indy7"),
        ("don't take the cup that is broken, take the other", "pick(cup_2);", "indy7"),
        ("don't put the key in the box, lay it on the book", "pick(key);place(key,book);", "indy7"),
        ("I never go to the gym, so do it for me", "g(gym);", "tello"),
        ("the cup on the tray, or rather the other way round", "pick(tray);place(tray,cup);", "indy7"),
    ],
)
def test_what_an_instruction_wants_passes(instruction, plan, robot):
    assert ruled_out(instruction, plan, robot) == ""


def test_what_is_ruled_out_stays_so_behind_a_failure():
    check = ExclusionCheck(LIBRARY.get("tello"), "not the sofa, the lamp")
    assert check.restarted() is check


def test_of_the_plans_of_people_one_in_a_thousand_acts_on_what_its_sentence_rules_out():
    rng = random.Random(0)
    flagged = []
    for frame in rng.sample([frame for frame in corpus() if not frame.is_danger], 3000):
        task = literal(rng, frame, has_scene=True)
        try:
            if thing := ruled_out(task.instruction, task.plan, task.robot):
                flagged.append((task.instruction, thing))
        except PlannerError:  # too far from where it starts
            continue
    assert len(flagged) <= 3, flagged
