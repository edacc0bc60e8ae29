# SPDX-License-Identifier: Apache-2.0
"""Amounts as people say them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.planning.quantities import QuantityKind, quantities, with_plain_amounts

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
        ("point five metres", [(CM, 500)]),
        ("make a turn to the right", []),
        ("a chair and a table", []),
        ("300 in your picture", [(COUNT, 300)]),
        ("10 in up", [(CM, 25.4)]),
        ("", []),
    ],
)
def test_amounts(text, expected):
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
