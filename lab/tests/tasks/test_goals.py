# SPDX-License-Identifier: Apache-2.0
"""Goal tests: a wrong plan fails, another way to the goal passes."""

import pytest

from llm_planner.demo.goal_tests import is_achieved
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.tasks.sample import Task
from llm_planner_lab.tasks.scene import PlacedObject

ROBOTS = {name: RobotLibrary().get(name) for name in ("tello", "indy7")}
CAT = PlacedObject("cat", -2.0, 0.5, is_listed=False)


def task(goal, reference="h();", objects=(CAT,), robot="tello"):
    return Task("test", robot, "do it", "", reference, tuple(objects), goal)


def boxes(*names):
    return [PlacedObject(name, 0.3 + 0.1 * i, 0.0) for i, name in enumerate(names)]


def passes(wanted, plan):
    return is_achieved(wanted, plan, ROBOTS[wanted.robot])[0]


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("s(cat);g(cat);", True),
        ("tc(180);g(cat);", True),
        ("?s(cat){g(cat);}", True),
        ("s(cat);", False),
        ("g(cat);", False),  # not in view
        ("s(dog);?iv(dog){g(dog);}", False),
        ("mf(9999);", False),
        ("look for it", False),
    ],
)
def test_reached(plan, expected):
    assert passes(task(("reached", "cat")), plan) == expected


@pytest.mark.parametrize(
    ("plan", "expected"),
    [("fail('dog not found');", True), ("l('no');", False), ("l('Dog not found');", True), ("h();", False)],
)
def test_what_is_not_there_must_be_reported(plan, expected):
    assert passes(task(("reached", "dog")), plan) == expected


@pytest.mark.parametrize(
    ("plan", "expected"),
    [("mr(150);", True), ("mr(20);", False), ("ml(150);", False), ("tp();mr(150);", False), ("mr(200);mu(50);", True)],
)
def test_fled_from_the_left(plan, expected):
    assert passes(task(("fled", "left", "150"), objects=()), plan) == expected


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("mf(100);tc(90);", True),
        ("2{mf(50);}tc(90);", False),  # stopped on the way
        ("tc(90);mf(100);", False),
        ("mf(100);tc(90);tp();", False),
        ("mf(100);tc(90);d(1);", False),
        ("mf(100);tu(270);", True),
    ],
)
def test_same_outcome(plan, expected):
    assert passes(task(("same_outcome",), "mf(100);tc(90);"), plan) == expected


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("pick(b);place(b,a);pick(c);place(c,b);", True),
        ("pick(b);place(b,a);", False),
        ("pick(a);place(a,b);pick(c);place(c,a);", False),
    ],
)
def test_stacked(plan, expected):
    assert passes(task(("stacked", "a", "b", "c"), objects=boxes("a", "b", "c"), robot="indy7"), plan) == expected


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("pick(pear);place(pear,left_area);pick(leek);place(leek,right_area);", True),
        ("push(pear,left_area);push(leek,right_area);", True),
        ("pick(pear);place(pear,left_area);pick(leek);place(leek,left_area);", False),
        ("pick(pear);place(pear,left_area);pick(leek);place(leek,right_area);pick(cup);place(cup,bin);", False),
    ],
)
def test_sorted(plan, expected):
    goal = ("sorted", "pear>left_area", "leek>right_area")
    assert passes(task(goal, objects=boxes("pear", "leek", "cup"), robot="indy7"), plan) == expected


@pytest.mark.parametrize(
    ("goal", "plan", "expected"),
    [
        (("refused",), "fail('I cannot do that');", True),
        (("refused",), "mf(100);fail('I cannot do that');", False),
        (("refused",), "l('I cannot do that');", False),
        (("refused",), "h();", False),
        (("facing", "cat"), "s(cat);o(cat);", True),
        (("facing", "cat"), "mf(20);", False),
        (("reported", "cat"), "->s(cat);", True),
        (("reported", "cat"), "->False;", False),
        (("reported", "cat"), "s(cat);", False),
        (("reported_one", "cat", "dog"), "?s(dog){->dog;}?s(cat){->cat;}->False;", True),
        (("reported_one", "cat", "dog"), "->dog;", False),
        (("reached_picture", "cat"), "s(cat);g(cat);tp();", True),
        (("reached_picture", "cat"), "tp();s(cat);g(cat);", False),
        (("reached_any", "cat", "dog"), "_1=sa('a cat');?_1!=False{g(_1);}", True),
        (("reached_any", "dog"), "fail('nothing found');", True),
        (("reached_any", "dog"), "l('nothing found');", False),
    ],
)
def test_other_goals(goal, plan, expected):
    assert passes(task(goal), plan) == expected


@pytest.mark.parametrize(("plan", "expected"), [("stop();", True), ("home();stop();", False), ("say('x');", False)])
def test_stopped(plan, expected):
    assert passes(task(("stopped",), objects=(), robot="indy7"), plan) == expected


@pytest.mark.parametrize(
    ("reference", "plan", "expected"),
    [
        ("->ow(cat);", "->ow(cat);", True),
        ("->ow(cat);", "->oh(cat);", False),
        ("->ox(cat);", "->oy(cat);", False),
        ("->od(cat);", "->od(cat);", True),
        ("->3;", "->4;", False),
        ("->150;", "->150.8;", True),
        ("->150;", "->153;", False),
    ],
)
def test_the_answer_is_that_to_the_question(reference, plan, expected):
    wanted = task(("same_outcome",), reference, (PlacedObject("cat", 2.0, 0.3, is_listed=True),))
    assert passes(wanted, plan) == expected
