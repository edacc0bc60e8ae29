# SPDX-License-Identifier: Apache-2.0
"""Numbers of an instruction against those of its plan."""

from dataclasses import replace

import pytest

from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.planning.instruction.amounts import AmountCheck
from llm_planner.planning.instruction.verdict import Verdict
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.library import RobotLibrary

TELLO = RobotLibrary().get("tello")


def verdicts(instruction, plan):
    check, gate = AmountCheck(TELLO, instruction), SafetyGate(TELLO)
    found = [check.feed(gate.admit(statement), to_text(statement)) for statement in parse(plan)]
    return [*found, check.finish()], check.problem


def test_more_amounts_than_anybody_says_are_not_looked_through():
    check = AmountCheck(TELLO, "1 m left, 2 m up, " * 60)
    assert check.feed((), "ml(100);") is Verdict.CONTRADICTED
    assert check.problem == "the instruction has more than 100 amounts"


CONTRADICTIONS = [
    ("fly 100 m forward", "mf(100);"),
    ("fly 2 feet up", "mu(200);"),
    ("go three metres left", "ml(30);"),
    ("go three metres left", "ml(100);"),  # the default, although an amount is stated
    ("turn 45 degrees right", "tc(90);"),
    ("wait ten seconds", "d(60);"),
    ("wait 30 seconds", "d(3);"),
    ("wait 30 seconds", "d(10);"),
    ("wait 90 seconds", "d(60);d(20);"),
    ("wait 30 seconds, then wait again", "d(30);d(7);"),
    ("half a metre", "mf(25);"),
    ("a metre and a half", "mf(75);"),
    ("fly ½ m forward", "mf(500);"),
    ("fly 1 1/2 m forward", "mf(50);"),
    ("turn 30 degrees to the right and fly 30 cm forward", "tc(30);mf(100);"),
    ("take two pictures and then fly two metres forward", "2{tp();}mf(100);"),
    ("fly 2 m forward and 3 m to the left", "mf(200);"),
    ("fly 2 m forward and 2 m to the left", "mf(200);"),
    ("go to the chair, then 2 m up", "g(chair);"),
    ("wait ten seconds, then turn left", "tu(90);"),
    ("say back in one minute, then wait one minute", "l('back in one minute');d(3);"),
    ("if the door is nearer than 2 m, fly 4 m back", "?iv(door)&od(door)<200{mb(100);}"),
    ("fly 2 m forward and 50 cm up", "mf(50);mu(200);"),
    ("fly forward 2 m and up by 50 cm", "mf(50);mu(200);"),
    ("turn 45 degrees to the left, then 90 degrees clockwise", "tu(90);tc(45);"),
    ("turn anti-clockwise 45 degrees, then clockwise 90 degrees", "tu(90);tc(45);"),
    ("2 m straight ahead, 50 cm up, 1 m to the left", "mf(50);mu(100);ml(200);"),
    ("fly 2 m forward and 1 m up", "mf(300);"),
    ("fly 2 m forward and 1 m up", "mf(100);"),
    ("turn 45 degrees left and 90 degrees right", "tu(135);"),
    ("fly 2 m forward", "mf(200);mf(200);"),
    ("fly 2 m forward", "5{mf(200);}"),
    ("fly 1 m forward", "5{mf(100);}"),
    ("fly 2 m forward and 2 m up", "mf(200);mf(200);"),
    ("wait 10 seconds", "5{d(10);}"),
    ("go forward 2 m, actually 3", "mf(200);"),
    ("2 m to the left, no, wait, 3 m, then up 50 cm", "ml(200);mu(50);"),
    ("turn left 45", "tu(90);"),
    ("turn right 30", "tc(180);"),
    ("turn left ninety", "tu(9);"),
    ("rotate 120 and take a picture", "tc(90);tp();"),
    ("go forward 200", "mf(20);"),
    ("go forward 2", "mf(20);"),
    ("up 3, please", "mu(50);"),
    ("move forward a little", "mf(500);"),
    ("a step forward", "mf(500);"),
    ("go forward", "mf(500);"),
    ("well, go forward", "mf(500);"),
    ("a little to the left", "ml(200);"),
    ("back up a tad", "mb(400);"),
    ("two steps left", "ml(500);"),
    ("turn left", "tu(270);"),
    ("turn slightly left", "tu(90);"),
    ("go back a little, you're too close to the bed", "mb(500);"),
    ("come a bit closer", "mf(500);"),
    ("left a bit until I say", "ml(500);"),
    ("inch forward", "mf(500);"),
    ("rotate slightly left", "tu(360);"),
    ("the wall is 2 m ahead, go back 1 m", "mb(200);"),
    ("wait", "d(60);"),
    ("turn 45 to the right", "tc(90);"),
    ("90 left", "tu(180);"),
    ("90 left", "ml(100);"),
    ("2 forward", "mf(500);"),
    ("forward about 2", "mf(500);"),
    ("go 2 m forward and turn 90 left", "mf(200);tu(30);"),
    ("wait 10 or 15 seconds", "d(20);"),
    ("go forward two or three metres", "mf(100);"),
    ("wait a sec", "d(30);"),
    ("climb to 2 m", "mu(50);"),
    ("land in 30 seconds", "ld();"),
    ("the plan is 2 m forward, then 3 m left", "ml(300);"),
    ("your route is 2 m forward, 1 m left, 50 cm up", "ml(100);mu(50);"),
    ("first is 90 degrees right, second is 45 degrees left", "tc(90);"),
    ("first is 90 degrees right, second is 45 degrees left", "tu(45);"),
    ("make a small turn to the left", "tu(90);"),
    ("a small step forward", "mf(200);"),
    ("go up -50 cm", "mu(50);"),
    ("-2 m forward", "mf(200);"),
    ("forward \u22122", "mf(200);"),
    ("up by minus two metres", "mu(200);"),
    ("turn -45 degrees", "tc(45);"),
    ("wait minus five seconds", "d(5);"),
    ("the kid is 1 metre to your left, go right 2 metres", "ml(200);"),
    ("fly 2 m left, the wall is on your right", "mr(200);"),
    ("fly 1 m left, the wall is on your right", "mr(100);"),
    ("turn left 45 degrees at the door on the right", "tc(45);"),
    ("three metres right, a snap every metre", "mr(300);tp();"),
    ("three metres right, a snap each metre, then back", "mr(300);tp();ml(300);"),
    ("three metres right, a snap each metre, then back", "mr(300);tp();ml(100);"),
    ("a slow 360 with a frame every 45 degrees", "tc(360);tp();"),
    ("a frame every 45 degrees", "tp();tc(45);"),
    ("a photo every ten seconds", "tp();"),
    ("a photo every ten seconds", "tp();d(10);"),
    ("a photo every second", "5{tp();}"),
    ("a photo every five seconds for half a minute", "4{tp();d(5);}"),
    ("hover, and say hello every minute", "2{l('hello');}"),
    ("wait five seconds, take a picture, wait another ten", "d(5);tp();"),
    ("fly 1 m forward, take a picture, then go another three", "mf(100);tp();mf(100);"),
    ("a count of five, then take off, then wait another five", "d(5);tk();"),
    ("2 m forward and half of that back", "mf(200);mb(200);"),
    ("2 m forward and half of that back", "mf(200);"),
    ("go 1 m left, then twice as far right", "ml(100);mr(100);"),
    ("wait 4 seconds, take a picture and wait half as long", "d(4);tp();d(4);"),
    ("go forward 2 m, hold it for five seconds, then come back the same distance", "mf(200);d(5);mb(100);"),
    ("go forward 2 m, hold it for five seconds, then come back the same distance", "mf(200);d(5);"),
    ("1 m up, a picture, and as far down", "mu(100);tp();md(50);"),
    ("fly 2 m forward, picture, and the same again", "mf(200);tp();"),
]


