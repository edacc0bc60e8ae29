# SPDX-License-Identifier: Apache-2.0
"""Chats in virtual time: the same stories, answered whole, by paragraphs and by sentences."""

import random
import statistics
from dataclasses import replace

import pytest

from lab.tests.simulation.builders import ROBOTS, SCRIPTS, a_config
from llm_planner.core.errors import ErrorCode
from llm_planner.language.prose import ProseUnit, split_prose
from llm_planner_lab.simulation.simulator import simulate
from llm_planner_lab.simulation.stories import story
from llm_planner_lab.simulation.trace import parse_lines, to_lines
from llm_planner_lab.simulation.workload import compose, workload

SHORT = replace(workload("chat"), duration_s=40.0)


def chats(unit):
    return compose(replace(SHORT, chat_segments=unit), 0, ROBOTS)


def test_stories_have_their_lengths():
    stories = [story(random.Random(seed)) for seed in range(200)]
    lengths = [len(text.split()) for text in stories]
    assert min(lengths) >= 200
    assert max(lengths) <= 340 + 45
    sentences = [len(s.split()) for text in stories for s in split_prose(text, ProseUnit.SENTENCE)]
    assert statistics.median(sentences) == pytest.approx(14, abs=1)
    assert all(2 <= len(split_prose(text, ProseUnit.PARAGRAPH)) <= 40 for text in stories)


def test_the_unit_changes_nothing_but_the_segments():
    sentences, paragraphs = chats("sentence").requests, chats("paragraph").requests
    assert [(r.time_s, r.robot_id, r.plan) for r in sentences] == [(r.time_s, r.robot_id, r.plan) for r in paragraphs]
    for fine, coarse in zip(sentences, paragraphs, strict=True):
        assert len(fine.durations_s) > len(coarse.durations_s)
        assert sum(fine.durations_s) == pytest.approx(sum(coarse.durations_s))
        assert sum(fine.durations_s) == pytest.approx(len(fine.plan.split()) / 5)


def test_a_trace_of_chats_survives_its_file():
    trace = chats("paragraph")
    assert parse_lines(list(to_lines(trace)), ROBOTS).requests == trace.requests


def test_smaller_segments_answer_sooner_and_no_client_waits_in_between():
    whole = simulate(chats("sentence"), a_config("fcfs"), SCRIPTS).requests
    paragraphs = simulate(chats("paragraph"), a_config("tardiness"), SCRIPTS).requests
    sentences = simulate(chats("sentence"), a_config("tardiness"), SCRIPTS).requests
    for run in (whole, paragraphs, sentences):
        assert all(record.error_code is ErrorCode.NONE and record.urgency == "chat" for record in run)

    def mean(run, what):
        return statistics.mean(getattr(record, what) for record in run)

    assert mean(sentences, "utility") > mean(paragraphs, "utility") > mean(whole, "utility")
    assert mean(sentences, "waiting_time_s") < mean(paragraphs, "waiting_time_s") < mean(whole, "waiting_time_s")
