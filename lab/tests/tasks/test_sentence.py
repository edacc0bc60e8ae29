# SPDX-License-Identifier: Apache-2.0
"""Variants of templates: what is held out never reaches training, and is made of words that do."""

import itertools
import random
import re

import pytest

from llm_planner_lab.tasks.sentence import (
    choose,
    choose_any,
    decorate,
    fill,
    join,
    lines,
    misspell,
    read_templates,
    recase,
    split,
)

POOLS = {
    f"{file}.{name}": pool
    for file in ("arm", "drone", "urgent")
    for name, pool in read_templates(file).items()
    if isinstance(pool, tuple)
}


def pairs(variant):
    return set(itertools.pairwise(["<", *re.findall(r"[a-z{}']+|[^a-z{}'\s]", variant), ">"]))


def words(groups):
    return {word for group in groups for variant in group for word in re.findall(r"[a-z']+", variant)}


@pytest.mark.parametrize("name", POOLS)
def test_held_out_variants_are_new_sentences_of_known_phrases(name):
    trained, held_out = split(POOLS[name])
    assert not {w for group in trained for w in group} & {w for group in held_out for w in group}
    assert words(held_out) <= words(trained)
    known = {pair for group in trained for variant in group for pair in pairs(variant)}
    assert all(len(pairs(variant) - known) <= 1 for group in held_out for variant in group)


def test_most_families_hold_something_out():
    with_held_out = [name for name, pool in POOLS.items() if split(pool)[1]]
    assert len(with_held_out) > 0.6 * len(POOLS)


@pytest.mark.parametrize("name", POOLS)
def test_training_never_draws_a_held_out_variant(name):
    held_out = {variant for group in split(POOLS[name])[1] for variant in group}
    rng = random.Random(1)
    assert not held_out & {choose(rng, POOLS[name], held_out=False) for _ in range(500)}
    if held_out:
        assert {choose(rng, POOLS[name], held_out=True) for _ in range(100)} <= held_out


def test_alternatives_and_slots():
    pool = lines("(fly|go) to {x}")
    rng = random.Random(0)
    texts = {fill(choose(rng, pool, held_out=held), x="the cat") for held in (False, True) for _ in range(50)}
    assert texts <= {"fly to the cat", "go to the cat"}


def test_misspelling_leaves_names_alone():
    rng = random.Random(0)
    for _ in range(200):
        text = misspell(rng, "look for the scissors", frozenset({"scissors"}))
        assert text.endswith("scissors")
        assert text != "look for the scissors" or text.split()[0] == "look"


def test_noise_keeps_the_clauses():
    rng = random.Random(0)
    for held_out in (False, True):
        assert "fly up" in decorate(rng, "fly up", held_out=held_out)
        joined = join(rng, ["fly up", "turn left"], held_out=held_out)
        assert joined.startswith("fly up")
        assert joined.endswith("turn left")
    assert {recase(rng, "ab").lower() for _ in range(50)} == {"ab"}


@pytest.mark.parametrize("templates", [POOLS["drone.stop"], POOLS["urgent.hand"]])
def test_no_way_to_say_stop_is_held_out(templates):
    rng = random.Random(0)
    every = {variant for groups in split(templates) for group in groups for variant in group}
    assert {choose_any(rng, templates) for _ in range(3000)} == every
