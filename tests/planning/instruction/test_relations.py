# SPDX-License-Identifier: Apache-2.0
"""Where an instruction wants things, against where its plan puts them."""

import pytest

from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.planning.instruction.relations import RelationCheck
from llm_planner.planning.instruction.verdict import Verdict
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.library import RobotLibrary

TELLO, INDY7 = RobotLibrary().get("tello"), RobotLibrary().get("indy7")
BLOCKS, DISHES = "red_block, blue_block, green_block", "cup, plate, fork, lamp"


def verdicts(instruction, scene, plan, model=INDY7):
    check, gate = RelationCheck(model, instruction, scene), SafetyGate(model)
    found = [check.feed(gate.admit(statement), to_text(statement)) for statement in parse(plan)]
    assert (Verdict.CONTRADICTED in found) == bool(check.problem)
    return found, check.problem


@pytest.mark.parametrize(
    "instruction",
    [
        "stack red on blue and then green on red",
        "stack the red block on the blue block",
        "put the red one on top of the blue one",
        "red goes onto blue, please",
        "can you get the red block onto the blue block",
        "pick up the red block and put it on the blue one",
        "take the red block. Put it on the blue block",
        "on top of the blue block goes the red block",
        "on the blue block put the red one",
        "the red block belongs on the blue block",
        "cover the blue block with the red block",
        "the blue block should have the red block on top of it",
        "the red and the green block go on the blue block",
        "lift red and set it down on blue",
    ],
)
def test_roles_are_not_reversed(instruction):
    right, reversed_ = "pick(red_block);place(red_block,blue_block);", "pick(blue_block);place(blue_block,red_block);"
    assert not verdicts(instruction, BLOCKS, right)[1]
    assert "the blue block" in verdicts(instruction, BLOCKS, reversed_)[1]


@pytest.mark.parametrize(
    ("said", "is_a_push"),
    [
        ("next to", True),
        ("beside", True),
        ("right alongside", True),
        ("somewhere near", True),
        ("close to", True),
        ("by", True),
        ("up against", True),
        ("at the edge of", True),
        ("to a spot beside", True),
        ("behind", False),
        ("in front of", False),
        ("to the left of", False),
        ("on the right of", False),
        ("under", False),
        ("underneath", False),
        ("in between the lamp and", False),
        ("across from", False),
        ("opposite", False),
        ("around", False),
    ],
)
@pytest.mark.parametrize(
    "order",
    ["put the cup {} the plate", "take the cup and set it {} the plate", "could the cup please go {} the plate?"],
)
def test_a_thing_is_brought_only_on_into_or_up_to_another_one(order, said, is_a_push):
    instruction = order.format(said)
    found, problem = verdicts(instruction, DISHES, "pick(cup);place(cup,plate);")
    assert found == [Verdict.DOUBTFUL, Verdict.CONTRADICTED], "the robot waits with the cup"
    assert "no skill brings a thing" in problem
    assert bool(verdicts(instruction, DISHES, "push(cup,plate);")[1]) != is_a_push


@pytest.mark.parametrize(
    ("instruction", "plan"),
    [
        ("put the cup on the plate next to the lamp", "pick(cup);place(cup,plate);"),
        ("put the cup next to the lamp on the plate", "pick(cup);place(cup,plate);"),
        ("the cup is next to the lamp, put it on the plate", "pick(cup);place(cup,plate);"),
        ("take the cup next to the plate and put it on the plate", "pick(cup);place(cup,plate);"),
        ("don't put the cup next to the plate, put it on the plate", "pick(cup);place(cup,plate);"),
        ("put the cup beside the plate, no, on it", "pick(cup);place(cup,plate);"),
        ("put the plate under the cup", "pick(cup);place(cup,plate);"),
        ("stack them: the cup on top, under it the plate", "pick(cup);place(cup,plate);"),
        ("the cup is on the plate, swap them", "pick(plate);place(plate,cup);"),
        ("take the cup off the plate, wait and put it back on the plate", "pick(cup);place(cup,plate);"),
        ("pick up the cup next to the plate", "pick(cup);"),
        ("put the cup on the plate and bring it to the right", "pick(cup);place(cup,plate);push(plate,right_area);"),
        ("cup on the left fork on the right", "pick(cup);place(cup,left_area);pick(fork);place(fork,right_area);"),
        ("put the cup by any means on the plate", "pick(cup);place(cup,plate);"),
        ("throw the cup in the rubbish", "pick(cup);place(cup,bin);"),
    ],
)
def test_what_is_said_in_some_other_way_is_not_judged(instruction, plan):
    assert not verdicts(instruction, DISHES, plan)[1]


