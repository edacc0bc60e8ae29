# SPDX-License-Identifier: Apache-2.0
"""Directions of an instruction against those of its plan."""

import contextlib
import random

import pytest

from llm_planner.core.errors import PlannerError
from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.planning.instruction.directions import DirectionCheck, ways_out, ways_to_things
from llm_planner.planning.instruction.verdict import Verdict
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.tasks.frames import corpus
from llm_planner_lab.tasks.spoken import literal

TELLO, INDY7 = (RobotLibrary().get(name) for name in ("tello", "indy7"))
REVERSED = {"ml": "mr", "mr": "ml", "mu": "md", "md": "mu", "mf": "mb", "mb": "mf"}


def is_contradicted(instruction, plan, *, is_urgent=False, model=TELLO):
    check, gate = DirectionCheck(model, instruction, is_urgent=is_urgent), SafetyGate(model)
    verdicts = [check.feed(gate.admit(statement), to_text(statement)) for statement in parse(plan)]
    assert bool(check.problem) == (Verdict.CONTRADICTED in verdicts)
    return Verdict.CONTRADICTED in verdicts


@pytest.mark.parametrize(
    ("instruction", "plan"),
    [
        ("a forklift comes from the left", "ml(150);"),
        ("boxes are coming down on you from the top shelf", "mu(100);"),
        ("cyclist on your right!", "mr(150);"),
        ("steam under you", "md(50);"),
        ("fire! FIRE!!", "mf(150);"),
        ("somebody's left the oven on, fire!", "mf(150);"),
        ("it's right behind you", "mb(150);"),
        ("a rack falls, back of u", "mb(100);"),
        ("your three, closing", "mr(100);"),
        ("don't fly left, there is a fire", "ml(150);"),
        ("do not move forward, there is a hole", "mf(100);"),
        ("do not move right, a car is there", "mr(150);"),
        ("never go up, there is a fan", "mu(100);"),
        ("don't go left, go right!", "ml(150);"),
        ("bikes come from left!", "ml(150);"),
        ("bikes come left!", "ml(150);"),
        ("the crane will swing left", "ml(150);"),
        ("a plate falls from up", "mu(50);"),
        ("fire below you", "ld();"),
        ("a forklift from the left", "tu(90);mf(150);"),
        ("a forklift from the left", "tu(30);mf(150);"),
        ("a forklift from the left", "4{mf(50);tu(90);}"),
        ("a ball is flying at you", "tc(180);mb(150);"),
        ("a forklift from the left", "mr(20);ml(200);"),
        ("a forklift from the left", "3{mr(50);ml(60);}"),
        ("a truck on your left and a forklift on your right", "ml(150);"),
        ("a truck on your left and a forklift on your right", "mr(150);"),
        ("a car ahead of you and one behind you", "mf(150);"),
        ("it will get out of the way to the left", "ml(150);"),
        ("quick, forklift two metres left", "ml(150);"),
        ("get out of there the left wall is falling", "ml(150);"),
        ("move aside to the left, a forklift from the left", "ml(150);"),
        ("the tiles drop to the floor", "md(50);"),
        ("From the left it comes a moto without brakes!", "ml(150);"),
        ("car to your right there", "mr(150);"),
        ("car left!", "ml(100);"),
        ("left side!", "ml(100);"),
        ("don't keep left", "ml(100);"),
        ("do not land", "ld();"),
        ("flames go to the floor", "ld();"),
        ("there's a child right by you", "mf(100);"),
        ("he is right outside the door", "mf(100);"),
        ("look up, a pot is falling!", "mu(100);"),
        ("Watch up! The hook!", "mu(50);"),
        ("look down, a cat!", "md(50);"),
        ("look back, a bike!", "mb(100);"),
        ("mind your head!", "mu(50);"),
        ("the lamp is falling on you!", "mu(50);"),
        ("the shelf comes down onto you", "mu(50);"),
        ("bird at your 2 o'clock!", "mr(100);"),
        ("bird at your 2 o'clock!", "mf(100);"),
        ("eleven o'clock, a ball!", "ml(100);"),
        ("a car at your 7 o'clock", "mb(100);"),
        ("the forklift is left!", "ml(100);"),
        ("the forklift's left, quick!", "ml(100);"),
        ("LEFT! beam on the right", "mr(100);"),
    ],
)
def test_an_emergency_is_never_approached(instruction, plan):
    assert is_contradicted(instruction, plan, is_urgent=True)


