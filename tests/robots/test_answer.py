# SPDX-License-Identifier: Apache-2.0
"""Answers in words: what a robot measured or saw, as a person would say it."""

import math

import pytest

from llm_planner.core.segment import ReportStatus
from llm_planner.core.skill import SkillCall
from llm_planner.language.parser import parse
from llm_planner.robots.answer import MAX_ANSWER_LENGTH, answer_in_words
from llm_planner.robots.executor import SegmentExecutor
from llm_planner.robots.interpreter import Interpreter
from llm_planner.robots.world import WorldObject
from tests.robots.builders import LIBRARY, arm, drone, room, segment

TELLO = LIBRARY.get("tello")


def said(plan, driver):
    """Returns what a robot says while it carries out a plan."""
    interpreter, texts, now_s = Interpreter(driver.model, driver), [], 0.0
    interpreter.start(parse(plan), now_s)
    while driver.end_s is not None:
        now_s = driver.end_s
        interpreter.tick(now_s)
    texts += interpreter.said
    return texts


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ("->od(chair);", ["the chair is 3.0 m away"]),
        ("_1=od(chair);->_1;", ["the chair is 3.0 m away"]),
        ("?s(cat){g(cat);->od(cat);}->False;", ["the cat is 86 cm away"]),
        ("?s(dog){->od(dog);}->False;", ["no"]),
        ("_1=od(chair);_2=iv(cat);?_2{->_2;}->_1;", ["the chair is 3.0 m away"]),
        ("_1=iv(cat);_1=iv(chair);->_1;", ["yes, I see the chair"]),
        ("->iv(chair);", ["yes, I see the chair"]),
        ("->iv(cat_1);", ["no, I do not see the cat 1"]),
        ("->s(cat);", ["yes, I have found the cat"]),
        ("->s(dog);", ["no, I have not found the dog"]),
        ("->sa('tool for cutting paper');", ["I have found the scissors"]),
        ("->sa('a purple elephant');", ["no, I have found nothing that is a purple elephant"]),
        ("->p('what colour is the chair?');", ["what colour is the chair: blue"]),
        ("->p('how many chairs are there?');", ["how many chairs are there: 1"]),
        ("->p('what is there?');", ["what is there: chair"]),
        ("l('look');->iv(chair);", ["look", "yes, I see the chair"]),
        ("->ox(chair);", ["the chair is at 50% of the way from the left to the right of the picture"]),
        ("->True;", ["yes"]),
        ("->12.5;", ["12.5"]),
        ("->'three of them';", ["three of them"]),
        ("->tp();", []),
        ("mf(100);", []),
        ("_1=od(chair);", []),
        ("od(chair);", []),
    ],
)
def test_a_drone_answers_in_words(plan, words):
    assert said(plan, drone()) == words


def test_an_arm_answers_in_words():
    assert said("->iv(red_box);", arm()) == ["yes, I see the red box"]


@pytest.mark.parametrize(
    ("call", "value", "words"),
    [
        (SkillCall("od", ("door",)), 320.0, "the door is 3.2 m away"),
        (SkillCall("object_distance", ("door",)), 99.4, "the door is 99 cm away"),
        (SkillCall("od", ("door",)), 99.6, "the door is 1.0 m away"),
        (SkillCall("od", ("door",)), math.nan, "nan"),
        (SkillCall("od", ("door",)), "far", "far"),
        (SkillCall("ow", ("door",)), 0.25, "the door takes 25% of the width of the picture"),
        (SkillCall("dance", ("door",)), 3.0, "3"),
        (None, 1234567.0, "1234567"),
        (None, 16777217, "16777217"),
        (None, 0.1 + 0.2, "0.3"),
        (None, -math.inf, "-inf"),
        (SkillCall("p", ("what?",)), "a\nred\tcar", "a red car"),
        (SkillCall("p", ("what?",)), True, "what: yes"),
        (SkillCall("p", ("what?",)), "x " * 1000, "x " * (MAX_ANSWER_LENGTH // 2)),
        (None, False, "no"),
    ],
)
def test_whatever_a_driver_returns_is_worded(call, value, words):
    assert answer_in_words(TELLO, call, value) == words


def test_the_answer_comes_with_the_report_of_its_segment_once():
    reports = []
    executor = SegmentExecutor(TELLO, drone(room(WorldObject(name="door", position_m=(3.2, 0.0, 1.0)))), reports.append)
    executor.begin("goal", 0.0)
    for index, text in enumerate(("?iv(door){->od(door);}", "->False;")):
        executor.add("goal", segment(index, text), 0.0)
    executor.expect("goal", 2, 0.0)
    for tick in range(80):
        executor.tick(tick * 0.05)
    ends = [report for report in reports if report.status is not ReportStatus.STARTED]
    assert [report.said for report in ends] == [("the door is 3.2 m away",), ()]
    assert ends[0].value == pytest.approx(320.0)