@pytest.mark.parametrize("said", ["to the left of the plate", "on the left of the lamp"])
def test_the_left_of_a_thing_is_not_the_left_area(said):
    assert "left of" in verdicts(f"put the cup {said}", DISHES, "pick(cup);place(cup,left_area);")[1]
    assert not verdicts("put the cup on the left", DISHES, "pick(cup);place(cup,left_area);")[1]


def test_what_goes_next_to_it_goes_on_nothing_that_was_mentioned():
    instruction, begins = "put the cup on the plate and the fork next to it", "pick(cup);place(cup,plate);pick(fork);"
    assert "next to" in verdicts(instruction, DISHES, f"{begins}place(fork,plate);")[1]
    assert "next to" in verdicts(instruction, DISHES, f"{begins}place(fork,cup);")[1]
    assert not verdicts(instruction, DISHES, f"{begins}place(fork,table);")[1]


def test_what_is_a_place_only_is_not_moved():
    instruction, scene = "both the pen and the pencil go in the pencil case", "pen, pencil, pencil_case"
    assert not verdicts(instruction, scene, "pick(pen);place(pen,pencil_case);pick(pencil);")[1]
    assert "pencil case" in verdicts(instruction, scene, "pick(pen);place(pen,pencil_case);pick(pencil_case);")[1]


def test_what_is_to_leave_a_thing_is_not_put_there():
    assert verdicts("take the cup off the plate", DISHES, "pick(cup);place(cup,plate);")[1]
    assert not verdicts("take the cup off the plate", DISHES, "pick(cup);place(cup,table);")[1]


def test_the_bin_of_the_scene_is_meant_and_not_the_robots_own():
    instruction, scene = "see if there's a can; if so chuck it in the recycling", "can, recycling"
    assert "recycling" in verdicts(instruction, scene, "?iv(can){pick(can);place(can,bin);}")[1]
    assert not verdicts(instruction, scene, "?iv(can){pick(can);place(can,recycling);}")[1]


@pytest.mark.parametrize(
    ("instruction", "scene", "wrong", "right"),
    [
        ("move above beaker b", "beaker_a, beaker_b", "move_to(beaker_a);", "move_to(beaker_b);"),
        ("lift crate 3", "crate_2, crate_3", "pick(crate_2);", "pick(crate_3);"),
        ("pick up the left shoe", "left_shoe, right_shoe", "pick(right_shoe);", "pick(left_shoe);"),
        ("the red book goes on the shelf", "red_book, blue_book, shelf", "pick(blue_book);", "pick(red_book);"),
    ],
)
def test_what_one_word_tells_from_what_is_named_is_another_thing(instruction, scene, wrong, right):
    assert "and not" in verdicts(instruction, scene, wrong)[1]
    assert not verdicts(instruction, scene, right)[1]
    assert not verdicts(f"{instruction}, no, the other one", scene, wrong)[1]


def test_a_place_that_is_not_in_the_scene_is_no_other_one():
    order = "the steel ring to the steel crate and the brass ring to the brass crate"
    begins = "pick(steel_ring);place(steel_ring,steel_crate);pick(brass_ring);"
    for scene in ("", "steel_ring, brass_ring, steel_crate"):
        assert "brass crate" in verdicts(order, scene, f"{begins}place(brass_ring,steel_crate);")[1]
        assert not verdicts(order, scene, f"{begins}place(brass_ring,brass_crate);")[1]
    corrected = "put the cup in the red crate. Did I say red? It is the blue crate"
    assert not verdicts(corrected, "cup, red_crate, blue_crate", "pick(cup);place(cup,blue_crate);")[1]
    assert not verdicts("put the cup in the big crate", "cup, red_crate", "pick(cup);place(cup,red_crate);")[1]