@pytest.mark.parametrize(
    ("instruction", "skills"),
    [
        ("get out of there, to your left a car", "ml mr"),
        ("get out of the way, left!", "ml mr"),
        ("careful, two metres to your left!", "ml mr"),
        ("quick, two metres to your left, a car!", "ml mr"),
        ("two metres left, a hole", "ml mr"),
        ("stop and drop to the floor", "mu md"),
        ("left!", "ml mr"),
        ("right right right", "ml mr"),
        ("no no left left", "ml mr"),
        ("quick left", "ml mr"),
        ("to the left!", "ml mr"),
    ],
)
def test_a_side_that_is_ordered_or_the_threats_is_not_gone_to_nor_its_opposite(instruction, skills):
    refused = [skill for skill in REVERSED if is_contradicted(instruction, f"{skill}(50);", is_urgent=True)]
    assert {*skills.split()} <= {*refused} <= {*skills.split(), "mf"}


def test_a_replan_does_not_approach_the_threat_either_not_even_as_a_way_back():
    check = DirectionCheck(TELLO, "a forklift comes from the left", is_urgent=True)
    away, back = (SafetyGate(TELLO).admit(statement) for statement in parse("mr(150);ml(100);"))
    assert check.feed(away, "") is Verdict.EXPLAINED
    assert check.restarted().feed(back, "") is Verdict.CONTRADICTED
    assert check.feed(back, "") is Verdict.EXPLAINED


@pytest.mark.parametrize("plan", ["tc(90);", "tc(90);mf(50);tu(90);", "g(door);"])
def test_a_replan_behind_a_turn_does_not_move_level_as_nobody_knows_whether_it_was_carried_out(plan):
    *turns, back, up = (SafetyGate(TELLO).admit(statement) for statement in parse(plan + "mb(150);mu(50);"))
    check = DirectionCheck(TELLO, "a forklift comes from the left", is_urgent=True)
    assert [check.feed(turn, "") for turn in turns] == [Verdict.EXPLAINED] * len(turns)
    for replan in (check.restarted(), check.restarted().restarted()):
        assert replan.feed(up, "") is Verdict.EXPLAINED
        assert replan.feed(back, "") is Verdict.CONTRADICTED


def test_a_replan_may_go_another_way_than_the_instruction_says():
    check = DirectionCheck(TELLO, "fly to the right")
    (left,) = (SafetyGate(TELLO).admit(statement) for statement in parse("ml(100);"))
    assert check.restarted().feed(left, "") is Verdict.EXPLAINED
    assert check.feed(left, "") is Verdict.CONTRADICTED


@pytest.mark.parametrize(
    ("instruction", "plan"),
    [
        ("a forklift comes from the left", "mr(150);"),
        ("go left, quick", "ml(150);"),
        ("it's right behind you", "mf(150);"),
        ("right, evade the wolf to your left now, please", "mu(100);mr(200);"),
        ("shake off the dog on your right now", "mu(100);ml(200);"),
        ("go ahead and watch out, a boar is attacking", "mu(100);mb(200);"),
        ("heads up, a ball is coming", "ld();"),
        ("a crane is lifting a beam", "ld();"),
        ("a helicopter is coming in to land", "mu(100);"),
        ("a rack falls, back of u", "mf(100);"),
        ("glass to the left of you and glass to the right", "h();"),
        ("move forward, there is smoke", "mf(100);"),
        ("don't go left, go right!", "mr(150);"),
        ("do not move right, a car is there", "ml(150);"),
        ("if you don't move left it hits you", "ml(150);"),
        ("the crane will swing left", "mr(150);"),
        ("watch out, come left", "ml(150);"),
        ("get away to the left", "ml(150);"),
        ("go left!", "tu(90);mf(150);"),
        ("forklift behind, go front two metres", "mf(200);"),
        ("a car behind you", "tc(180);mb(150);"),
        ("a forklift from the left", "mr(150);ml(150);"),
        ("a forklift from the left", "2{mr(100);}ml(200);"),
        ("a truck on your left and a forklift on your right", "mb(150);"),
        ("get out from under it", "md(50);"),
        ("land on the floor!", "ld();"),
        ("land it on the floor", "ld();"),
        ("set it down on the ground", "ld();"),
        ("get on the floor", "ld();"),
        ("go to ground", "ld();"),
        ("land!", "ld();"),
        ("do not land", "mu(100);"),
        ("the plane will land on your left", "mu(100);"),
        ("keep left, a car from the right", "ml(100);"),
        ("left!", "mb(100);"),
        ("drop to the floor, there is smoke", "ld();"),
        ("back side one trolley is coming fast", "mf(100);"),
        ("there are flames at the back of you", "mf(100);"),
        ("clear off to the right, a ball comes from the left", "mr(100);"),
        ("there's a wasp right by your left propeller", "mr(100);"),
        ("look up, a pot is falling!", "md(50);"),
        ("mind your head!", "md(50);"),
        ("bird at your 2 o'clock!", "ml(100);"),
        ("a car at your 7 o'clock", "mr(100);"),
        ("the forklift is left!", "mr(100);"),
        ("LEFT! beam on the right", "ml(100);"),
        ("right, right, right! there's a truck on the left", "mr(100);"),
    ],
)
def test_the_way_out_is_free(instruction, plan):
    assert not is_contradicted(instruction, plan, is_urgent=True)