@pytest.mark.parametrize(("instruction", "plan"), CONTRADICTIONS)
def test_a_number_that_the_instruction_does_not_explain_is_a_contradiction(instruction, plan):
    found, problem = verdicts(instruction, plan)
    assert Verdict.CONTRADICTED in found
    assert "contradicts" in problem


@pytest.mark.parametrize(
    ("instruction", "plan"),
    [
        ("fly 2 m forward", "mf(200);"),
        ("two foot six to the left", "ml(76);"),
        ("turn right", "tc(90);"),
        ("a bit to the right", "mr(30);"),
        ("come a bit closer", "mf(50);"),
        ("the kid is 1 metre to your left, go right 2 metres", "mr(200);"),
        ("the wall is 2 m ahead so fly forward 1 m", "mf(100);"),
        ("you have 3 metres of space on your left, move 1", "ml(100);"),
        ("fly 2 m forward, then go up", "mf(200);mu(50);"),
        ("4 metres forward in two goes", "2{mf(200);}"),
        ("2 m forward and half of that back", "mf(200);mb(100);"),
        ("hover for two minutes", "2{d(60);}"),
        ("stop", "h();"),
        ("if the door is nearer than 2 m, back off", "?iv(door)&od(door)<200{mb(100);}"),
        ("go to chair 3", "g(chair_3);"),
        ("fly 1 1/2 m forward", "mf(150);"),
        ("wait a minute and a half", "d(60);d(30);"),
        ("three times: wait 90 seconds", "3{d(60);d(30);}"),
        ("4 m forward in two goes", "mf(200);mf(200);"),
        ("fly 2 m forward, no, 3 m", "mf(300);"),
        ("a quarter turn left, that's 90 degrees", "tu(90);"),
        ("one turn of 30 degrees to the right", "tc(30);"),
        ("hang on a second, then go up 50 cm", "mu(50);"),
        ("say back in one minute and wait 5 seconds", "l('back in one minute');d(5);"),
        ("if the wall is nearer than 2 m, go 1 m back", "?iv(wall)&od(wall)<200{mb(100);}"),
        ("if the wall is nearer than 1 m, go 1 m back", "?iv(wall)&od(wall)<100{mb(100);}"),
        ("five times 20 cm forward, 20 cm up", "5{mf(20);mu(20);}"),
        ("fly 2 m forward and 50 cm up", "mf(200);mu(50);"),
        ("fly 2 m forward and 50 cm up, no, the other way round", "mf(50);mu(200);"),
        ("2 m forward, 1 m left, then 1 m forward and 2 m left", "mf(200);ml(100);mf(100);ml(200);"),
        ("2 m ahead, picture, 1 m ahead", "mf(300);"),  # one side
        ("1 m left, picture, then back to the middle and 1 m right", "ml(100);tp();mr(200);"),
        ("fly 2 m forward, picture, and the same again", "2{mf(200);tp();}"),
        ("fly a square with sides of 2 m", "4{mf(200);tc(90);}"),
        ("wait 10 seconds at the chair and the table", "g(chair);d(10);g(table);d(10);"),
        ("turn 90 degrees left, go on, turn left", "tu(90);mf(100);tu(90);"),
        ("10 m forward and 2 m up", "5{mf(200);}mu(200);"),
        ("if you see the cat, 2 m ahead", "?iv(cat){mf(200);}?iv(cat)==False{mf(200);}"),
        ("go forward 2 m, actually 3", "mf(300);"),
        ("fly up 1 m, wait, 2", "mu(200);"),
        ("up 2 m, make it 3, no, 2", "mu(200);"),
        ("half a metre up, no, 1 m", "mu(100);"),
        ("turn left 45, then left", "tu(45);tu(90);"),
        ("turn left, then turn left 45", "tu(90);tu(45);"),
        ("turn left 2", "2{tu(90);}"),
        ("turn right ninety, sorry, I meant nineteen", "tc(19);"),
        ("go forward 200", "mf(200);"),
        ("move well back", "mb(300);"),
        ("forward 6", "mf(183);"),
        ("forward 2", "2{mf(50);}"),
        ("forward 4", "mf(200);mf(200);"),
        ("turn left 2 chairs further on", "tu(90);"),
        ("forward a little, then left", "mf(30);ml(200);"),
        ("go a long way forward", "mf(500);"),
        ("fly forward to the wall", "mf(400);"),
        ("forward a couple of metrs", "mf(200);"),
        ("turn left, all the way round", "tu(360);"),
        ("wait a while", "d(30);"),
        ("vorwaerts, fuenf Meter", "mf(500);"),
        ("zwanzig Sekunden warten", "d(20);"),
        ("three steps forward", "mf(150);"),
        ("two steps forward", "mf(50);mf(50);"),
        ("fly low: 40 cm down, three steps in front", "md(40);mf(150);"),
        ("turn 45 to the right", "tc(45);"),
        ("90 left", "tu(90);"),
        ("90 left", "ml(90);"),
        ("2 left", "2{tu(90);}"),
        ("go 2 m forward and turn 90 left", "mf(200);tu(90);"),
        ("wait 10 or 15 seconds", "d(10);"),
        ("wait 10 or 15 seconds", "d(15);"),
        ("wait ten to fifteen seconds", "d(12);"),
        ("wait 10-15 seconds", "d(12);"),
        ("go forward two or three metres", "mf(200);"),
        ("1 m up, then two or three metres forward", "mu(100);mf(250);"),
        ("wait one or two minutes", "d(60);"),
        ("wait one or two minutes", "2{d(60);}"),
        ("wait a sec", "d(3);"),
        ("wait a sec", "d(1);"),
        ("climb to 2 m", "mu(100);"),
        ("climb to 2 m", "mu(200);"),
        ("1 m forward, then take off to 2 metres", "mf(100);mu(100);"),
        ("land in 30 seconds", "d(30);ld();"),
        ("the plan is 2 m forward, then 3 m left", "mf(200);ml(300);"),
        ("the dog is 3 m behind you, go back 1 m", "mb(100);"),
        ("turn left at the small table", "tu(90);"),
        ("turn right away from the small dog", "tc(90);"),
        ("fly all the way forward to the small house", "mf(300);"),
        ("fly a long way up a bit faster", "mu(200);"),
        ("do a little spin around", "tc(360);"),
        ("forward - 2 m or so", "mf(200);"),
        ("minus 25 cm, you are too high", "md(25);"),
        ("a dog 1 m to your left, go right", "mr(100);"),
        ("there's a hole 1 m to your left, so go the other way", "mr(100);"),
        ("go right, then 1 m left", "mr(100);ml(100);"),
        ("turn 180 degrees to the left", "tc(180);"),
        ("turn around and come back 2 m", "tc(180);mf(200);"),
        ("bank left by 60 degrees, strike that, right", "tc(60);"),
        ("you flew forward one metre and right two, now come back", "ml(200);mb(100);"),
        ("fly 2 m left in two goes, and return", "2{ml(100);}mr(200);"),
        ("three metres right, a snap every metre", "3{mr(100);tp();}"),
        ("three metres right, a snap every metre", "mr(100);tp();mr(100);tp();mr(100);tp();"),
        ("up a metre, then 3 m right with a picture each metre, then back", "mu(100);3{mr(100);tp();}ml(300);"),
        ("a slow 360 with a frame every 45 degrees", "8{tc(45);tp();}"),
        ("a photo every ten seconds", "3{tp();d(10);}"),
        ("a picture every two minutes", "3{tp();d(60);d(60);}"),
        ("a photo every second for five seconds", "5{tp();d(1);}"),
        ("look at every second chair", "o(chair_2);"),
        ("every minute counts: go up", "mu(50);"),
        ("photograph every inch of the wall", "o(wall);tp();"),
        ("picture the two shelves, each 2 m wide", "o(shelf_1);tp();o(shelf_2);tp();"),
        ("wait five seconds, take a picture, wait another ten", "d(5);tp();d(10);"),
        ("fly 1 m forward, take a picture, then go another two", "mf(100);tp();mf(200);"),
        ("a count of five, then take off, then wait another five", "d(5);tk();d(5);"),
        ("go 1 m left, then twice as far right", "ml(100);mr(200);"),
        ("go 60 cm down, wait three seconds, then up the same again", "md(60);d(3);mu(60);"),
        ("up by one metre, down by a quarter of that", "mu(100);md(25);"),
        ("wait 4 seconds, take a picture and wait twice as long", "d(4);tp();d(8);"),
        ("go forward 2 m, hold it for five seconds, then come back the same distance", "mf(200);d(5);mb(200);"),
        ("go 2 m forward and as far left as you can", "mf(200);ml(300);"),
        ("go up 1 m and photograph the door at the same time", "mu(100);o(door);tp();"),
        ("fly 2 m left, keeping the same distance from the wall", "ml(200);"),
        ("fly 2 m forward at half the speed", "mf(200);"),
    ],
)
def test_what_the_instruction_explains_passes(instruction, plan):
    found, problem = verdicts(instruction, plan)
    assert Verdict.CONTRADICTED not in found, problem


