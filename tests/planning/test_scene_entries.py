# SPDX-License-Identifier: Apache-2.0
"""Which entries of a scene a task can spare."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.planning.scene_entries import droppable_entries


def texts(scene, instruction):
    return [scene[start:end] for start, end in droppable_entries(scene, instruction)]


def test_what_the_task_does_not_speak_of_goes_first_the_last_one_before_the_others():
    assert texts("objects: cup, red_hat 2, box, dog", "bring me the red hat") == ["dog", "box, ", "cup, "]


@pytest.mark.parametrize("said", ["bring the hamer", "bring the hammers", "bring the HAMMER", "bring hammer 2"])
def test_typing_errors_plurals_and_capitals_are_forgiven(said):
    assert texts("a spoon, hammer_2, a cup", said) == ["a cup", "a spoon, "]


@pytest.mark.parametrize(
    ("said", "spare"),
    [
        ("stack the plates", ["cup", "white_gourd, ", "box_1, "]),
        ("stack the white and blue plates", ["cup", "box_1, "]),
        ("put the box on the white one", ["cup", "blue_plate, "]),
        ("take 1 thing to the left", ["cup", "white_gourd, ", "blue_plate, "]),  # a number, "the": no names
    ],
)
def test_what_the_task_names_is_never_left_out(said, spare):
    assert sorted(texts("box_1, blue_plate, white_gourd, cup", said)) == sorted(spare)


@pytest.mark.parametrize("said", ["put the plate on the étagère", "the plate goes onto the ETAGERE"])
def test_short_names_and_accents_count(said):
    assert texts("etagere_1, tv_2, plate, box", said) == ["box", "tv_2, "]
    assert texts("etagere_1, tv_2, plate, box", f"{said} of tv 2") == ["box"]


def test_a_comma_in_brackets_ends_no_entry():
    assert texts("cup at (1.2, 0.5); hat at (2, 3)\nperson at (0, 1)", "find the person") == [
        "hat at (2, 3)\n",
        "cup at (1.2, 0.5); ",
    ]


@pytest.mark.parametrize("scene", ["", "a red cup stands on the table", "objects:", ",;,"])
def test_a_scene_without_a_list_has_nothing_to_spare(scene):
    assert droppable_entries(scene, "bring the cup") == []


@given(st.text(alphabet="ab_1(),;:\n é", max_size=60), st.text(max_size=20))
def test_entries_lie_apart_inside_the_scene_and_one_is_left(scene, instruction):
    spans = sorted(droppable_entries(scene, instruction))
    assert all(start < end for start, end in spans)
    assert all(one[1] <= two[0] for one, two in itertools.pairwise(spans))
    if spans:
        assert sum(end - start for start, end in spans) < len(scene)
