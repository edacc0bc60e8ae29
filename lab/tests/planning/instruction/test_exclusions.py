# SPDX-License-Identifier: Apache-2.0
"""Things that an instruction rules out or takes back against those that its plan acts on."""

import random
import re

import pytest

from llm_planner.core.errors import PlannerError
from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.core.skill import SkillCall
from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.planning.instruction.checks import instruction_checks
from llm_planner.planning.instruction.exclusions import ExclusionCheck
from llm_planner.planning.instruction.verdict import Verdict
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.tasks.frames import corpus
from llm_planner_lab.tasks.spoken import literal

LIBRARY = RobotLibrary()


def ruled_out(instruction, plan, robot="tello", *, is_urgent=False, scene=""):
    check, gate = ExclusionCheck(LIBRARY.get(robot), instruction, is_urgent, scene), SafetyGate(LIBRARY.get(robot))
    verdicts = [check.feed(gate.admit(statement), to_text(statement)) for statement in parse(plan)]
    assert bool(check.problem) == (Verdict.CONTRADICTED in verdicts)
    return check.problem.removeprefix("the instruction rules out ").removeprefix("the ")


@pytest.mark.parametrize(
    ("instruction", "plan", "robot", "thing"),
    [
        ("not to the filler, to the labeller", "g(filler);", "tello", "filler"),
        ("I don't mean the grey sofa, fly to the other one", "g(grey_sofa);", "tello", "grey sofa"),
        ("everything to the rubbish except the pliers", "pick(pliers);place(pliers,bin);", "indy7", "pliers"),
        ("not the big one, the other one", "g(big_parcel);", "tello", "big parcel"),
        ("go to the one that isn't a painting", "g(painting);", "tello", "painting"),
        ("look at everybody but the guard", "o(guard);", "tello", "guard"),
        ("put the lid anywhere but the shelf", "pick(lid);place(lid,shelf);", "indy7", "shelf"),
        ("a photo of each of them, not the woman with the dog", "o(woman_with_dog);tp();", "tello", "woman with dog"),
        ("the tablet goes in the small cup, never in the big one", "place(tablet,big_cup);", "indy7", "big cup"),
        ("take the bearing, no wait, the bushing", "pick(bearing);", "indy7", "bearing"),
        ("take the scalpel no not the scalpel take the clamp", "pick(scalpel);", "indy7", "scalpel"),
        ("go to the office, sorry, I mean the kitchen", "g(office);", "tello", "office"),
        ("don't pick up the knife, pick up the spoon", "pick(knife);", "indy7", "knife"),
        ("the knife goes neither in the sink nor in the bin", "pick(knife);place(knife,sink);", "indy7", "sink"),
        ("the fork to the left, and the knife, you just leave it where it is", "pick(knife);", "indy7", "knife"),
        ("fork on the tray, the knife should stay there", "pick(knife);", "indy7", "knife"),
        ("the fork left, then the knife right. No, skip the knife", "push(knife,right_area);", "indy7", "knife"),
        ("photograph the cat and the dog, actually forget the dog", "g(dog);", "tello", "dog"),
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
        ("keep away from the pond and the dog", "g(dog);", "tello", "dog"),
        ("put everything in the bin except the knife and the glass", "pick(glass);", "indy7", "glass"),
        ("don't touch the knife or the scissors, take the cup", "pick(scissors);", "indy7", "scissors"),
        ("don't touch the knife, the glass or the cup, take the pen", "pick(glass);", "indy7", "glass"),
        ("don't touch any knives, take the cup", "pick(knife);", "indy7", "knife"),
        ("put everything in the bin except for knives", "pick(knife);", "indy7", "knife"),
        ("apart from the knife, all goes in the bin", "pick(knife);", "indy7", "knife"),
        ("leave the knife alone and take the cup", "pick(knife);", "indy7", "knife"),
        ("leave the knife and the glass alone", "pick(glass);", "indy7", "glass"),
        ("do not place the cup on the stove", "pick(cup);place(cup,stove);", "indy7", "stove"),
        ("first put the cup in the bin, and do not touch the knife", "pick(knife);", "indy7", "knife"),
        ("when you are ready, don't touch the knife", "pick(knife);", "indy7", "knife"),
        ("take the cup when you see it but do not touch the knife", "pick(knife);", "indy7", "knife"),
        ("if you can, fly to the tree and avoid the dog", "g(dog);g(tree);", "tello", "dog"),
        ("no, not the jar in the crate, the jug", "pick(jar);place(jar,crate);", "indy7", "jar"),
        ("fly away from the dog", "g(dog);", "tello", "dog"),
        ("back away from the dog", "g(dog);", "tello", "dog"),
        ("move away from the dog", "a(dog);", "tello", "dog"),
        ("get away from the dog", "g(dog);", "tello", "dog"),
        ("don't get too close to the dog", "a(dog);", "tello", "dog"),
        ("don't follow the dog", "g(dog);", "tello", "dog"),
        ("never approach people", "g(person);", "tello", "person"),
        ("don't come near people", "g(person);", "tello", "person"),
        ("don't fly near anyone", "g(person);", "tello", "person"),
        ("leave the knife, take the cup", "pick(knife);", "indy7", "knife"),
        ("leave the knife where it is and take the cup", "pick(knife);", "indy7", "knife"),
        ("hands off the knife", "pick(knife);", "indy7", "knife"),
        ("careful with the knife, take the cup", "pick(knife);", "indy7", "knife"),
        ("never mind the cup, take the pen", "pick(cup);", "indy7", "cup"),
        ("I don't want the cup, I want the pen", "pick(cup);", "indy7", "cup"),
        ("don't pick up the knife yet", "pick(knife);", "indy7", "knife"),
        ("don't go to the chair, until it is free", "g(chair);", "tello", "chair"),
        ("ignore the knife and take the cup", "pick(knife);", "indy7", "knife"),
        ("forget the knife, take the cup", "pick(knife);", "indy7", "knife"),
        ("the knife must not be moved, take the cup", "pick(knife);", "indy7", "knife"),
        ("you shouldn't touch the knife, take the cup", "pick(knife);", "indy7", "knife"),
        ("take the cup and ignore the knife", "pick(knife);", "indy7", "knife"),
        ("you can ignore the knife, take the cup", "pick(knife);", "indy7", "knife"),
        ("I want you to ignore the knife, take the cup", "pick(knife);", "indy7", "knife"),
        ("could you forget about the knife and take the cup", "pick(knife);", "indy7", "knife"),
        ("the knife must not be moved because it is hot", "pick(knife);", "indy7", "knife"),
        ("the lot, bar the teapot, goes in the crate", "pick(teapot);", "indy7", "teapot"),
        ("all the bolts into the tin bar the bent one", "pick(bent_bolt);", "indy7", "bent bolt"),
        ("every fork but the long one goes in the drawer", "pick(long_fork);", "indy7", "long fork"),
        ("forks in the drawer, save the long one", "pick(long_fork);", "indy7", "long fork"),
        ("the set goes on the tray, with the exception of the cup", "pick(cup);", "indy7", "cup"),
        ("everything in the box aside from the lens", "pick(lens);", "indy7", "lens"),
        ("bin the wrappers but keep the receipt", "pick(receipt);", "indy7", "receipt"),
        ("keep the core and bin the peel", "pick(core);", "indy7", "core"),
        ("throw the wrappers away but hang on to the receipt", "pick(receipt);", "indy7", "receipt"),
        ("bin the wrappers, the receipt I want to keep", "pick(receipt);", "indy7", "receipt"),
        ("the wrappers can go, the receipt is to be kept", "pick(receipt);", "indy7", "receipt"),
        ("don't throw the receipt in the bin, lay it on the tray", "place(receipt,bin);", "indy7", "bin"),
        ("nobody's to touch the vase, take the cup", "pick(vase);", "indy7", "vase"),
        ("no one may move the vase, take the cup", "push(vase,left_area);", "indy7", "vase"),
        ("the vase, nobody is allowed to touch it; take the cup", "pick(vase);", "indy7", "vase"),
        ("the red cap to the left, the green one stays", "pick(green_cap);", "indy7", "green cap"),
        ("the red cap to the left, and the green cap itself can stay", "pick(green_cap);", "indy7", "green cap"),
        ("the three dishes in the tray, the lid please not", "pick(lid);", "indy7", "lid"),
        ("everything in the tray, the lid excepted", "pick(lid);", "indy7", "lid"),
        ("nobody touches the vase, take the cup", "pick(vase);", "indy7", "vase"),
        ("don't let anybody touch the vase", "pick(vase);", "indy7", "vase"),
        ("no touching the vase, take the cup", "pick(vase);", "indy7", "vase"),
        ("the vase is off limits, take the cup", "pick(vase);", "indy7", "vase"),
        ("wash all the mugs but for the blue one", "pick(blue_mug);", "indy7", "blue mug"),
        ("whichever isn't the glue goes left, and the glue itself stays put", "pick(glue);", "indy7", "glue"),
        ("I don't want anyone touching the vase, take the cup", "pick(vase);", "indy7", "vase"),
    ],
)
def test_what_is_ruled_out_or_taken_back_is_left_alone(instruction, plan, robot, thing):
    assert ruled_out(instruction, plan, robot) == thing