@pytest.mark.parametrize(
    ("instruction", "skills"),
    [
        ("a forklift comes from the left", {"mf", "mb", "mr", "mu", "md"}),
        ("cyclist on your right!", {"mf", "mb", "ml", "mu", "md"}),
        ("glass to the left of you and a car behind you", {"mf", "mr", "mu", "md"}),
        ("do not move back, a car is behind you", {"mf", "ml", "mr", "mu", "md"}),
        ("bikes come from left!", {"mf", "mb", "mr", "mu", "md"}),
        ("watch out, a person!", set()),  # no side is named: what is taken to be in front may be anywhere
        ("hook of the crane loose, it falls", set()),
        ("go left, a car from the right", set()),  # a motion is ordered
        ("get up, it is right behind you", set()),
    ],
)
def test_any_way_out_is_as_good_as_another_where_a_side_is_named_and_no_motion_ordered(instruction, skills):
    assert ways_out(TELLO, instruction) == skills


def test_the_authors_take_a_way_out_where_there_is_one():
    taken = []
    for frame in corpus():
        if frame.robot == "tello" and frame.is_danger:
            task = literal(random.Random(0), frame, has_scene=False)
            ways = ways_out(TELLO, task.instruction)
            taken += [task.plan[:2] in ways] if ways and task.plan[:2] in REVERSED else []
    assert len(taken) > 50
    assert sum(taken) / len(taken) > 0.95


