# SPDX-License-Identifier: Apache-2.0
"""Plans that contradict the words of their instruction, each beside one that does not."""

import pytest

from tests.planning.instruction.test_ways import INDY7, TELLO, problems

NOT_SO = "the instruction says what to do if something is not so, and the plan does it if it is"


@pytest.mark.parametrize(
    ("instruction", "refused", "admitted", "problem"),
    [
        (
            "say mind the step three times",
            "l('mind the step');",
            "3{l('mind the step');}",
            "the plan does nothing three times",
        ),
        ("hop up and down twice", "mu(30);md(30);", "2{mu(30);md(30);}", "the plan does nothing twice"),
        ("take four photos of the chair", "o(chair);3{tp();}", "o(chair);4{tp();}", "the plan takes 3 of 4 pictures"),
        ("two photos, sorry, five photos", "2{tp();}", "5{tp();}", "the plan takes 2 of 5 pictures"),
        (
            "fly 120 cm to the left and return",
            "ml(120);mb(120);",
            "ml(120);mr(120);",
            "the plan leaves out the way back",
        ),
        ("some less height, please", "mu(30);", "md(30);", "mu(30) goes another way than the instruction says"),
        ("more altitude", "md(30);", "mu(30);", "md(30) goes another way than the instruction says"),
        (
            "a picture of the chair please",
            "o(window);tp();",
            "o(chair);tp();",
            "the plan leaves out the chair, and acts on",
        ),
        ("if you don't see the chair, turn left", "?iv(chair){tu(90);}", "?iv(chair)==False{tu(90);}", NOT_SO),
        ("if the chair isn't there take a photo", "?iv(chair){tp();}", "?iv(chair)==False{tp();}", NOT_SO),
        (
            "the last stop is the chair, go there",
            "o(chair);",
            "g(chair);",
            "the plan only looks, and does not go there",
        ),
        (
            "go and see the mailbox, then the window",
            "g(mailbox);g(mailbox);",
            "g(mailbox);g(window);",
            "the plan goes to one thing twice, and leaves out the window",
        ),
        ("would you climb a bit, ducky", "mu(30);->p('is the ducky there');", "mu(30);", "nothing of asking anything"),
        ("it rang a minute ago, fly to the mailbox", "g(mailbox);d(60);", "g(mailbox);", "nothing of waiting"),
        (
            "call mind your heads across the hall",
            "l('mind your heads across the hall');",
            "l('mind your heads');",
            "what to say: 'mind your heads across the hall' is not in the instruction as words to say",
        ),
        (
            "is the chair free? tell me",
            "->p('is the chair the chair free');",
            "->p('is the chair free');",
            "what to ask: 'is the chair the chair free' says something twice",
        ),
    ],
)
def test_a_drone(instruction, refused, admitted, problem):
    assert any(problem in found for found in problems(instruction, refused)), problems(instruction, refused)
    assert problems(instruction, admitted) == []


def test_a_thing_that_is_named_once_is_visited_once():
    (problem,) = problems("over to the fountain, and a photo", "g(fountain);tp();g(fountain);", scene="")
    assert problem == "the plan goes to the fountain twice, which the instruction names once"
    assert problems("over to the fountain, and a photo", "g(fountain);tp();", scene="") == []


