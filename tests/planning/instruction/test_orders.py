# SPDX-License-Identifier: Apache-2.0
"""Whether an instruction orders what a plan does: questions, reports, cases that are ruled out, numbers of times."""

import pytest

from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.planning.instruction.orders import OrderCheck
from llm_planner.planning.instruction.verdict import Verdict
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.library import RobotLibrary

TELLO, INDY7 = RobotLibrary().get("tello"), RobotLibrary().get("indy7")


def problem(instruction, plan, model=TELLO):
    check, gate = OrderCheck(model, instruction), SafetyGate(model)
    verdicts = [check.feed(gate.admit(statement), to_text(statement)) for statement in parse(plan)]
    assert (Verdict.CONTRADICTED in verdicts) == bool(check.problem)
    return check.problem


@pytest.mark.parametrize(
    ("said", "plan"),
    [
        ("have you come down yet?", "ld();"),
        ("did you land", "ld();"),
        ("Are you going to land or not?", "ld();"),
        ("why did you turn round to the left?", "tu(90);"),
        ("hey, how do I get you to land?", "ld();"),
        ("what happens if you take off in here?", "tk();"),
        ("when will you take off", "tk();"),
        ("who told you to go up", "mu(50);"),
        ("Has it taken off already?", "tk();"),
        ("where did you go", "mf(100);"),
    ],
)
def test_nothing_is_done_for_a_question_about_what_the_robot_does(said, plan):
    assert problem(said, plan) == "that is a question, and no order"


@pytest.mark.parametrize(
    ("said", "plan"),
    [
        ("I never said go left", "ml(100);"),
        ("We didn't ask you to land, thanks", "ld();"),
        ("I told you not to take off", "tk();"),
        ("nobody told you to land", "ld();"),
        ("you landed in my soup", "ld();"),
        ("you weren't supposed to turn", "tu(90);"),
        ("you shouldn't have landed there", "ld();"),
        ("you nearly hit the cat", "mb(100);"),
        ("I'm not ready for you to take off", "tk();"),
        ("get ready to take off", "tk();"),
        ("pretend you fly 1 m forward", "mf(100);"),
        ("I will tell you when to land", "ld();"),
        ("it was supposed to stay on the floor", "tk();"),
    ],
)
def test_nothing_is_done_for_a_report_a_denial_or_a_pretence(said, plan):
    assert problem(said, plan) == "that tells of something, and orders nothing"


@pytest.mark.parametrize(
    ("said", "plan", "model"),
    [
        ("can you land?", "ld();", TELLO),
        ("could you please land", "ld();", TELLO),
        ("I told you to land", "ld();", TELLO),
        ("I already told you that I want you to land", "ld();", TELLO),
        ("you landed too far left, go right 1 m", "mr(100);", TELLO),
        ("did you see the lamp? go there", "g(lamp);", TELLO),
        ("have you landed yet? take off again", "tk();", TELLO),
        ("why don't you land", "ld();", TELLO),
        ("you need to land", "ld();", TELLO),
        ("did you see the lamp", "->iv(lamp);", TELLO),
        ("what happens if I wave?", "h();", TELLO),
        ("have you got the lid? put it in the tray", "pick(lid);place(lid,tray);", INDY7),
        ("should you see the lid, take it", "?iv(lid){pick(lid);}", INDY7),
        ("the lid goes in the tray", "pick(lid);place(lid,tray);", INDY7),
        ("he asked you to take the lid", "pick(lid);", INDY7),
        ("I'll have the lid", "pick(lid);", INDY7),
    ],
)
def test_what_orders_something_or_looks_only_is_done(said, plan, model):
    assert problem(said, plan, model) == ""


def test_nothing_is_done_for_what_is_denied():
    said = "it isn't true that I want you to land"
    assert problem(said, "ld();") == "that denies something, and orders nothing"
    assert problem(f"{said}, take off", "tk();") == ""


@pytest.mark.parametrize(
    ("said", "plan", "model"),
    [
        ("Have I told you to climb? No, I certainly haven't.", "mu(50);", TELLO),
        ("Did anybody order you to open that now? They did not!", "open();", INDY7),
        ("You aren't planning on coming down, are you?", "ld();", TELLO),
        ("You haven't moved it, have you?", "push(cup,box);", INDY7),
        ("I hope you weren't considering a landing here", "ld();", TELLO),
        ("How loud would the crash be if it fell from up there now?", "ld();", TELLO),
        ("If I told you to drop the vase, what would you say?", "open();", INDY7),
        ("Suppose you let go of the jar, would it break?", "open();", INDY7),
        ("Do you reckon you should land?", "ld();", TELLO),
        ("Would it be wise to take off in this wind?", "tk();", TELLO),
        ("I wonder what becomes of the jug when you open up", "open();", INDY7),
        ("My sister thinks you ought to land now. I don't.", "ld();", TELLO),
        ("The foreman says you should lift the crate, but he is quite mistaken.", "pick(crate);", INDY7),
        ("People say you must fly higher; take no notice of them", "mu(50);", TELLO),
    ],
)
def test_nothing_is_done_for_what_is_only_asked_supposed_or_disputed(said, plan, model):
    assert problem(said, plan, model).endswith((" no order", " orders nothing"))


