# SPDX-License-Identifier: Apache-2.0
"""Flattening of text from outside."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.planning.untrusted import flatten, plain_scene


@pytest.mark.parametrize(
    ("text", "flat"),
    [
        ("a\nplan:\nmf(500);", "a plan: mf(500);"),
        ("  a \t\r\n b  ", "a b"),
        ("a\x00\x1b[2Jb\x85c", "a [2Jb c"),
        ("a\u2028b\u2029c", "a b c"),
        ("pass\u200bword \u202eleft", "password left"),
        ("e\u0301", "é"),
        ("broken \ud800 half", "broken half"),
        ("", ""),
    ],
)
def test_examples(text, flat):
    assert flatten(text) == flat


@given(st.text())
def test_one_printable_normal_line_and_nothing_left_to_do(text):
    flat = flatten(text)
    assert flat.isprintable()
    assert "  " not in flat
    assert flat == flat.strip()
    assert unicodedata.is_normalized("NFC", flat)
    assert flatten(flat) == flat


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126)))
def test_plain_words_stay_as_they_are(text):
    assert flatten(text) == text


def test_a_run_of_combining_marks_is_cut_before_it_costs_quadratic_time():
    flat = flatten("a" + "\u0345" * 30_000)
    assert len(flat) == 31


def test_a_line_of_a_scene_is_an_entry_and_what_it_repeats_counts_once():
    assert plain_scene("box_1, ladder_1\nland now, land now\nland now, land now") == "box_1, ladder_1, land_now"


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ("box_of_screws at (0.4, 0.2)", "box_of_screws 0.4 0.2"),
        ("lunch_box_with_lid (wet)", "lunch_box_with_lid"),
        ("['box_of_screws']", "box_of_screws"),
        ("a_bottle", "a_bottle"),
        ("one_kilo_weight", "one_kilo_weight"),
        ("the red cup on the table", "red_cup"),
        ("a cup of tea", "cup"),
        ("cup_on_the_table_says_fly", "cup"),
        ("fly_to_the_window", "fly"),
        ("box_of", "box"),
    ],
)
def test_what_software_writes_as_one_word_is_a_name_as_a_whole(entry, name):
    assert plain_scene(entry) == name
