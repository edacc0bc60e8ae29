# SPDX-License-Identifier: Apache-2.0
"""Orders that act at once: found however they are said, and in nothing else."""

import random
import re

import pytest

from llm_planner.planning.instruction.stop_words import begins_with_stop, immediate_plan, is_stop, plan_of_cry
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.tasks.frames import corpus
from llm_planner_lab.tasks.spoken import literal

ROBOTS = {name: RobotLibrary().get(name) for name in ("tello", "indy7")}


@pytest.mark.parametrize(
    "order",
    [
        "stop",
        "STOP!!!",
        "please stop right now",
        "don't move",
        "Hold still.",
        "hold it!",
        "freeze",
        "whoa, whoa",
        "halt",
        "stay where you are",
        "don\u2019t you move",
        "stop it, robot",
        "emergency stop",
        "not an inch",
        "abort",
        "say, stop!",
        "I say stop!",
        "please, I say, stop",
        "keep still",
        "keep right there",
        "keep your position please",
        "stay",
        "no, keep... ah yes, stop",
        "stop " * 300,
        "stop, danger",
        "danger, stop now!",
        "abort the mission",
        "stop your motion",
        "please cease all movement",
        "cancel this task, please",
        "abort abort",
        "Stop moving!",
        "could you stop moving",
        "Stop flying!",
        "stop spinning now",
        "stoppp",
        "full stop",
        "fucking stop",
        "drone 2 stop",
        "hold up",
        "hang on",
        "pause",
        "wait!",
        "stop for a second",
        "don't move any more",
        "ouch, stop",
        "stop, you're hurting me",
        "stop you\u2019re hurting me",
        "stop, my hand is in there",
        "stop there's a child",
        "stop the lamp's falling",
        "Stop! My hand!",
        "Freeze, Amy's hand is right under you, don't move!",
        "halt, you're about to hit the glass",
        "help! stop!",
        "you must stop",
        "I need you to stop",
        "alright stop",
        "everybody stop",
        "stop, a kid!",
        "stop the motors",
        "stop hurting me",
        "stop it hurts",
        "stop he's under it",
        "stop, don't touch her",
        "don't move, there's a kid behind you",
        "whoa there's a kid",
        "hold everything, somebody is in the cell",
        "the glass is tipping over, halt",
        "stop, there's a man up there",
        "stop there's a man up there",
        "stop, the kids are back",
        "stop, you're going to drop it on the baby",
        "stop you're going to drop it on the baby",
        "stop he's put his hand right under you",
        "stop, there's a kid who doesn't see you",
        "stop, he fell down",
        "stop, fire!",
        "oh gosh, stop, she is down there and she can't get up",
        "Stop! Watch out!",
        "careful, stop",
        "look out, stop!",
        "stop whatever you're doing",
        "stop moving forward!",
        "Don't come any closer!",
        "that's close enough!",
    ],
)
def test_a_stop_is_a_stop(order):
    assert immediate_plan(ROBOTS["tello"], order) == "h();"
    assert immediate_plan(ROBOTS["indy7"], order) == "stop();"


@pytest.mark.parametrize(
    ("order", "begins"),
    [
        ("Stop! Go back!", True),
        ("Stop! Tree!", True),
        ("hey robot, careful, stop, take a picture", True),
        ("Stop, two people are in front of you", True),
        ("freeze, then turn left", True),
        ("fly to the door, stop, take a picture", False),
        ("stop at the door", False),
        ("don't stop, go on", False),
        ('say "stop", then land', False),
        ("stop the music, turn left", False),
        ("", False),
    ],
)
def test_what_begins_with_a_stop_is_known_whatever_follows(order, begins):
    assert begins_with_stop(order) is begins


@pytest.mark.parametrize("order", ["let go", "let me go!", "Release it", "let go of my hand now", "drop it"])
def test_let_go_opens_the_gripper(order):
    assert immediate_plan(ROBOTS["indy7"], order) == "open();"
    assert immediate_plan(ROBOTS["tello"], order) == ""
    assert not is_stop(order)


@pytest.mark.parametrize("order", ["Stop! Let go of me!", "release me and stop right now"])
def test_a_stop_that_also_says_let_go_stops_a_robot_without_a_gripper(order):
    assert immediate_plan(ROBOTS["indy7"], order) == "open();"
    assert immediate_plan(ROBOTS["tello"], order) == "h();"
    assert is_stop(order)