@pytest.mark.parametrize(
    ("said", "plan", "model"),
    [
        ("Did I say land? I meant take off, so take off", "tk();", TELLO),
        ("My sister thinks you ought to land, she is wrong, fly up 1 m", "mu(100);", TELLO),
        ("My boss says you should land now", "ld();", TELLO),
        ("what would you do if it fell? Pick it up", "pick(jar);", INDY7),
        ("you are not high enough", "mu(30);", TELLO),
        ("would you mind if I asked you to land", "ld();", TELLO),
        ("put the jar down, would you?", "place(jar,table);", INDY7),
        ("it would be nice if you landed", "ld();", TELLO),
        ("if I were you I would land", "ld();", TELLO),
        ("if you dropped it, could you pick it up again", "pick(jar);", INDY7),
    ],
)
def test_what_is_ordered_besides_or_asked_politely_is_done(said, plan, model):
    assert not problem(said, plan, model)


@pytest.mark.parametrize(
    "said",
    [
        "Could you hoist the jar? Only answer, please, don't do it.",
        "Are you strong enough to lift the jar? Don't really try it.",
        "Tell me how you would take the jar, without actually moving.",
        "Don't do anything, just tell me whether you could take the jar",
        "Could you take the jar? Just curious.",
        "Can you lift the jar? That's not an order.",
        "take the jar - only joking!",
    ],
)
def test_nothing_is_done_where_it_is_only_spoken_of(said):
    assert problem(said, "pick(jar);", INDY7) == "the instruction speaks of it, and says not to do it"
    assert not problem(said, "->iv(jar);", INDY7)


def test_what_only_a_quotation_of_somebody_else_says_is_not_done():
    wrong = "only a quotation orders that"
    assert problem('The parrot keeps yelling "take off, take off", ha ha', "tk();") == wrong
    assert problem("there's a sign that reads 'all robots must land'. What colour is it?", "ld();") == wrong
    assert problem('"Fly to the well", she said, and laughed', "g(well);") == wrong
    assert problem('Grandma told you, "open your claw!" How sweet of her.', "open();", INDY7) == wrong
    beside = 'My nephew says "fly to the big tree". Fly to the pond, please.'
    assert problem(beside, "g(big_tree);") == "only a quotation speaks of the big tree"
    assert not problem(beside, "g(pond);")
    assert not problem('take the bottle that says "salt"', "pick(salt);", INDY7)
    assert not problem('take the box that says "this way up"', "pick(box);", INDY7)
    assert not problem('say "drones, fly home" and land', "l('drones, fly home');ld();")
    assert not problem('when the boy shouts "now", go up 1 m', "mu(100);")
    assert not problem('I said "land"!', "ld();")


def test_what_must_not_be_done_in_a_case_is_not_done_in_that_case():
    said = "fly 1 m forward, but not if the child is there"
    wrong = "the instruction says when not to do that"
    assert problem(said, "?iv(child){mf(100);}") == wrong
    assert problem(said, "mf(100);") == wrong
    assert problem(said, "_1=iv(child);?_1{mf(100);}") == wrong
    assert problem(said, "?iv(child)==False{mf(100);}") == ""
    assert problem(said, "_1=iv(child);?_1==False{mf(100);}") == ""
    assert problem(said, "?iv(child){->False;}mf(100);") == ""
    assert problem("fly 1 m forward if the child is not there", "?iv(child)==False{mf(100);}") == ""


def test_the_same_where_a_block_comes_in_parts():
    check = OrderCheck(TELLO, "fly 1 m forward, but never when the child is there")
    calls = SafetyGate(TELLO).admit(parse("mf(100);")[0])
    assert check.feed([], "?iv(child)==False{") is Verdict.EXPLAINED
    assert check.feed(calls, "mf(100);") is Verdict.EXPLAINED
    assert check.feed([], "}") is Verdict.EXPLAINED
    assert check.feed(calls, "mf(100);") is Verdict.CONTRADICTED
    again = check.restarted()
    assert again.feed([], "?iv(child){") is Verdict.EXPLAINED
    assert again.feed(calls, "mf(100);") is Verdict.CONTRADICTED