def test_a_default_is_doubtful_as_long_as_a_stated_amount_is_not_used():
    found, _ = verdicts("go up, then fly 2 m forward", "mu(50);mf(200);")
    assert found == [Verdict.DOUBTFUL, Verdict.EXPLAINED, Verdict.EXPLAINED]


@pytest.mark.parametrize(
    ("instruction", "plan", "is_refused"),
    [
        ("fly 2 m forward", "mf(2);", False),
        ("fly 2 m forward", "mf(0.2);", True),
        ("fly half a metre forward, then 2 m back", "mf(0.5);mb(2);", False),
        ("fly half a metre forward and 2 m back", "mf(0.5);", True),
        ("if the wall is nearer than 2 m, go 1 m back", "?iv(wall)&od(wall)<200{mb(1);}", False),
    ],
)
def test_a_robot_may_count_in_metres(instruction, plan, is_refused):
    def in_metres(name):
        skill = TELLO.skills[name]
        (distance,) = skill.arguments
        argument = replace(distance, unit="m", minimum=0.2, maximum=5.0)
        return replace(skill, arguments=(argument,), effect=replace(skill.effect, unit_m=1.0))

    robot = replace(TELLO, skills=TELLO.skills | {name: in_metres(name) for name in ("mf", "mb")})
    check = AmountCheck(robot, instruction)
    found = [check.feed((), to_text(statement)) for statement in parse(plan)]
    assert (Verdict.CONTRADICTED in [*found, check.finish()]) == is_refused, check.problem


