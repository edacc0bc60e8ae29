# SPDX-License-Identifier: Apache-2.0
import pytest

from llm_planner.robots.world import World, WorldObject


def thing(name="cup", **attributes):
    return WorldObject(name=name, position_m=(0.0, 0.0, 0.0), **attributes)


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("a tool for cutting paper", True),
        ("Tools for cutting some paper!", True),
        ("scissors", True),
        ("paper", False),
        ("", False),
    ],
)
def test_descriptions_match_by_whole_phrases(description, expected):
    assert thing("scissors_12", tags=("tool for cutting paper",)).matches(description) is expected


def test_a_name_wins_over_a_kind():
    world = World([thing("cat", kind="animal"), thing("cat_1", kind="cat"), thing("cat_2", kind="Cat")])
    assert [o.name for o in world.find("CAT")] == ["cat"]
    del world.objects["cat"]
    assert [o.name for o in world.find("cat")] == ["cat_1", "cat_2"]
    assert world.find("dog") == ()
    assert world.find("") == ()


def test_a_name_without_letters_is_no_other_one():
    world = World([WorldObject(name="\U0001f34e", position_m=(0.4, 0.0, 0.0))])
    assert world.find("\U0001f34e")
    assert not world.find("\U0001f52a")
    assert not world.find("?!")


def test_being_on_something_is_transitive_and_ends():
    supports = {"a": "b", "b": "c", "c": None, "x": "y", "y": "x"}
    world = World(thing(name, support=support) for name, support in supports.items())
    assert world.is_on("a", "c")
    assert not world.is_on("c", "a")
    assert not world.is_on("x", "c")


def test_answers_need_all_their_words():
    world = World(answers={"colour chair": "blue"})
    assert world.answer("what colour are the chairs?") == "blue"
    assert world.answer("what colour is the table?") is None
