# SPDX-License-Identifier: Apache-2.0
"""Where the words of a plan are divided."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.planning.instruction.spelling import Spelling


def spelled(instruction, plan, scene="", **options):
    spelling = Spelling(instruction, scene, **options)
    return "".join(to_text(spelling.apply(statement)) for statement in parse(plan))


@pytest.mark.parametrize(
    ("instruction", "plan", "expected"),
    [
        ("find the head light", "g(headlight);", "g(head_light);"),
        ("find the headlight", "g(head_light);", "g(headlight);"),
        ("look at the child's toy box", "?s(childs_toybox)==False{o(childstoybox);}", None),
        ("the Café sign", "g(ca_fe_sign);", "g(cafe_sign);"),
        ("say good night, everybody", "l('goodnight every body');", "l('good night, everybody');"),
        ("say I'm back", "l('im back');", "l('I\\'m back');"),
        ("say back in one minute, then land", "l('back in 60 s');ld();", "l('back in one minute');ld();"),
        ("say two coffees, please", "l('2coffees please');", "l('two coffees, please');"),
        ("say 3 feet to go", "l('91 cm to go');", "l('3 feet to go');"),
        ("say 3 feet to go", "l('90 cm to go');", "l('90 cm to go');"),
        ("face the 3 d printer", "o(d3printer);", "o(d3printer);"),
    ],
)
def test_words_are_divided_as_in_the_instruction(instruction, plan, expected):
    expected = expected or "?s(childs_toy_box)==False{o(childs_toy_box);}"
    assert spelled(instruction, plan) == expected


def test_the_scene_knows_best_how_its_names_are_divided():
    assert spelled("go to the head light", "g(headlight);", scene="headlight 1 2, cup") == "g(headlight);"
    assert spelled("go to the headlight", "g(headlight);", scene="head light, cup") == "g(head_light);"


def test_a_name_that_begins_with_a_digit_is_quoted():
    plan = spelled("put the cup on the plate", "pick(cup);place(cup,plate);", "2_cups, 1_plate", can_search=False)
    assert plan == "pick('2_cups');place('2_cups','1_plate');"
    assert to_text(parse(plan)[0]) == "pick('2_cups');"


def test_names_with_the_same_letters_stay_apart_and_places_are_known():
    assert spelled("go to box 1 1", "g(box_11);g(box_1_1);", scene="box_11, box_1_1") == "g(box_11);g(box_1_1);"
    (call,) = parse("place(cup,left_area);")
    assert Spelling("the cup to the leftarea", places=["left_area"]).apply(call) == call


@pytest.mark.parametrize("name", ["lights", "light_head", "lamp", "the_head_light_is"])
def test_other_letters_are_another_name(name):
    assert spelled("the head light", f"g({name});") == f"g({name});"


def test_a_name_stays_as_it_is_if_the_instruction_has_it_so_once():
    instruction = "the head light and the headlight"
    assert spelled(instruction, "g(headlight);g(head_light);") == "g(headlight);g(head_light);"


@pytest.mark.parametrize(
    ("instruction", "name", "scene", "expected"),
    [
        ("put the spoon in the mug", "mug", "spoon, blue_mug", "blue_mug"),
        ("blue mug on the plate, then the spoon in the mug", "mug", "spoon, plate, blue_mug", "blue_mug"),
        ("put the spoon in the mug", "mug", "spoon, blue_mug, red_mug", "mug"),  # either may be meant
        ("put the spoon in the red mug", "mug", "spoon, blue_mug", "mug"),  # the model passed over "red"
        ("push the dog to the left", "dog", "toy_dog", "dog"),
        ("the old call sheet is garbage", "old_call_sheet", "call_sheet, book", "call_sheet"),
        ("the old call sheet is garbage", "old_call_sheet", "new_call_sheet, book", "old_call_sheet"),
        ("take the red cup", "red_cup", "cup", "red_cup"),  # it may be another one
        ("take the big cup", "big_cup", "small_cup", "big_cup"),
        ("take the cup", "cup", "cup_1, cup_2", "cup"),
        ("take the cup", "cup", "tea_cup_2, tray", "tea_cup_2"),
        ("take the cup 2", "cup_2", "cup_1", "cup_2"),
        ("take the cup that is blue", "cup", "red_cup", "cup"),
        ("take his cup", "cup", "my_cup", "cup"),
        ("the old cup in the bin, the new cup on the tray", "old_cup", "cup, tray", "old_cup"),
        ("the brush belongs in its holder", "holder", "brush, brush_holder", "brush_holder"),
    ],
)
def test_an_arm_uses_the_name_of_the_only_thing_that_may_be_meant(instruction, name, scene, expected):
    (call,) = parse(f"pick({name});")
    assert to_text(Spelling(instruction, scene, can_search=False).apply(call)) == f"pick({expected});"
    assert Spelling(instruction, scene).apply(call) == call  # a drone looks for it


@given(st.text(max_size=60), st.from_regex(r"[a-z]{1,6}(_[a-z]{1,6}){0,2}", fullmatch=True))
def test_it_never_changes_a_letter(instruction, name):
    plan = f"g({name});"
    assert spelled(instruction, plan).replace("_", "") == plan.replace("_", "")


@given(st.lists(st.from_regex(r"[a-z]{1,6}", fullmatch=True), min_size=1, max_size=6), st.data())
def test_every_run_of_words_is_found_without_its_spaces(words, data):
    start = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(start + 1, len(words)))
    letters = "".join(words[start:end])
    (call,) = parse(spelled(" ".join(words), f"g({letters});"))
    runs = {tuple(words[i:j]) for i in range(len(words)) for j in range(i + 1, len(words) + 1)}
    assert call.arguments[0].name in {"_".join(run) for run in runs if "".join(run) == letters}