def test_a_part_of_a_wait_is_doubtful_until_the_parts_add_up():
    found, _ = verdicts("wait 90 seconds", "d(60);d(30);")
    assert found == [Verdict.DOUBTFUL, Verdict.EXPLAINED, Verdict.EXPLAINED]


def test_swapped_amounts_are_doubtful_until_both_are_used():
    found, _ = verdicts("fly 2 m forward and 50 cm up", "mf(50);mu(200);")
    assert found == [Verdict.DOUBTFUL, Verdict.DOUBTFUL, Verdict.CONTRADICTED]


def test_an_amount_used_more_often_than_stated_is_refused_at_once():
    found, _ = verdicts("fly 2 m forward", "mf(200);mf(200);")
    assert found[:2] == [Verdict.EXPLAINED, Verdict.CONTRADICTED]


def test_a_block_is_read_part_by_part():
    check = AmountCheck(TELLO, "if the wall is nearer than 2 m, go 1 m back")
    parts = ["?iv(wall)&od(wall)<200{", "mb(100);", "}"]
    assert [check.feed((), part) for part in parts] == [Verdict.EXPLAINED] * 3
    assert check.finish() is Verdict.EXPLAINED


@pytest.mark.parametrize(
    ("instruction", "plan", "replan", "is_refused"),
    [
        ("fly 1 m to the left", "ml(100);", "mf(500);", True),
        ("fly 1 m to the left", "ml(100);", "2{mf(300);}", True),
        ("find the cat", "s(cat);", "mf(300);", True),
        ("fly 1 m to the left", "ml(100);", "mu(200);ml(100);md(200);", False),
        ("fly 3 m to the left", "ml(300);", "mb(50);ml(300);", False),
        ("twice: 2 m ahead", "2{mf(200);}", "mf(400);", False),
        ("go forward 3", "mf(300);", "mf(300);", False),
        ("go to the wall", "mf(300);", "mf(450);", False),  # how far, it does not say
        ("fly 1 m to the left", "ml(100);", "tc(180);d(60);", False),
    ],
)
def test_no_motion_of_a_replan_is_longer_than_what_was_asked_for(instruction, plan, replan, is_refused):
    check = AmountCheck(TELLO, instruction)
    check.feed((), plan)
    again = check.restarted()
    assert again.restarted() is again
    found = [again.feed((), to_text(statement)) for statement in parse(replan)]
    assert (Verdict.CONTRADICTED in [*found, again.finish()]) == is_refused, again.problem