def test_what_is_to_wait_until_somebody_has_gone_does_not_begin_at_once():
    said = "take off when the visitors have left"
    assert problem(said, "tk();") == "the instruction says to wait for something"
    assert problem(said, "d(30);tk();") == ""
    assert problem("after the lid has gone in the tray, take the pen", "pick(pen);", INDY7) == ""


def test_nobody_is_no_name():
    assert problem("if you don't see anybody fly 1 m up", "?iv(anybody)==False{mu(100);}") == (
        "'anybody' is the name of no thing"
    )


def test_to_move_and_not_to_move_is_not_understood():
    assert problem("fly 1 m up but don't move", "mu(100);") == "the instruction says to move, and not to"
    assert problem("turn left but don't move", "tu(90);") == ""
    assert problem("fly 1 m up, but don't move the lamp", "mu(100);") == ""
    assert problem("stop there and don't move, in 9 s fly up 1 m", "h();d(9);mu(100);") == ""
    assert problem("if you see a dog stay and don't move, else fly 1 m up", "?iv(dog)==False{mu(100);}") == ""


def test_an_opposite_is_not_guessed():
    assert problem("do the opposite of flying up 1 m", "mu(100);") == "what the opposite is, only a person can say"
    assert problem("fly to the opposite side of the room", "mf(300);") == ""


@pytest.mark.parametrize(
    "said",
    [
        "Cup in the box, plate in the sink. Oh wait, I've put those the wrong way round.",
        "take the cup and leave the plate, sorry, I got them back to front",
        "the cup goes in the sink and the plate in the box - I've mixed those up",
        "cup on plate. Sorry, it's the other way about!",
        "cup on the plate, plate on the tray, sorry, vice versa",
        "leave the plate, take the cup, no, sorry, swap those two",
    ],
)
def test_what_is_taken_back_by_turning_it_round_is_not_guessed(said):
    assert problem(said, "pick(cup);", INDY7) == "what the opposite is, only a person can say"
    assert not problem("they are the wrong way round, swap them", "pick(cup);", INDY7)
    assert not problem("turn the other way round", "tu(180);")
    assert not problem("I've mixed those up: go to the right window", "g(right_window);")
    assert not problem("I said fly backwards", "mb(100);")


@pytest.mark.parametrize(
    "said",
    [
        "You're a bit too near the bookcase.",
        "Could you not be so near to the bookcase, please",
        "I'd like you further away from the bookcase",
        "Must you hover that close? Too close to the bookcase for my taste",
        "please leave some more room between you and the bookcase",
        "I wish you didn't stand so close to the bookcase",
    ],
)
def test_a_wish_for_distance_is_no_order_to_approach(said):
    assert problem(said, "a(bookcase);") == "the instruction wants more distance from the bookcase"
    assert not problem(said, "o(bookcase);mb(50);")


def test_one_may_go_near_what_another_thing_is_not_near():
    assert not problem("go to the lamp, but not too close to the fire", "g(lamp);")
    assert not problem("you're too close to the wall, go to the lamp", "g(lamp);")
    assert not problem("go to the lamp, but not too close to the lamp", "g(lamp);")
    assert not problem("the cup is too close to the edge, go to the edge", "g(edge);")
    assert not problem("get so close to the lamp that you see the switch", "g(lamp);")


@pytest.mark.parametrize(
    ("said", "plan", "is_refused"),
    [
        ("open and close 30 times", "10{open();close();}", True),
        ("open and close thirty times", "3{10{open();close();}}", False),
        ("open and close 4 times", "3{open();close();}open();close();", False),
        ("open and close four times, no, twice", "2{open();close();}", False),
        ("open 3 times, close 6 times", "3{open();}6{close();}", False),
    ],
)
def test_a_number_of_times_is_kept(said, plan, is_refused):
    assert bool(problem(said, plan, INDY7)) == is_refused


@pytest.mark.parametrize(
    "said",
    [
        "It's not true that I want the cup moved.",
        "It's simply not the case that I need the cup moved",
        "I never asked you to move the cup",
        "I'm not asking you to move the cup",
        "I am not saying you should move the cup",
        "I don't want the cup moved",
        "I really didn't want the cup moved",
        "I'd never want you to move the cup",
        "Nobody wants the cup moved",
        "no one asked you to pick up the cup",
        "who said I wanted the cup moved?",
        "Since when do I want the cup moved?",
        "by no means do I want the cup moved",
        "there is no need to move the cup",
        "no need to pick up the cup",
        "you don't have to pick up the cup",
        "It's a lie that I asked you to move the cup, I never did",
    ],
)
def test_a_denial_orders_nothing_whatever_words_it_has(said):
    assert problem(said, "pick(cup);", INDY7).endswith(" something, and orders nothing")