@pytest.mark.parametrize(
    ("instruction", "scene", "plan", "thing"),
    [
        ("take the cup, not the knife", "kitchen_knife, coffee_cup", "pick(kitchen_knife);", "kitchen knife"),
        ("leave the acid alone, take the tray", "acid_bottle, tray", "pick(acid_bottle);", "acid bottle"),
        ("the water, not the pills", "pill_bottle, water_bottle", "pick(pill_bottle);", "pill bottle"),
        ("take the cup, not the knife", "kitchen_knife, coffee_cup", "pick(coffee_cup);", ""),
        ("not the bottle, the other one", "pill_bottle, water_bottle", "pick(pill_bottle);", ""),
    ],
)
def test_a_thing_may_be_called_by_a_word_that_no_other_one_has(instruction, scene, plan, thing):
    assert ruled_out(instruction, plan, "indy7", scene=scene) == thing


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
        ("if it is red, don't go to the chair", "?p('red')=='no'{g(chair);}", "tello"),
        ("if it is red please do not go to the chair", "?p('red')=='no'{g(chair);}", "tello"),
        ("don't go to the chair, until it is free", "d(5);g(chair);", "tello"),
        ("don't go to the chair or the table until I say so", "d(5);g(table);", "tello"),
        ("don't pick up the knife until I say so. Okay, pick it up", "pick(knife);", "indy7"),
        ("don't touch the knife and the glass goes in the bin", "pick(glass);place(glass,bin);", "indy7"),
        ("do not touch the dining table; and the glass, to the bin", "pick(glass);place(glass,bin);", "indy7"),
        ("cups: full ones do not touch, empty ones please take", "pick(empty_cup);", "indy7"),
        ("do not place the cup on the stove", "pick(cup);place(cup,tray);", "indy7"),
        ("don't put the knife in the drawer, put the fork there", "pick(fork);place(fork,drawer);", "indy7"),
        ("leave the cup alone on the tray, take the pen", "pick(cup);", "indy7"),
        ("the cup on the tray, or rather the other way round", "pick(tray);place(tray,cup);", "indy7"),
        ("whether or not that brush is clean, it goes in the bin", "pick(brush);place(brush,bin);", "indy7"),
        ("if the jug is there, take it, and if it isn't, the pan will do", "pick(pan);", "indy7"),
        ("not the bread, that can go in the bin", "pick(bread);place(bread,bin);", "indy7"),
        ("in the crate, no, not the leather gloves", "pick(mat);place(mat,crate);", "indy7"),
        ("push nothing but the empty jar to the left", "push(empty_jar,left_area);", "indy7"),
        ("nothing should go right except the phone", "push(phone,right_area);", "indy7"),
        ("the phone is mine, don't touch. The plugs beside it you take", "pick(plug);", "indy7"),
        ("go to the dog, then move away from the dog", "g(dog);mb(100);", "tello"),
        ("don't move away from the dog", "g(dog);", "tello"),
        ("go to the chair, but don't get too close to it", "g(chair);", "tello"),
        ("leave the knife on the tray and take the cup", "pick(knife);place(knife,tray);pick(cup);", "indy7"),
        ("leave the room by the door", "g(door);", "tello"),
        ("don't leave the cup, take the pen too", "pick(cup);pick(pen);", "indy7"),
        ("don't leave the dog alone", "g(dog);", "tello"),
        ("careful with the knife, put it in the drawer", "pick(knife);place(knife,drawer);", "indy7"),
        ("hands off the knife, boy; robot, take it", "pick(knife);", "indy7"),
        ("I don't want the cup, put it in the bin", "pick(cup);place(cup,bin);", "indy7"),
        ("pick up the plate and be sure not to forget the cup", "pick(plate);pick(cup);", "indy7"),
        ("you mustn't forget the cup", "pick(cup);", "indy7"),
        ("you can't ignore the dog, fly to it", "g(dog);", "tello"),
        ("how can you ignore the dog, fly to it", "g(dog);", "tello"),
        ("the kids are not allowed to touch the knife, put it in the bin", "pick(knife);place(knife,bin);", "indy7"),
        ("the children are not allowed to touch the knife, put it away", "pick(knife);place(knife,drawer);", "indy7"),
        ("I always forget the cup, bring it", "pick(cup);", "indy7"),
        ("the statue must not be touched, fly to it", "g(statue);", "tello"),
        ("the sofa can't be moved, fly to it", "g(sofa);", "tello"),
        ("the cup can't be used any more, throw it in the bin", "pick(cup);place(cup,bin);", "indy7"),
        ("the cup must not be moved too fast, pick it up", "pick(cup);", "indy7"),
        ("I'm not allowed to lift the box, put it on the table for me", "pick(box);place(box,table);", "indy7"),
        ("you can't lift the box fast, lift it slowly", "pick(box);", "indy7"),
        ("to the bar the tray, please, and the cup to the sink", "pick(tray);place(tray,bar);", "indy7"),
        ("the chocolate bar, the cup and the plate go on the tray", "pick(cup);place(cup,tray);", "indy7"),
        ("put all the cups on the tray but the plate in the sink", "pick(plate);place(plate,sink);", "indy7"),
        ("grab the cup, stay, and wait", "pick(cup);", "indy7"),
        ("the card stays, just shove it to the left", "push(card,left_area);", "indy7"),
        ("take the cup or not? yes, take the cup", "pick(cup);", "indy7"),
        ("nothing goes in the bin bar the peel", "pick(peel);place(peel,bin);", "indy7"),
        ("keep the cup level and put it on the tray", "pick(cup);place(cup,tray);", "indy7"),
        ("keep the screwdriver inside the toolbox", "pick(screwdriver);place(screwdriver,toolbox);", "indy7"),
        ("there's nobody to lift the box, so you do it", "pick(box);", "indy7"),
        ("nobody moves the box, so you do it", "pick(box);", "indy7"),
        ("nobody touched the box yet, lift the box", "pick(box);", "indy7"),
        ("I don't want anyone to touch the knife, put it in the drawer", "pick(knife);", "indy7"),
    ],
)
def test_what_an_instruction_wants_passes(instruction, plan, robot):
    assert ruled_out(instruction, plan, robot) == ""