@pytest.mark.parametrize(
    ("instruction", "refused", "admitted", "problem"),
    [
        (
            "push the cup over to the bin, do not grab it",
            "pick(red_cup);place(red_cup,bin);",
            "push(red_cup,bin);",
            "the instruction rules out gripping it",
        ),
        (
            "the red ones go to the left",
            "pick(red_cup);place(red_cup,left_area);",
            "pick(red_cup);place(red_cup,left_area);pick(red_lid);place(red_lid,left_area);",
            "the plan leaves out the red lid",
        ),
        (
            "what is red belongs in the bin",
            "pick(red_cup);place(red_cup,bin);",
            "pick(red_cup);place(red_cup,bin);pick(red_lid);place(red_lid,bin);",
            "the plan leaves out the red lid",
        ),
        ("home you need not go, just open", "open();home();", "open();", "the instruction rules out going home"),
        (
            "what is red goes in the bin, what is blue stays",
            "pick(red_cup);place(red_cup,bin);",
            "pick(red_cup);place(red_cup,bin);pick(red_lid);place(red_lid,bin);",
            "the plan leaves out the red lid",
        ),
        ("swing with the free arm to the left", "pick(free_arm);", "move_to(left_area);", "but the robot's own"),
        ("left, um, the red cup", "pick(um);", "pick(red_cup);", "neither the scene nor the instruction has um"),
    ],
)
def test_an_arm(instruction, refused, admitted, problem):
    scene = "red_cup, red_lid, blue_cup"
    assert any(problem in found for found in problems(instruction, refused, INDY7, scene))
    assert problems(instruction, admitted, INDY7, scene) == []


@pytest.mark.parametrize(
    ("instruction", "plan", "model"),
    [
        ("I asked you twice: land", "ld();", TELLO),
        ("he fell off the roof three times, so take off now", "tk();", TELLO),
        ("two photos of the chair, and between them wait five seconds", "o(chair);tp();d(5);tp();", TELLO),
        ("between the two photos turn left", "tp();tu(90);tp();", TELLO),
        ("up 1.2 m, picture", "mu(120);tp();", TELLO),
        ("turn left three times, no, just once", "tu(90);", TELLO),
        ("take off if you don't mind", "tk();", TELLO),
        ("if there is a chair, go there, otherwise land", "_1=iv(chair);?_1{g(chair);}?_1==False{ld();}", TELLO),
        ("look at the chair and go there in a minute", "o(chair);d(60);g(chair);", TELLO),
        ("take one photo, not two photos", "tp();", TELLO),
        ("a photo of the two pictures on the wall", "tp();", TELLO),
        ("at most four pictures", "3{tp();}", TELLO),
        ("two photos, no, just one, then turn left 45", "tp();tu(45);", TELLO),
        ("say the toilets are across the hall", "l('the toilets are across the hall');", TELLO),
        ("if the cup that is not blue is there take it", "?iv(red_cup){pick(red_cup);}", INDY7),
        ("go to the chair, if you can't see it land", "_1=iv(chair);?_1{g(chair);}?_1==False{ld();}", TELLO),
        ("if you don't see the chair, look around for it", "?s(chair){o(chair);}", TELLO),
        ("if the chair is not in view land", "?iv(chair)!=True{ld();}", TELLO),
        ("fly to the couch to the right of the chair", "g(red_cup);", TELLO),
        ("two rounds: chair, then blue cup", "g(chair);g(blue_cup);g(chair);g(blue_cup);", TELLO),
        ("move the red ones to the left, but not the lid", "push(red_cup,left_area);", INDY7),
        ("the red ones, no, just the red cup, go left", "push(red_cup,left_area);", INDY7),
        ("two metres forward, turn around, two metres and come back", "mf(200);tc(180);mf(200);home();", TELLO),
        ("take one of the red ones", "pick(red_cup);", INDY7),
        ("push the blue cup toward the red ones", "push(blue_cup,red_cup);", INDY7),
        ("unless the chair is free, land", "?p('is the chair free')==False{ld();}", TELLO),
        ("say first come, first served", "l('first come, first served');", TELLO),
        ("go to the kid beside the chair", "g(red_cup);", TELLO),
        ("to the chair and once again to the chair", "g(chair);g(chair);", TELLO),
        ("leave the red ones, the blue cup goes left", "pick(blue_cup);place(blue_cup,left_area);", INDY7),
        ("grab the cup, but do not lift it yet", "pick(blue_cup);", INDY7),
        ("stack the blue and red cups", "pick(red_cup);place(red_cup,blue_cup);", INDY7),
    ],
)
def test_what_is_meant_so_is_admitted(instruction, plan, model):
    assert (
        problems(
            instruction, plan, model, "red_cup, blue_cup, chair" if model is TELLO else "red_cup, blue_cup, red_lid"
        )
        == []
    )