@pytest.mark.parametrize(
    "order",
    [
        "cup on the tray, fork in the box",
        "put the cup on the tray and the fork in the box",
        "the cup goes to the tray and then the fork to the box",
        "the cup belongs on the tray; the fork belongs in the box",
        "the cup is for the tray, the fork is for the box",
        "take the cup to the tray and carry the fork into the box",
        "the cup should go on the tray, the fork must go in the box",
        "cups on the tray and forks in the box please",
    ],
)
def test_each_thing_goes_where_the_instruction_says(order):
    scene, begins = "cup, tray, fork, box", "pick(cup);place(cup,tray);pick(fork);"
    assert not verdicts(order, scene, f"{begins}place(fork,box);")[1]
    for other in ("tray", "bin", "cup"):
        assert verdicts(order, scene, f"{begins}place(fork,{other});")[1] == "the fork is to go to the box"


@pytest.mark.parametrize(
    ("order", "plan"),
    [
        ("pick up the fork in the box and put it on the tray", "pick(fork);place(fork,tray);"),
        ("the fork is in the box, lay it on the tray", "pick(fork);place(fork,tray);"),
        ("get the fork in the box out, to the tray", "pick(fork);place(fork,tray);"),
        ("as you have the fork, the cup goes on the tray", "pick(fork);place(fork,bin);"),
        ("put the fork on the box into the tray", "pick(fork);place(fork,tray);"),
        ("put the fork in the box, no, on the tray", "pick(fork);place(fork,tray);"),
        ("put the fork in the box, then on the tray", "pick(fork);place(fork,box);pick(fork);place(fork,tray);"),
        ("put the fork in the box, and then everything on the tray", "pick(fork);place(fork,tray);"),
        ("if the box is full put the fork on the tray, else put the fork in the box", "pick(fork);place(fork,tray);"),
        ("put the fork on the table, to the left", "pick(fork);place(fork,left_area);"),
        ("push the fork to the left of the table", "push(fork,left_area);"),
    ],
)
def test_where_a_thing_is_or_was_is_not_where_it_goes(order, plan):
    assert "is to go to" not in verdicts(order, "cup, tray, fork, box", plan)[1]


@pytest.mark.parametrize("order", ["the cup out of the way, to whichever side", "clear the cup off, then go home"])
def test_nothing_is_put_on_what_nobody_speaks_of(order):
    assert "says nothing of the plate" in verdicts(order, "cup, plate", "pick(cup);place(cup,plate);")[1]
    assert not verdicts(order, "cup, plate", "pick(cup);place(cup,left_area);")[1]
    assert not verdicts("put the cup on something flat", "cup, plate", "pick(cup);place(cup,plate);")[1]


@pytest.mark.parametrize("said", ["left of", "to the right of", "that's behind", "which stands in front of"])
def test_a_thing_that_tells_which_one_is_meant_is_not_it(said):
    order = f"the one {said} the lamp goes in the bin"
    assert "not to move that" in verdicts(order, DISHES, "pick(lamp);")[1]
    assert not verdicts(order, DISHES, "pick(fork);place(fork,bin);")[1]


@pytest.mark.parametrize(
    "said", ["behind", "round behind", "under", "to the left of", "in between the lamp and", "around"]
)
def test_nothing_goes_behind_a_thing(said):
    assert "no skill goes" in verdicts(f"fly {said} the sofa", "sofa, lamp, man", "g(sofa);", TELLO)[1]


@pytest.mark.parametrize(
    "said", ["go to the man behind the sofa", "fly in front of the sofa", "don't go under the sofa"]
)
def test_where_a_thing_is_may_be_said(said):
    assert not verdicts(said, "sofa, man", "g(sofa);", TELLO)[1]


@pytest.mark.parametrize(
    "word", ["cup on ", "cup and ", "on top of the cup ", "it on cup ", "cover cup with ", "@1 on @2 "]
)
def test_hostile_words_end(word):
    for instruction in (word * (4000 // len(word)), "in the " * 500 + word):
        verdicts(instruction, DISHES, "pick(cup);")