@pytest.mark.parametrize(
    ("instruction", "plan", "robot", "act"),
    [
        ("do not take off", "tk();", "tello", "taking off"),
        ("hover and don't land", "h();ld();", "tello", "landing"),
        ("don't land, i repeat, don't land", "ld();", "tello", "landing"),
        ("don't turn, fly 1 m forward", "tc(90);mf(100);", "tello", "turning"),
        ("don't move, take a picture", "mf(100);tp();", "tello", "moving"),
        ("don't move, what is it?", "g(chair);", "tello", "moving"),
        ("fly to the tree without taking pictures", "g(tree);tp();", "tello", "taking a picture"),
        ("don't move or open the gripper, wait", "open();", "indy7", "opening"),
        ("don't close, wait", "close();", "indy7", "closing"),
        ("don't go down", "ld();", "tello", "landing"),
        ("please don't come down", "ld();", "tello", "landing"),
        ("don't descend", "ld();", "tello", "landing"),
        ("no landing", "ld();", "tello", "landing"),
        ("abort the landing", "ld();", "tello", "landing"),
        ("stop landing", "ld();", "tello", "landing"),
        ("cancel the landing", "ld();", "tello", "landing"),
        ("abort the takeoff", "tk();", "tello", "taking off"),
        ("stay on the ground", "tk();", "tello", "taking off"),
        ("don't land yet, there are people below", "ld();", "tello", "landing"),
        ("don't move until I say go", "mf(100);", "tello", "moving"),
        ("don't let go of the cup", "open();", "indy7", "opening"),
        ("don't drop the glass", "open();", "indy7", "opening"),
        ("keep holding the cup", "open();", "indy7", "opening"),
        ("hold on to the cup", "open();", "indy7", "opening"),
        ("stop descending", "md(50);", "tello", "going down"),
        ("stop turning", "tc(90);", "tello", "turning"),
        ("stop moving left", "ml(100);", "tello", "going left"),
        ("don't land, there's a man on the floor", "ld();", "tello", "landing"),
        ("don't land on me", "ld();", "tello", "landing"),
        ("you can't land here", "ld();", "tello", "landing"),
        ("landing is forbidden here", "ld();", "tello", "landing"),
        ("it is forbidden to land", "ld();", "tello", "landing"),
        ("abort the landing there is a child", "ld();", "tello", "landing"),
        ("don't take off, the fan is up there", "tk();", "tello", "taking off"),
        ("don't take off there's a kid next to you", "tk();", "tello", "taking off"),
        ("don't move, there's a kid to your left", "ml(50);", "tello", "moving"),
        ("don't turn there's a wire on your tail", "tc(90);", "tello", "turning"),
        ("no photos of the children, just fly forward", "mf(100);tp();", "tello", "taking a picture"),
        ("don't let go, my hand is under it", "open();", "indy7", "opening"),
        ("don't open the gripper he's got his hand under the load", "open();", "indy7", "opening"),
        ("don't let it drop", "open();", "indy7", "opening"),
        ("don't close it, my finger's in there", "close();", "indy7", "closing"),
        ("don't go home, he's standing in the way", "home();", "indy7", "going home"),
        ("don't move, my hand is in there", "home();", "indy7", "moving"),
        ("don't land, near you is a child", "ld();", "tello", "landing"),
        ("don't land, next to you is a child", "ld();", "tello", "landing"),
        ("don't land, on your left is a kid", "ld();", "tello", "landing"),
        ("don't land, by no means", "ld();", "tello", "landing"),
        ("don't land! On the mat is a baby", "ld();", "tello", "landing"),
        ("don't land, down there is a child", "ld();", "tello", "landing"),
        ("don't land, you will land on the child", "ld();", "tello", "landing"),
        ("don't take off, up there is a cable", "tk();", "tello", "taking off"),
        ("don't take off, there is another drone up there", "tk();", "tello", "taking off"),
        ("don't move, left is a wall", "ml(100);", "tello", "moving"),
        ("don't let go, let me get my hand out", "open();", "indy7", "opening"),
        ("don't open the gripper, hand in the way", "open();", "indy7", "opening"),
        ("don't open the gripper, give me a second", "open();", "indy7", "opening"),
        ("you are forbidden to land", "ld();", "tello", "landing"),
        ("drones are not allowed to land here", "ld();", "tello", "landing"),
        ("nobody's to lift off, the baby is right beneath you", "mu(100);", "tello", "taking off"),
        ("nobody's going up, there's a cable", "mu(50);", "tello", "going up"),
        ("no drone may land", "ld();", "tello", "landing"),
        ("nobody is allowed to move", "mf(100);", "tello", "moving"),
    ],
)
def test_what_must_not_be_done_at_all_is_not_done(instruction, plan, robot, act):
    assert ruled_out(instruction, plan, robot) == act