@pytest.mark.parametrize(
    ("instruction", "plan"),
    [
        ("turn right", "tu(90);"),
        ("up half a metre please", "md(50);"),
        ("scoot backwards two steps", "mf(100);"),
        ("a car comes from the left", "ml(100);"),
        ("recoil two metres, please", "mf(200);"),
        ("gain half a metre of height", "md(50);"),
        ("turn against the clockwise sense by 75 degrees", "tc(75);"),
        ("straight up half a metre", "md(50);"),
        ("wait five seconds, then fly 2 m to the left", "d(5);mr(200);"),
        ("take off and fly 1 m to the left", "tk();mr(100);"),
        ("turn left, wait two seconds and take a picture", "tc(90);d(2);tp();"),
        ("turn around and fly 1 m to the left", "tc(180);mr(100);"),
        ("fly 1 m left from the door", "mr(100);"),
        ("turn left again", "tc(90);"),
        ("move back one metre", "mf(100);"),
        ("don't go left", "ml(100);"),
        ("don't go left, go right", "ml(100);"),
        ("do not turn left, turn right", "tu(90);"),
        ("fly right", "mr(20);ml(200);"),
        ("back off two metres", "mf(200);"),
        ("reverse two metres", "mf(200);"),
        ("back away from the wall", "mf(100);"),
        ("back up one metre", "mf(100);"),
        ("back up one metre", "md(50);"),
        ("go ahead and reverse a bit", "mf(30);"),
        ("fly to the left, do not land", "mr(100);"),
        ("fly to the left and don't stop", "mr(100);"),
        ("turn right, then wait, no rush", "tu(90);d(5);"),
        ("don't go too far, fly left 1 m", "mr(100);"),
        ("move away to the left", "mr(100);"),
        ("go two metres back", "mf(200);"),
        ("go two metres to the left", "mr(200);"),
        ("fly back two metres", "mf(200);"),
        ("move a metre further down", "mu(100);"),
        ("turn right then go forward", "tu(90);mf(100);"),
        ("turn right now", "tu(90);"),
        ("turn right at the door", "tu(90);"),
        ("turn left in the hall", "tc(90);"),
        ("go left over the table", "mr(100);"),
        ("no, go left", "mr(100);"),
        ("actually, turn left", "tc(90);"),
        ("go left, not too fast", "mr(100);"),
        ("turn left around the corner", "tc(90);"),
        ("fly left out of the kitchen", "mr(100);"),
        ("go left at the same speed", "mr(100);"),
        ("go right instead of standing there", "ml(50);"),
        ("go left, avoid the chair", "mr(100);"),
        ("turn left, away from the window", "tc(90);"),
        ("go up again", "md(50);"),
        ("go right, sorry, left", "mr(100);"),
        ("turn left, I mean right", "tu(90);"),
        ("go left 2 metres, sorry, right 2 metres", "ml(200);"),
        ("turn left and fly right", "tc(90);ml(100);"),
        ("turn left and fly right", "tu(90);ml(100);"),
        ("go left then turn right", "mr(100);tu(90);"),
        ("turn 90 degrees counter-clockwise", "tc(90);"),
        ("turn anti-clockwise", "tc(90);"),
        ("just left one metre", "mr(100);"),
        ("only left, 90 cm", "mr(90);"),
        ("fly 2 m left, take a picture and return", "mr(200);tp();ml(200);"),
        ("fly 2 m left to the other side", "mr(200);"),
        ("turn left, then go to the same place", "tc(90);"),
        ("fly 50 cm up, then turn off the light", "md(50);"),
        ("mind your left, the door is swinging open", "ml(100);"),
        ("watch out on the right, somebody is coming", "mr(100);"),
        ("mind the left wall and go left", "mr(100);"),
        ("head back home and land", "mb(100);ld();"),
        ("come home", "mb(100);"),
        ("return to base", "mb(200);"),
        ("take a picture, then fly back to your starting point", "tp();mb(100);"),
        ("back to wherever it was you set off from", "mb(100);"),
        ("go up a metre, then straight back home", "mu(100);mb(100);"),
        ("go 2 m left and back the same distance", "mr(200);"),
    ],
)
def test_the_other_way_round_is_a_contradiction(instruction, plan):
    assert is_contradicted(instruction, plan)


