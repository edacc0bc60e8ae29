# SPDX-License-Identifier: Apache-2.0
"""Amounts as people say them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.planning.instruction.quantities import QuantityKind, quantities, with_plain_amounts

CM, DEGREES, SECONDS, COUNT = QuantityKind.LENGTH, QuantityKind.ANGLE, QuantityKind.TIME, QuantityKind.COUNT


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fly 2 m forward", [(CM, 200)]),
        ("50cm up, 1,5 m left", [(CM, 50), (CM, 150)]),
        ("two foot six", [(CM, 76.2)]),
        ("5' 10\" down", [(CM, 177.8)]),
        ("half a metre", [(CM, 50)]),
        ("a metre and a half", [(CM, 150)]),
        ("another metre and a half ahead, one more foot back", [(CM, 150), (CM, 30.48)]),
        ("two more metres, a further 50 cm, another minute", [(CM, 200), (CM, 50), (SECONDS, 60)]),
        ("take one more picture, another second later a more careful one", [(COUNT, 1), (SECONDS, 1), (COUNT, 1)]),
        ("do a 180, a 180 turn, a full three sixty", [(DEGREES, 180), (DEGREES, 180), (COUNT, 360)]),
        ("a snap every metre, a photo each second; every yard or so", [(CM, 100), (SECONDS, 1), (CM, 91.44)]),
        ("every second chair, each foot of the bed, every minute counts, every inch", [(CM, 2.54)]),
        ("give me a slow 360 with two photos, make a 360 video", [(DEGREES, 360), (COUNT, 2), (COUNT, 360)]),
        ("make a 90 to the left, two turns", [(DEGREES, 90), (DEGREES, 720)]),
        ("shelf 4 in aisle 3, 6 in forward", [(COUNT, 4), (COUNT, 3), (CM, 15.24)]),
        ("hover 5 in above the cup, put 2 in bin 1", [(CM, 12.7), (COUNT, 2), (COUNT, 1)]),
        ('the "bay 12" sign, 6" up and 5" down', [(COUNT, 12), (CM, 15.24), (CM, 12.7)]),
        ("take 4 m8 bolts, at 1 m/s fly 2 m", [(COUNT, 4), (COUNT, 8), (CM, 200)]),
        ("one and half meter", [(CM, 150)]),
        ("two metres and a half", [(CM, 250)]),
        ("one metre twenty", [(CM, 120)]),
        ("one fifty centimetres", [(CM, 150)]),
        ("a hundred and twenty five centimetres", [(CM, 125)]),
        ("three quarters of a turn", [(DEGREES, 270)]),
        ("a sixth of a turn and three eighths of a metre", [(DEGREES, 60), (CM, 37.5)]),
        ("half a turn, then two full turns", [(DEGREES, 180), (DEGREES, 720)]),
        ("a couple of metres", [(CM, 200)]),
        ("3/4 m", [(CM, 75)]),
        ("fly 1 1/2 m forward, 2-3/4 ft up", [(CM, 150), (CM, 83.82)]),
        ("½ m, 1½ m, 2 ¼ m, ¾ of a turn, 1\u20442 m", [(CM, 50), (CM, 150), (CM, 225), (DEGREES, 270), (CM, 50)]),
        ("5 10/2 m, 3 1/0", [(COUNT, 5), (CM, 500), (COUNT, 3)]),
        ("1,500 mm, 2,500 millimetres, 1,500 cm, 1,500 feet", [(CM, 150), (CM, 250), (CM, 1500), (CM, 45720)]),
        ("1,500 m, 1,5 mm, 0,500 cm", [(CM, 150), (CM, 0.15), (CM, 0.5)]),
        ("wait a sec, or half a minute", [(SECONDS, 1), (SECONDS, 30)]),
        ("half a dozen times", [(COUNT, 6)]),
        ("take three pictures", [(COUNT, 3)]),
        ("point five metres, 1 point 5 metres, one point 25 m", [(CM, 50), (CM, 150), (CM, 125)]),
        ("fly oh point five metres up, then down point six of a metre", [(CM, 50), (CM, 60)]),
        ("wait point two five seconds, point twenty five, then land", [(SECONDS, 0.25), (COUNT, 25)]),
        ("point 45 degrees left, from that point two metres on", [(DEGREES, 45), (CM, 200)]),
        ("point two: go to point 3 and take a picture", [(COUNT, 2), (COUNT, 3)]),
        ("make a turn to the right", []),
        ("a chair and a table", []),
        ("300 in your picture", [(COUNT, 300)]),
        ("10 in up", [(CM, 25.4)]),
        ("forward one metre twenty turn right", [(CM, 120)]),
        ("1 m 80 in front, two feet three in", [(CM, 180), (CM, 68.58)]),
        ("one metre twenty more, one metre twenty more times", [(CM, 120), (CM, 100), (COUNT, 20)]),
        ("back a metre and three quarters, four and three quarter metres", [(CM, 175), (CM, 475)]),
        ("a metre and a third of a full turn, two thirds of a full turn", [(CM, 100), (DEGREES, 120), (DEGREES, 240)]),
        ("forward sixty-five and a half turn, one and a half turns", [(COUNT, 65), (DEGREES, 180), (DEGREES, 540)]),
        ("one twelfth of a turn, two ninths of a turn", [(DEGREES, 30), (DEGREES, 80)]),
        ("nought point eight metres", [(CM, 80)]),
        ("left two five degrees, one five seconds", [(DEGREES, 25), (SECONDS, 15)]),
        ("two three seconds, each one five seconds", [(COUNT, 2), (SECONDS, 3), (COUNT, 1), (SECONDS, 5)]),
        ("two five metre poles", [(COUNT, 2), (CM, 500)]),
        ("up too feet, go to metres, for metres left", [(CM, 60.96), (CM, 200), (CM, 400)]),
        ("the brown one's for feet", [(COUNT, 1)]),
        ("", []),
    ],
)
def test_amounts(text, expected):
    found = [(quantity.kind, pytest.approx(quantity.value)) for quantity in quantities(text)]
    assert found == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one metre up, two forward, turn right", [(CM, 100), (CM, 200)]),
        ("left by 2 m, then down, 0.5, and land", [(CM, 200), (CM, 50)]),
        ("three yards ahead, one back, and two to the left", [(CM, 274.32), (CM, 91.44), (CM, 182.88)]),
        ("two metres, no, make it three, then land", [(CM, 200), (CM, 300)]),
        ("wait nine seconds, or rather only five", [(SECONDS, 9), (SECONDS, 5)]),
        ("right 40 degrees, no, 50", [(DEGREES, 40), (DEGREES, 50)]),
        ("go forward 2 m, actually 3", [(CM, 200), (CM, 300)]),
        ("2 m ahead, I mean 3, or 4 m, sorry, 5", [(CM, 200), (CM, 300), (CM, 400), (CM, 500)]),
        ("up 1 m, wait, 2, then left 40 degrees, nope 50", [(CM, 100), (CM, 200), (DEGREES, 40), (DEGREES, 50)]),
        ("wait 9 seconds, or rather 5, correction, just 6", [(SECONDS, 9), (SECONDS, 5), (SECONDS, 6)]),
        ("up 1 m, wait 2, then land", [(CM, 100), (COUNT, 2)]),  # two seconds, maybe
        ("two metres up, then take one picture", [(CM, 200), (COUNT, 1)]),  # a number of things
        ("a metre up and put it in the left one", [(CM, 100), (COUNT, 1)]),
        ("a metre up, and of the boxes the two left", [(CM, 100), (COUNT, 2)]),
        ("a metre up, then twice left, two pictures", [(CM, 100), (COUNT, 2)]),
        ("up one metre, down 80, I mean centimetres", [(CM, 100), (COUNT, 80)]),  # 80 m would be too far
        ("one metre five to the right", [(CM, 100), (COUNT, 5)]),  # 1.05 or 1.5 m
        ("forward two, then one metre back", [(COUNT, 2), (CM, 100)]),  # nothing before it to borrow from
        ("three pictures, no, two", [(COUNT, 3), (COUNT, 2)]),
        ("one metre up, then wait for two, then land", [(CM, 100), (COUNT, 2)]),
        ("3 m up, forward for two", [(CM, 300), (CM, 200)]),
        ("a metre up, turn left 90 and land", [(CM, 100), (COUNT, 90)]),
        ("50 cm up, turn left 45 and land", [(CM, 50), (COUNT, 45)]),
        ("50 cm up, then turn 90 to the left", [(CM, 50), (COUNT, 90)]),
        ("wait 5 seconds, then wait another ten and land", [(SECONDS, 5), (SECONDS, 10)]),
        ("turn 45 degrees, a picture, turn another 30", [(DEGREES, 45), (DEGREES, 30)]),
        ("go 2 m, take one picture, then go another 3", [(CM, 200), (COUNT, 1), (CM, 300)]),
        ("go 2 m, then take another two", [(CM, 200), (COUNT, 2)]),
        ("give it a count of four, then give it another six", [(SECONDS, 4), (SECONDS, 6)]),
        ("wait a minute, then wait another 30", [(SECONDS, 60), (COUNT, 30)]),  # half an hour would be too long
        ("50 cm up, clockwise 90, forward 60", [(CM, 50), (COUNT, 90), (CM, 60)]),
    ],
)
def test_numbers_borrow_the_unit_of_what_was_said_before(text, expected):
    found = [(quantity.kind, pytest.approx(quantity.value)) for quantity in quantities(text)]
    assert found == expected


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("fly two feet, then half a turn", "fly 61 cm, then 180 degrees"),
        ("wait a minute and take three pics of the other one", "wait 60 s and take 3 pics of the other one"),
        ("go 100 m up", "go 10000 cm up"),
        ("wait half a second", "wait 0.5 s"),
        ("turn 90", "turn 90"),
        ("go 1 1/2 m up, then ½ m left", "go 150 cm up, then 50 cm left"),
    ],
)
def test_plain_amounts(text, plain):
    assert with_plain_amounts(text) == plain


@given(st.text() | st.text("0123456789 .,/'\"ahundredtwofmmetr°½¾", max_size=40))
def test_any_text_gives_amounts_that_lie_in_it_one_behind_the_other(text):
    end = 0
    for quantity in quantities(text):
        assert end <= quantity.start < quantity.end <= len(text)
        assert quantity.value >= 0
        end = quantity.end
    with_plain_amounts(text)


@given(st.integers(20, 500))
def test_every_length_reads_the_same_in_every_unit(number):
    for text in (f"{number} cm", f"{number / 100} m", f"{number * 10} mm", f"{number / 2.54:.4f} inches"):
        (quantity,) = quantities(f"go {text} up")
        assert quantity.kind is CM
        assert quantity.value == pytest.approx(number, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("turn one five zero degrees", [150.0]),
        ("two zero degrees right", [20.0]),
        ("hold one zero seconds, then niner zero degrees", [10.0, 90.0]),
        ("two one metre steps", [2.0, 100.0]),
    ],
)
def test_numbers_are_spelled_digit_by_digit_on_the_radio(text, values):
    assert [quantity.value for quantity in quantities(text)] == pytest.approx(values)