@pytest.mark.parametrize(
    ("instruction", "plan", "robot"),
    [
        ("don't turn left, turn right", "tc(90);", "tello"),
        ("don't land until I say so", "d(5);ld();", "tello"),
        ("don't land yet", "d(5);ld();", "tello"),
        ("if it rains don't land", "?p('rain')=='no'{ld();}", "tello"),
        ("don't land, wait forty seconds, and land after that", "d(40);ld();", "tello"),
        ("don't take off. Sorry, do, but wait five seconds", "d(5);tk();", "tello"),
        ("don't take pictures of the dog, it is the cat that I want", "tp();", "tello"),
        ("the lathe don't photograph, only the planer", "o(planer);tp();", "tello"),
        ("don't move, just turn", "tc(90);", "tello"),
        ("why don't you land", "ld();", "tello"),
        ("don't close, home", "open();home();", "indy7"),
        ("in case the light is off don't take a picture; if it's on, two", "tp();", "tello"),
        ("don't land yet, first take a picture, then land", "tp();ld();", "tello"),
        ("abort the mission and land", "ld();", "tello"),
        ("don't go down the corridor, there is a landing pad here", "ld();", "tello"),
        ("no land", "ld();", "tello"),
        ("stop and land", "ld();", "tello"),
        ("don't cancel the landing", "ld();", "tello"),
        ("don't stop turning", "tc(360);", "tello"),
        ("don't stay on the ground", "tk();", "tello"),
        ("stop turning, turn right", "tc(90);", "tello"),
        ("stop going up, go down", "md(50);", "tello"),
        ("turn away from the dog", "tc(180);", "tello"),
        ("don't drop it, put it down gently", "open();", "indy7"),
        ("no need to hold on to the cup", "open();", "indy7"),
        ("don't land on the table, land on the floor", "ld();", "tello"),
        ("if you can't land here, go up and land", "ld();", "tello"),
        ("don't open it here, take it to the tray and open it there", "open();", "indy7"),
        ("don't go home now, wait 5 seconds, then go", "wait(5);home();", "indy7"),
        ("hold on to the cup for ten seconds, then let it go", "wait(10);open();", "indy7"),
        ("don't land on the dog, beside it is fine", "ld();", "tello"),
        ("don't land on the table, on the mat please", "ld();", "tello"),
        ("could you land, but don't land on the flowers", "ld();", "tello"),
        ("gently land, don't land in the mud", "ld();", "tello"),
        ("ok land, don't land in the mud", "ld();", "tello"),
        ("drone 1 land, don't land in the mud", "ld();", "tello"),
        ("you must land, don't land in the mud", "ld();", "tello"),
        ("gently put it down, don't drop it", "open();", "indy7"),
        ("don't drop it, hand it to me", "open();", "indy7"),
        ("don't drop it, let me have it", "open();", "indy7"),
        ("I mustn't move, could you come closer", "mf(50);", "tello"),
        ("I mustn't move, fetch the cup", "pick(cup);", "indy7"),
        ("I'm not allowed to move, would you pick up the cup", "pick(cup);", "indy7"),
        ("he is forbidden to land, so you do", "ld();", "tello"),
        ("bet you can't land", "ld();", "tello"),
        ("no pictures of me please, take one of the garden", "tp();", "tello"),
        ("don't take off, go a metre higher", "mu(100);", "tello"),
        ("if nobody is to land, fly home and land", "ld();", "tello"),
        ("when nobody moves, and not before, go a metre forward", "mf(100);", "tello"),
    ],
)
def test_what_is_forbidden_in_part_or_ordered_elsewhere_may_be_done(instruction, plan, robot):
    assert ruled_out(instruction, plan, robot) == ""