@pytest.mark.parametrize(
    "task",
    [
        "stop at the door",
        "hold there 10 s",
        "don't move the cup",
        "stop and turn left",
        "wait 5 seconds",
        "wait a second",
        "wait for me",
        "hold the cup",
        "hold on to the cup",
        "hold up the cup",
        "hang on to it",
        "pause the music",
        "",
        "stand by for a minute",
        "go",
        "the stop sign",
        "let go of the cup and go home",
        "stop " * 3000,
        "danger",
        "start the mission",
        "stop the mission clock",
        "don't stop your motion",
        "don't stop",
        "say stop moving",
        'say "stop"',
        "say 'freeze'",
        "say \u201cstop\u201d",
        "say: stop",
        'say, "stop"',
        "please say stop",
        "hey robot, could you please say stop",
        "keep doing what you are doing",
        "keep it, please",
        "No, go!",
        "oh no, move!",
        "no, fly",
        "stop and then land",
        "stop after 2 m",
        "stop 2",
        "stop talking",
        "stop the music",
        "stop the music, my ears are hurting",
        "fly to the bus stop",
        "stop at the robot",
        "stop at drone 2",
        "stop once you are there",
        "stop where you are needed",
        "stop as soon as Bob's gone",
        "stop by Bob's in the kitchen",
        "stop the alarm that's on",
        "stop filming Bob's in the bath",
        "stop the leaks",
        "stop when the light is red",
        "stop, you should turn left",
        "stop, I want you to land",
        "stop, you are to land",
        "stop, you have to descend",
        "stop, you're too low, climb",
        "stop, the red cup goes in the bin",
        "stop, there is a cup, pick it up",
        "stop, somebody is coming from your right",
        "don't stop, there's a child",
        "you're at the door, stop there",
        "hang on, there's a cup",
        "stop recording",
        "stop the conveyor",
        "stop in 5 seconds",
        "stop when you see her",
        "stop the robot from falling, go left",
        "stop a kid from running in",
        "stop it from falling",
        "stop her",
        "stop, don't stop",
        "stop, he wants the cup",
        "stop, you will carry the cup",
        "stop, a bit higher",
        "stop, duck!",
        "don't move the kid",
        "do you have to stop",
        "you should stop by the office",
        "whoa, the shelf is going to fall on you",
        "there's a dog, climb",
        "stop, sing a song",
        "stop, what is that?",
        "stop whatever is beeping",
        "careful, stop at the door",
        "don't come any time soon",
        "Stop! Go back!",
        "Stop! Tree!",
        "stop, the cup is dirty, then wash it",
        "stop, there is a cup and pick it up",
        "don't stop, you've got my hand",
        "the patient's arm is in your gripper, lift it and stop",
        "what happens if I say stop and my hand is in the gripper?",
        "when his hand is in your gripper, stop",
        "if I shout stop, you've got my hand, what happens",
        "the gripper holds his arm, stop the video",
        "read this: stop, you've got my hand",
        "you've got my hand, pull me out, stop when I am out",
        "my hand is in your gripper, stand by",
    ],
)
def test_a_task_is_no_stop(task):
    assert immediate_plan(ROBOTS["indy7"], task) == ""


@pytest.mark.parametrize(
    "report",
    [
        "Stop, my finger is in your gripper!",
        "stop, you've got my hand",
        "Stop! You're crushing my fingers",
        "stop, you caught her hair",
        "stop squeezing my hand",
        "stop it's got the child's arm",
        "stop, you're crushing my hand badly",
        "stop, you've got my hand so tight",
        "stop, you're squeezing my fingers too hard",
        "stop, you're crushing my hand against the table",
        "stop you've got my hand instead of the cup",
        "stop, my finger is still in your gripper",
        "stop, hand in your gripper",
        "stop, you've my finger caught in your claw",
        "stop, you've got my daughter's hair",
        "no, stop, you've got my hand, open up",
        "stop, my hand is in your gripper, it hurts",
        "my left hand is stuck in your claw, stop",
        "you are squeezing her wrist, let go of it, let go",
        "it's crushing his finger, release, release!",
    ],
)
def test_a_gripper_that_holds_somebody_opens(report):
    assert immediate_plan(ROBOTS["indy7"], report) == "open();"
    assert immediate_plan(ROBOTS["tello"], report) == "h();"


