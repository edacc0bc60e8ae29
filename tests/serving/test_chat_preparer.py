# SPDX-License-Identifier: Apache-2.0
"""Chats through the loop: sentences while the person reads, whole answers, and models that cannot."""

import dataclasses

import pytest

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import Urgency
from llm_planner.core.step import SamplingParams
from llm_planner.language.prose import ProseUnit
from llm_planner.planning.prompt import PromptStyle
from llm_planner.robots.library import RobotLibrary
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.chat_preparer import ChatPreparer
from llm_planner.serving.events import Finished, SegmentReady
from llm_planner.serving.fake import FakeBackend
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.plan_preparer import PlanPreparer
from llm_planner.serving.prompt_encoder import PromptEncoder
from tests.serving.builders import make_request

STORY = "One fine day a fox met a drone. They talked for hours.\n\nThen it was night. Both went home."


def make_preparer(backend, style=PromptStyle.INSTRUCT, **options):
    library = RobotLibrary()
    plans = PlanPreparer(backend=backend, tokenizer=backend.tokenizer, library=library, style=style)
    encoder = PromptEncoder(tokenizer=backend.tokenizer, style=style)
    return ChatPreparer(plans=plans, library=library, encoder=encoder, **options)


def test_a_chat_is_written_with_the_adapter_of_the_robot_model():
    class Adapted(RobotLibrary):
        def get(self, name):
            return dataclasses.replace(super().get(name), adapter="/adapters/one")

    backend, request = FakeBackend(), make_request("chat", "tell a story", urgency=Urgency.CHAT)
    assert make_preparer(backend).prepare(request).sequence.adapter is None
    preparer = dataclasses.replace(make_preparer(backend), library=Adapted())
    assert preparer.prepare(request).sequence.adapter == "/adapters/one"


def talk(text=STORY, policy="fcfs_segment", max_tokens=512, **options):
    """Returns the times at which events came, with the events."""
    backend = FakeBackend(plans={"tell a story": text})
    scheduler = Scheduler(SchedulerConfig(policy=policy), make_policy(policy), backend.info)
    preparer = make_preparer(backend, **options)
    loop = PlannerLoop(backend=backend, scheduler=scheduler, preparer=preparer, do_clients_report=False)
    request = make_request("chat", "tell a story", urgency=Urgency.CHAT, max_tokens=max_tokens)
    events = [(0.0, event) for event in loop.submit(request, 0.0)]
    now_s = 0.0
    while (wakeup_s := loop.next_wakeup_s(now_s)) is not None:
        now_s = max(wakeup_s, now_s + 0.01)
        events += [(now_s, event) for event in loop.step(now_s)]
    assert not loop._is_kv_off
    assert isinstance(events[-1][1], Finished)
    return events


def segments_of(events):
    return [(now_s, event.segment.text) for now_s, event in events if isinstance(event, SegmentReady)]


def test_an_answer_that_goes_in_a_circle_ends_with_what_it_repeats():
    result = talk("Once. " + "And so on. " * 100)[-1][1].result
    assert result.error_code is ErrorCode.PLAN_SYNTAX
    assert "'And so on' again and again" in result.error_msg
    assert result.plan.startswith("Once. And so on. ")


def test_each_sentence_comes_before_the_one_in_front_of_it_was_read():
    events = talk()
    segments = segments_of(events)
    assert "".join(text for _, text in segments) == STORY
    assert len(segments) == 4
    result = events[-1][1].result
    assert result.error_code is ErrorCode.NONE
    assert result.metrics.num_suspensions >= 2
    assert result.metrics.waiting_time_s == pytest.approx(result.metrics.response_time_s + 0.008, abs=0.01)
    reads_until_s = segments[0][0] + 8 / 5  # the first sentence has eight words
    assert 1.0 < segments[1][0] <= reads_until_s


def test_a_paragraph_comes_as_one():
    assert [text for _, text in segments_of(talk(unit=ProseUnit.PARAGRAPH))] == [STORY[:56], STORY[56:]]


def test_a_whole_answer_comes_at_its_end():
    times_s = {now_s for now_s, _ in segments_of(talk(policy="fcfs"))}
    assert len(times_s) == 1
    assert times_s.pop() > segments_of(talk())[0][0]


def test_an_answer_ends_at_the_last_token_that_was_allowed():
    result = talk("word " * 1000, max_tokens=50)[-1][1].result
    assert result.error_code is ErrorCode.PLAN_TRUNCATED
    assert result.metrics.num_output_tokens == 50


def test_a_model_that_only_plans_says_so():
    preparer = make_preparer(FakeBackend(), PromptStyle.COMPACT)
    with pytest.raises(PlannerError, match="cannot chat") as refusal:
        preparer.prepare(make_request(urgency=Urgency.CHAT))
    assert refusal.value.code is ErrorCode.INVALID_URGENCY
    assert preparer.prepare(make_request()).sequence.grammar is not None


def test_a_chat_has_no_grammar_and_goes_on_behind_what_was_delivered():
    backend = FakeBackend()
    preparer = make_preparer(backend, sampling=SamplingParams(temperature=0.5))
    first = talk()[0][1].segment
    request = make_request(urgency=Urgency.CHAT, delivered=(first,))
    prepared = preparer.prepare(request)
    assert prepared.sequence.grammar is None
    assert prepared.sequence.prefix_id is None
    assert prepared.sequence.sampling.temperature == 0.5
    assert backend.tokenizer.decode(prepared.sequence.prompt_token_ids).endswith(first.text)
    assert prepared.num_delivered_tokens == len(backend.tokenizer.encode(first.text))