@pytest.mark.parametrize(
    ("instruction", "plan", "act"),
    [
        ("do not land", "ld();", "landing"),
        ("don't take off, someone is standing over you", "tk();", "taking off"),
        ("don't land, there are people on the pad, go up", "mu(100);", ""),
        ("don't hit the child", "mb(100);", ""),
        ("stay away from the child", "g(child);", ""),  # no skill that a warning may use
    ],
)
def test_of_a_warning_only_acts_are_judged(instruction, plan, act):
    assert ruled_out(instruction, plan, is_urgent=True) == act


def test_a_warning_is_held_against_what_it_forbids():
    request = PlanRequest(
        request_id="one", robot_id="drone", robot_model="tello", instruction="do not land", urgency=Urgency.URGENT
    )
    checks = instruction_checks(LIBRARY.get("tello"), request)
    verdicts = [check.feed([SkillCall("ld")], "ld();") for check in checks]
    assert Verdict.CONTRADICTED in verdicts


def test_what_is_ruled_out_stays_so_behind_a_failure():
    check = ExclusionCheck(LIBRARY.get("tello"), "not the sofa, the lamp")
    assert check.restarted() is check


@pytest.mark.parametrize(
    ("instruction", "is_compiled"), [("put the zither on the tray", False), ("don't put the zither on the tray", True)]
)
def test_a_pattern_for_one_thing_is_compiled_only_where_putting_is_forbidden(monkeypatch, instruction, is_compiled):
    compiled = []
    monkeypatch.setattr(re, "compile", lambda pattern, make=re.compile: compiled.append(pattern) or make(pattern))
    ruled_out(instruction, "pick(zither);place(zither,tray);", "indy7")
    assert any("zither" in pattern for pattern in compiled) == is_compiled


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