@pytest.mark.parametrize(
    "report",
    [
        "stop! my finger is caught",
        "stop my hand's stuck",
        "stop you are holding the hand drill",
        "stop you're holding my hand drill",
        "stop you've got the wrong arm",
        "stop you're holding the arm of the chair",
        "stop you're holding the chair's arm",
        "stop you've got the scarf",
        "stop, my sleeve is in your gripper",
        "stop, you have not got my hand",
        "stop you've got my hand, keep hold of it",
        "stop you've got my hand, hold tight",
        "stop! you're holding her arm, you are keeping her up do not release",
        "stop, you've got my arm, it's not safe to open",
        "stop, you've got my arm, stay closed",
        "stop, you've got my arm, stay",
        "stop, you've got my arm, you are not hurting me",
        "stop, you've got my arm and I am hanging on it",
        "stop, you've got my arm, I'm hanging on it",
        "stop, you've got my hand, if you open I fall",
        "stop, you've got my arm, no open",
        "stop, you're gripping my arm too loosely",
        "stop, my hand is in the gripper, avoid opening it",
        "stop, my hand is in the gripper, open the drawer",
        "stop, my hand is in your gripper, continue in 5 seconds",
        "stop, the man's hand is in the gripper, the tank is full of acid",
    ],
)
def test_a_gripper_that_may_hold_nobody_only_halts(report):
    assert immediate_plan(ROBOTS["indy7"], report) == "stop();"


@pytest.mark.parametrize(
    ("report", "plan"),
    [
        ("the kid's hair is tangled in your rotor", "stop();"),
        ("his sleeve got jammed", "stop();"),
        ("the blades are cutting my thumb", "stop();"),
        ("help, my necklace is wound around the joint", "stop();"),
        ("her braid is caught in the propeller, land", "stop();"),
        ("the drone is on fire", "stop();"),
        ("my thumb is trapped in the gripper", "open();"),
        ("my thumb is trapped in the gripper, keep hold of the cup", "stop();"),
    ],
)
def test_who_is_caught_in_a_robot_need_not_say_stop(report, plan):
    assert immediate_plan(ROBOTS["indy7"], report) == plan
    assert immediate_plan(ROBOTS["tello"], report) == "h();"
    assert is_stop(report)


@pytest.mark.parametrize(
    "task",
    [
        "my sleeve is stuck in the drawer, pull the drawer open",
        "if my hair is caught in your gripper, what do you do?",
        "my shawl is stuck, bring the scissors",
        "cut the thread that is wrapped around my finger",
        "say my hand is stuck",
        "the heater under you is on fire",
    ],
)
def test_what_is_caught_elsewhere_or_supposed_is_a_task(task):
    assert immediate_plan(ROBOTS["indy7"], task) == ""


@pytest.mark.parametrize(
    "cry",
    [
        "won't you make that stop",
        "it's about to hit my son stop it",
        "you're going to hit the lamp stop",
        "stop or you'll hit the ceiling",
        "stop flying at my face",
        "could somebody stop this drone",
        "don't you dare",
        "why don't you stop",
        "I told you to stop",
        "hey hey hey",
        "wait wait wait",
        "soptt",
        "tsop it",
        "Arr\u00eatez !",
        "\u00a1Para!",
        "stopp, anhalten",
        "hold on a second",
        "watch out",
        "please don't hurt him",
        "cut the power",
        "for heaven's sake land this thing",
        "my coat is caught stop",
        "argh, my hand",
        "you are breaking my arm",
        "get away from my cat",
        "stop for god's sake",
        "come to a stop",
        "way too close",
        "you nearly hit the dog",
        "mind the kids",
        "oh no",
        "somebody help",
        "it has my sleeve",
        "my thumb my thumb",
        "oh shit",
        "what on earth are you doing, what are you doing",
        "get out of my hair",
        "not like that",
        "just a second",
        "hit the brake",
        "there's somebody under you",
        "the nurse is right there",
        "it's tipping over",
        "you are on my foot",
        "I am trapped",
        "I can't get my hand out",
        "no no no, not that one, put it down",
        "not there! put it back please",
        "alto",
        "bitte stopp",
        "no stopp no stopp por favor",
        "no stopp " * 400,
    ],
)
def test_a_cry_stops_a_robot_that_is_busy(cry):
    assert plan_of_cry(ROBOTS["tello"], cry) == "h();"
    assert plan_of_cry(ROBOTS["indy7"], cry) == "stop();"


