"""Names: those that training sees and those that it does not."""

import random

from llm_planner.tasks.names import is_held_out, kind_of, thing
from llm_planner.tasks.words import HELD_OUT_THINGS, THINGS


def test_words_and_held_out_words_are_disjoint():
    assert not set(THINGS) & set(HELD_OUT_THINGS)


def test_training_never_names_a_held_out_thing():
    rng = random.Random(0)
    kinds = {kind_of(thing(rng, held_out=False, invented=0.0).identifier).rpartition("_")[2] for _ in range(3000)}
    assert not kinds & set(HELD_OUT_THINGS)


def test_about_one_combination_in_eight_is_held_out():
    share = sum(is_held_out((f"thing_{n}",)) for n in range(4000)) / 4000
    assert 0.1 < share < 0.15
    assert not is_held_out(())


def test_a_name_is_spoken_as_it_is_written_or_without_its_number():
    rng = random.Random(0)
    for _ in range(500):
        name = thing(rng, held_out=False, in_scene=True)
        assert name.spoken.replace(" ", "_") in {name.identifier, name.kind}
        alone = thing(rng, held_out=False, in_scene=False)
        assert alone.spoken.replace(" ", "_") == alone.identifier