@pytest.mark.parametrize(
    ("instruction", "plan"),
    [
        ("fly two metres to the right, take a pic, come back", "mr(200);tp();ml(200);"),
        ("not left, the other way", "mr(100);"),
        ("don't go left, go right", "mr(100);"),
        ("go left, wait, no, right", "mr(100);"),
        ("go up, but not higher than two metres", "mu(100);"),
        ("if you see a dog or not go up", "mu(100);"),
        ("take a picture of the shelf from the left", "ml(100);tp();"),
        ("take a picture of the table from above", "mu(100);tp();"),
        ("twice: a foot ahead, a picture, and then back where you were", "2{mf(30);tp();}mb(61);"),
        ("back two feet, then come forward again", "mb(61);mf(61);"),
        ("take off right now and climb", "tk();mu(50);"),
        ("there is nothing left to do here, go home", "ml(100);"),
        ("there and back, three metres", "mf(300);mb(300);"),
        ("you stand a tad too far left for my taste", "mr(30);"),
        ("right one metre, forward two, then left one metre", "mr(100);mf(200);ml(100);"),
        ("raise one metre, then descend a bit", "mu(100);md(30);"),
        ("get closer to the bench, one shot, then retreat half a metre", "mb(50);"),
        ("step fore ward then step back then land", "mf(50);mb(50);ld();"),
        ("go doon forty centimetres then up twenty", "md(40);mu(20);"),
        ("drop half a metre, love, you're up in the lamps", "md(50);"),
        ("a tad closer, a picture, a tad back", "mf(30);tp();mb(30);"),
        ("if it is closer than a metre, retreat", "mb(100);"),
        ("straight up two metres, pause, straight down a metre", "mu(200);d(3);md(100);"),
        ("turn left half of a right angle", "tu(45);"),
        ("turn about and come straight back the way you came", "tc(180);mf(300);"),
        ("if the back door is shut say so, else fly straight on", "mf(200);"),
        ("four feet front, four feet back", "mf(122);mb(122);"),
        ("swing right 30 degrees, then ahead two yards, then swing back left", "tc(30);mf(183);tu(30);"),
        ("go ahead and back up 1 m", "mb(100);"),
        ("duck half a metre, go through by two metres and bob back up half a metre", "md(50);mf(200);mu(50);"),
        ("go back up two metres", "mf(200);mu(200);"),
        ("reverse the last two metres", "mf(200);"),
        ("left. Don't do that, the other one", "mr(100);"),
        ("fly left, never mind, where you were", "mr(100);"),
        ("left is not what I want", "mr(100);"),
        ("left, no, the window side", "mr(100);"),
        ("back and forth twice, one metre each way", "2{mf(100);mb(100);}"),
        ("four metres up and four back, there and back", "mf(400);mb(400);"),
        ("fly on two metres, a picture, and fly back here", "mf(200);tp();mb(200);"),
        ("out one metre, back one metre, then three photos", "mf(100);mb(100);3{tp();}"),
        ("hop over it by rising two feet, going on two metres and coming down two feet", "mu(61);mf(200);md(61);"),
        ("one metre on, one metre back", "mf(100);mb(100);"),
        ("is it nearer, the wall, than a metre? then come back half a metre", "mb(50);"),
        ("say so and come back out one metre", "mb(100);"),
        ("fly it, turn on the heel, fly it back", "mf(480);tc(180);mf(480);"),
        ("looking up hurts: come deeper 60 cm", "md(60);"),
        ("go on to the rack, and if no book is in sight, come back four feet", "g(rack);mb(122);"),
        ("turn right, go two metres, picture, two metres back", "tc(90);mf(200);tp();mb(200);"),
        ("turn right then go left", "tc(90);ml(100);"),
        ("turn right then left", "tc(90);tu(90);"),
        ("go 2 metres right then 1 metre left", "mr(200);ml(100);"),
        ("turn right at the door then left at the window", "tc(90);tu(90);"),
        ("right then, turn left", "tu(90);"),
        ("go left, sorry, right", "mr(100);"),
        ("turn left, I mean right", "tc(90);"),
        ("up one metre, um, down one metre", "mu(100);md(100);"),
        ("no nearer than a metre: if you are closer, come back", "mb(100);"),
        ("turn left and fly right", "tu(90);mr(100);"),
        ("turn left then go right", "tu(90);mf(50);tc(90);mr(100);"),
        ("turn 90 degrees counter-clockwise", "tu(90);"),
        ("fly 2 m left, take a picture and return", "ml(200);tp();mr(200);"),
        ("fly 1 m left, a picture, then return by two metres", "ml(100);tp();mr(200);"),
        ("return two metres left", "mr(200);"),
        ("turn left, no, the other left", "tc(90);"),
        ("three metres to the front, three back, and one more time the same", "2{mf(300);mb(300);}"),
        ("go to the nearer of the two, and then return 2 m", "g(plinth);mb(200);"),
        ("the bus has just left, turn to the stop", "tc(90);"),
        ("fly 2 m forward, then come home", "mf(200);mb(200);"),
        ("go back a metre, then come home", "mb(100);mf(100);"),
        ("go to the back of the home office", "mb(100);"),
        ("go back one metre from the base of the statue", "mb(100);"),
        ("mind your left, the door is swinging open", "mr(100);"),
        ("watch out on the right, somebody is coming", "ml(100);"),
        ("careful to your left", "mr(100);"),
        ("watch your back, a dog is coming", "mf(100);"),
        ("push in three feet, wait, then pull straight back out the same distance", "mf(91);d(3);mb(91);"),
        ("up to the car by a metre, and then go back as far", "mf(100);mb(100);"),
    ],
)
def test_what_the_words_do_not_speak_against_passes(instruction, plan):
    assert not is_contradicted(instruction, plan)