@pytest.mark.parametrize(
    ("said", "plan"),
    [
        ("I don't want the cup moved but the plate, move the plate", "mf(50);"),
        ("I don't want you to be so close", "mb(50);"),
        ("you don't need to be afraid, land", "ld();"),
        ("no need to rush, land", "ld();"),
        ("I didn't mean land, I meant take off", "tk();"),
        ("I never said up, I said down, so go down", "md(50);"),
        ("there's no reason to wait, land", "ld();"),
    ],
)
def test_what_is_ordered_besides_a_denial_is_done(said, plan):
    assert not problem(said, plan)


@pytest.mark.parametrize(
    ("said", "plan", "model"),
    [
        ("Go left 1 m and at the same time go right 1 m", "ml(100);mr(100);", TELLO),
        ("go up while going down", "mu(50);md(50);", TELLO),
        ("turn left and simultaneously turn right", "tu(90);tc(90);", TELLO),
        ("open and close the gripper at the same time", "open();close();", INDY7),
    ],
)
def test_opposites_are_not_done_at_the_same_time(said, plan, model):
    check, gate = OrderCheck(model, said), SafetyGate(model)
    verdicts = [check.feed(gate.admit(statement), to_text(statement)) for statement in parse(plan)]
    assert verdicts == [Verdict.DOUBTFUL, Verdict.CONTRADICTED], "nothing is sent before the rest is known"


def test_other_things_are_done_one_after_the_other():
    assert not problem("go up 1 m and at the same time turn left", "mu(100);tu(90);")
    assert not problem("go left 1 m and then right 1 m", "ml(100);mr(100);")


@pytest.mark.parametrize(
    ("said", "plan", "model"),
    [
        ("don't stop, keep going forward forever", "mf(500);", TELLO),
        ("keep turning endlessly", "tc(360);", TELLO),
        ("open and close the gripper, keep doing that for all eternity", "open();", INDY7),
    ],
)
def test_no_plan_goes_on_for_ever(said, plan, model):
    assert problem(said, plan, model) == "no plan goes on for ever; say how far, how long or how often"
    assert not problem("I'd love you forever if you go up a metre", "mu(100);")


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("what's your battery level?", "what is the battery level"),
        ("what's your battery at?", "what is the battery at"),
        ("how's your battery doing", "how is the battery"),
        ("tell me the battery level", "what is the battery level"),
        ("how much battery do you have left", "how much battery is left"),
        ("how high are you?", "how high are you"),
        ("what is the drone's speed", "what is the speed"),
        ("report your current position", "what is the position"),
        ("are you low on power", "is the power low"),
    ],
)
def test_a_camera_is_not_asked_how_the_robot_itself_is(said, asked):
    assert "a camera does not see" in problem(said, f"->p('{asked}');")


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("what's the battery level of the scooter", "what is the battery level of the scooter"),
        ("how high is the shelf", "how high is the shelf"),
        ("is the battery charger on", "is the battery_charger on"),
        ("what's the height of the table", "what is the height of the table"),
        ("how many people do you see", "how many people do you see"),
        ("go to the lamp, your battery is full, and tell me if it is on", "is the lamp on"),
    ],
)
def test_a_camera_may_be_asked_how_other_things_are(said, asked):
    assert not problem(said, f"->p('{asked}');")


@pytest.mark.parametrize(
    "words",
    [
        "what is the battery ",
        "how high ",
        "your own current ",
        "i never said ",
        "i do not want the ",
        "go on ",
        "really ",
        "a a a a ed ",
        "what if you ",
        ", what what what ",
        "he says ",
        "just say ",
        "says 'a ",
        "you too ",
        "i said it ",
    ],
)
def test_hostile_denials_end(words):
    problem(words * (4000 // len(words)), "ld();")


@pytest.mark.parametrize(
    ("said", "plan", "state"),
    [
        ("check whether my cup is empty, and if so land", "?iv(cup){ld();}", "whether my cup is empty"),
        ("are the lights on?", "->iv(light);", "are the lights on"),
        ("is the door shut?", "->p('is the door shut');", ""),
        ("if the cup is on the table land", "?iv(cup){ld();}", ""),
        ("if there is a free chair go there", "?iv(chair){g(chair);}", ""),
        ("if you see the open door land", "?iv(door){ld();}", ""),
    ],
)
def test_how_a_thing_is_cannot_be_told_by_looking_whether_it_is_there(said, plan, state):
    expected = f"the plan only looks whether it is there, and not {state!r}" if state else ""
    assert problem(said, plan) == expected