@pytest.mark.parametrize(
    "task",
    [
        "don't stop",
        "never stop turning",
        "fly to the tram stop",
        "stop behind the chair",
        "turn right and stop",
        "fly to the lamp, then stop",
        "when you stop, take a picture",
        "say: please stop",
        "tell the man to get off me",
        "stop filming",
        "stop the washing machine's alarm",
        "press the stop button",
        "hold on to the cup",
        "hang on ten seconds",
        "look out of the door",
        "go to the lamp and don't hit the shelf",
        "turn off the radio",
        "help her carry the bag",
        "no, the green one",
        "a pare knife",
        "back off 40 cm",
        "stop 1 m before the door",
        "put it in the cup, no wait, in the jar",
        "put it down",
        "there's a dog, land",
        "go and watch the baby",
        "watch the door",
        "tell him to mind the cat",
        "",
        "stop " * 3000,
    ],
)
def test_what_is_evidently_something_else_is_no_cry(task):
    assert plan_of_cry(ROBOTS["indy7"], task) == ""


def test_few_tasks_of_the_corpus_would_be_taken_for_cries():
    num_tasks = num_cries = 0
    for frame in corpus()[::4]:
        task = literal(random.Random(0), frame, has_scene=False)
        stops = f"{ROBOTS[frame.robot].stop_skill}();" in task.plan or "open();" in task.plan
        if frame.is_danger or stops or begins_with_stop(task.instruction):
            continue
        num_tasks += 1
        num_cries += bool(plan_of_cry(ROBOTS[frame.robot], task.instruction))
    assert num_cries <= 0.01 * num_tasks


@pytest.mark.parametrize(
    "text",
    [
        "stop the ",
        "my hand is ",
        "her hair my ",
        "no hey ",
        "don't you dare my s ",
        "the the ",
        "no stopp ",
        "ya alto no ",
    ],
)
def test_long_texts_cost_little(text):
    for order in (text * 250, f"stop {text * 250}", text * 2000):
        plan_of_cry(ROBOTS["indy7"], order)  # quadratic at worst, or it never ends


def test_it_never_takes_a_task_of_the_corpus_for_a_stop():
    wrong = []
    for frame in corpus():
        task = literal(random.Random(0), frame, has_scene=False)
        plan = immediate_plan(ROBOTS[frame.robot], task.instruction)
        halts_at_least = frame.is_danger and (task.plan, plan) == ("open();", "stop();")
        if plan and plan != task.plan and not halts_at_least:
            wrong.append((task.instruction, task.plan, plan))
    assert wrong == []


def test_most_short_stops_of_the_corpus_act_at_once():
    plans = []
    for frame in corpus():
        task = literal(random.Random(0), frame, has_scene=False)
        is_stop_alone = task.plan == f"{ROBOTS[frame.robot].stop_skill}();"
        words = task.instruction.lower().split()
        if is_stop_alone and len(words) <= 6 and re.match(r"\W*(?:stop|halt|freeze)\b", words[0]):
            plans.append(immediate_plan(ROBOTS[frame.robot], task.instruction))
    assert len(plans) > 400
    assert sum(map(bool, plans)) >= 0.75 * len(plans)


@pytest.mark.parametrize(
    "order",
    [
        "Nobody move!",
        "no one takes off, you hear?",
        "nobody's to land, there's a kid right under you",
        "don't anybody move, my ring is on the floor",
        "nobody move, the vase is behind you, so whatever you do don't go back",
        "whatever you do, don't move",
        "steady!",
        "hold steady, the needle is in his arm",
        "Steady now, the doctor's hand is in the way",
        "not one twitch, the glass is tipping",
        "not so much as an inch",
        "stap! stap!",
        "stahp, my hand",
        "my hair it goes in the fan of you",
        "help, her scarf went into the propeller",
        "my sleeve is in your blades",
        "stap stap the braid it is going in your rotor",
        "the dog's tail is in your propeller",
        "stay stock still, she has got a needle",
        "don't you twitch",
        "nobody breathe",
        "hold your position, the nurse is underneath",
        "stay put, the kid is right behind you",
        "not one step back, there is a drop",
    ],
)
def test_stops_in_other_words_act_at_once(order):
    assert immediate_plan(ROBOTS["tello"], order) == "h();"
    assert immediate_plan(ROBOTS["indy7"], order) == "stop();"


@pytest.mark.parametrize(
    "task",
    [
        "steady the cup",
        "nobody moves the cup, so put it in the box",
        "nobody lands on the roof but you",
        "hold steady over the bowl",
        "Steady now, put the egg in the cup",
        "one step to the left",
        "the glove is in the gripper, drop it in the bin",
        "put the sleeve in the box",
        "my hair is in the picture, go up",
        "my coat goes in the bag",
        "stay put until the lamp is on, then land",
        "hold your position for five seconds",
        "quit moving the cups",
    ],
)
def test_tasks_with_such_words_are_none(task):
    for model in ROBOTS.values():
        assert not immediate_plan(model, task)
