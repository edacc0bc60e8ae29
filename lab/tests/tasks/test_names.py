# SPDX-License-Identifier: Apache-2.0
"""Names: those that training sees and those that it does not."""

import random
import re

from llm_planner.demo.task import kind_of
from llm_planner_lab.tasks import words
from llm_planner_lab.tasks.names import is_held_out, thing
from llm_planner_lab.tasks.words import HELD_OUT_THINGS


def test_no_other_list_of_words_has_a_held_out_one():
    others = {name: str(value) for name, value in vars(words).items() if name.isupper() and name != "HELD_OUT_THINGS"}
    assert len(others) > 10
    found = {name: set(re.findall(r"[a-z]+", text)) & set(HELD_OUT_THINGS) for name, text in others.items()}
    assert not any(found.values()), found


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