@pytest.mark.parametrize(
    ("order", "plan", "is_refused"),
    [
        ("pens in the pot, save the one that leaks", "pick(pen_1);", True),
        ("all the pens in the pot except the one with a red cap", "push(pen_1,pot);", True),
        ("pens in the pot, save the one that's blunt", "pick(pencil);", False),
    ],
)
def test_what_is_ruled_out_by_what_it_is_like_needs_a_look(order, plan, is_refused):
    assert bool(ruled_out(order, plan, "indy7", scene="pen_1, pen_2, blunt_pencil, pencil, pot")) == is_refused


@pytest.mark.parametrize(
    "order",
    [
        "put the cup in the box and leave the cup where it is",
        "put the cup in the box but don't touch the cup",
        "move the cup to the box and leave the cup alone",
        "leave the cup alone and put the cup in the box",
        "don't move the cup, put the cup in the box",
        "without touching the cup, bring the cup to the box",
    ],
)
def test_what_is_to_be_moved_and_left_is_not_moved(order):
    assert ruled_out(order, "pick(cup);", "indy7") == "cup"


@pytest.mark.parametrize(
    "order",
    [
        "leave the box where it is and put the cup in the box",
        "put the cup in the box, no, leave the cup where it is",
        "if the cup is red put the cup in the box, otherwise leave the cup alone",
        "don't push the cup, pick the cup up and put it in the box",
        "put the cup in the box and leave the cup there",
    ],
)
def test_what_is_left_in_a_case_or_at_a_time_may_be_moved(order):
    assert not ruled_out(order, "pick(cup);place(cup,box);", "indy7")


def test_the_longest_name_is_what_is_left():
    order, scene = "trash the swab but leave the swab box alone", "swab, swab_box"
    assert not ruled_out(order, "pick(swab);place(swab,bin);", "indy7", scene=scene)
    assert ruled_out(order, "pick(swab_box);place(swab_box,bin);", "indy7", scene=scene) == "swab box"


@pytest.mark.parametrize("order", ["don't stop, keep going forward", "never stop", "go on without stopping"])
def test_it_does_not_stop_where_that_is_forbidden(order):
    assert ruled_out(order, "h();") == "stopping"


@pytest.mark.parametrize(
    "order", ["don't stop here, stop at the door", "don't move", "stop, no, don't stop, go on, then stop"]
)
def test_a_stop_that_is_ordered_elsewhere_is_no_other(order):
    assert not ruled_out(order, "h();")