@pytest.mark.parametrize(
    ("instruction", "is_refused"),
    [
        ("slide the plate to the left", True),
        ("slide the plate to the left-hand side, then go home, no rush", True),
        ("slide the plate to the left, no, the other way", False),
        ("slide the plate to the left, and the cup to the other side", False),
        ("slide the plate to the left of the cup", False),
        ("if the plate is to the left, slide it over", False),
        ("the plate is to the left, push it over", False),
        ("slide the plate to the left, then to the right", False),
        ("slide the cup to the left and the plate to the write", False),
        ("slide the plate that is right to the left", False),
        ("put the plate on the left", True),
        ("put the plate in the left area", True),
        ("plate to the left", True),
        ("put the plate left", True),
        ("move left", True),
        ("put the plate on the left in the box", False),
        ("push the plate on the left", False),
        ("bring the one on the left", False),
        ("the plate is to the left", False),
        ("move what is left", False),
    ],
)
def test_an_arm_does_not_bring_a_thing_to_the_other_side_of_the_only_one_ordered(instruction, is_refused):
    assert is_contradicted(instruction, "push(plate,right_area);", model=INDY7) == is_refused
    assert not is_contradicted(instruction, "push(plate,left_area);", model=INDY7)
    assert not is_contradicted(instruction, "push(plate,bin);", model=INDY7)


@pytest.mark.parametrize(
    ("instruction", "plan"),
    [
        ("Get up two metres, the boar's loose!", "md(50);"),
        ("duck, there's a ball coming over", "mu(50);"),
        ("look out on the left, the door is swinging open!", "ml(150);"),
        ("dodge left!", "mr(150);"),
        ("go left, he's not stopping!", "mr(150);"),
        ("move aside to the left", "mr(150);"),
        ("step aside left, quick, the shelf's coming down", "mr(150);"),
        ("there is a car, get out of the way to the right!", "ml(150);"),
        ("move out of the way, to your left", "mr(150);"),
        ("get out of there left, then wait", "mr(150);"),
        ("quick, two metres left", "mr(150);"),
        ("two metres to the left", "mr(150);"),
        ("evade left", "mr(150);"),
        ("evade to the right, please", "ml(150);"),
        ("back off two metres to the left", "mr(150);"),
        ("drop to the floor", "mu(50);"),
        ("smoke, descend to the floor", "mu(50);"),
        ("left, go left!", "mr(100);"),
        ("hard left", "mr(100);"),
        ("keep left", "mr(100);"),
        ("stay to the right!", "ml(100);"),
        ("bear left", "mr(100);"),
    ],
)
def test_an_order_in_an_emergency_is_not_turned_round(instruction, plan):
    assert is_contradicted(instruction, plan, is_urgent=True)
    kept = {"md": "mu", "mu": "md", "ml": "mr", "mr": "ml"}[plan[:2]] + plan[2:]
    assert not is_contradicted(instruction, kept, is_urgent=True)


@pytest.mark.parametrize(
    ("instruction", "plan"),
    [
        ("land now!", "mu(100);"),
        ("land it on the floor", "mu(100);"),
        ("land!", "tk();"),
        ("climb, there's a dog", "ld();"),
        ("get off the ground!", "ld();"),
        ("take off, water!", "ld();"),
    ],
)
def test_an_emergency_that_orders_a_height_is_not_answered_by_the_other(instruction, plan):
    assert is_contradicted(instruction, plan, is_urgent=True)


def test_few_plans_of_the_authors_are_refused_and_nearly_all_that_approach_a_danger_are():
    flagged, num_caught, num_dangers = [], 0, 0
    frames = corpus()
    for frame in frames:
        if frame.robot != "tello":
            continue
        task = literal(random.Random(0), frame, has_scene=False)
        with contextlib.suppress(PlannerError):  # where the plan is too long for the room
            if is_contradicted(task.instruction, task.plan, is_urgent=frame.is_danger):
                flagged.append(task.instruction)
            if frame.is_danger and task.plan[:2] in REVERSED:
                num_dangers += 1
                num_caught += is_contradicted(task.instruction, f"{REVERSED[task.plan[:2]]}(50);", is_urgent=True)
    assert len(flagged) <= len(frames) / 1900, flagged
    assert num_caught / num_dangers > 0.95


def test_ways_to_a_thing_end_at_the_same_place():
    assert ways_to_things(TELLO) == {"g", "a"}
    assert ways_to_things(RobotLibrary().get("indy7")) == frozenset()
