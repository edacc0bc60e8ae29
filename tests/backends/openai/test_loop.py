# SPDX-License-Identifier: Apache-2.0
"""The planner's loop with a model server, in real time: robots that report, urgent requests, a chat."""

import heapq
import time
from dataclasses import replace

import pytest

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.errors import ErrorCode
from llm_planner.core.pose import Pose
from llm_planner.core.request import Urgency
from llm_planner.core.segment import ReportStatus, Situation
from llm_planner.language.prose import ProseUnit
from llm_planner.planning.prompt import PromptStyle
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.chat_preparer import ChatPreparer
from llm_planner.serving.events import Finished, SegmentReady
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.plan_preparer import PlanPreparer
from llm_planner.serving.prompt_encoder import PromptEncoder
from tests.backends.openai.builders import LIBRARY, PLANS, TASKS, TIMEOUT_S, make_backend
from tests.serving.builders import make_request, started, succeeded

AT_HOME = Pose(z_m=1.0)


class Play:
    """A loop on the wall clock, with robots that take a while for each segment."""

    def __init__(self, server, *, policy="tardiness", execution_s=0.1, retry_s=20.0, **scheduler) -> None:
        self.backend = make_backend(server, retry_s=retry_s)
        self.library = LIBRARY
        config = SchedulerConfig(policy=policy, **scheduler)
        preparer = PlanPreparer(backend=self.backend, tokenizer=self.backend.tokenizer, library=LIBRARY)
        scheduler = Scheduler(config, make_policy(policy), self.backend.info)
        self.loop = PlannerLoop(backend=self.backend, scheduler=scheduler, preparer=preparer, max_replans=1)
        self.fails_at: int | None = None
        self.execution_s = execution_s
        self.results = {}
        self.segments = []
        self.reports = []

    def submit(self, name: str, task: str, **changes) -> None:
        robot, instruction, scene = TASKS[task]
        request = make_request(name, instruction, robot_model=robot, scene=scene, **changes)
        self.take(self.loop.submit(request, time.monotonic()))

    def take(self, events) -> None:
        for event in events:
            if isinstance(event, Finished):
                self.results[event.request_id] = event.result
            elif isinstance(event, SegmentReady):
                if event.segment.is_replan:
                    continue
                self.segments.append(event.request_id)
                index, due_s = event.segment.index, time.monotonic() + self.execution_s
                heapq.heappush(self.reports, (due_s, event.request_id, index))
                self.take(self.loop.report(started(event.request_id, index), time.monotonic()))

    def turn(self) -> None:
        self.take(self.loop.step(time.monotonic()))
        while self.reports and self.reports[0][0] <= time.monotonic():
            _, request_id, index = heapq.heappop(self.reports)
            report = succeeded(request_id, index, self.execution_s)
            if index == self.fails_at:
                self.reports.clear()  # it runs nothing of what it has been sent
                report = replace(report, status=ReportStatus.FAILED, reason="lost", situation=Situation(pose=AT_HOME))
            self.take(self.loop.report(report, time.monotonic()))

    def go(self, until=None) -> None:
        end_s = time.monotonic() + TIMEOUT_S
        while not (until or (lambda: not list(self.loop.request_ids)))():
            assert time.monotonic() < end_s, self.results
            self.turn()


@pytest.fixture
def play(server):
    plays = []

    def make(**options) -> Play:
        plays.append(Play(server, **options))
        return plays[-1]

    yield make
    for one in plays:
        one.loop.close()


def plans(one: Play) -> dict[str, str]:
    assert {r.error_code for r in one.results.values()} == {ErrorCode.NONE}, one.results
    return {name: result.plan for name, result in one.results.items()}


@pytest.mark.parametrize("policy", ["fcfs", "fcfs_stream", "tardiness"])
def test_every_policy_gets_the_same_plans(play, policy):
    one = play(policy=policy, max_num_seqs=2)
    for name in TASKS:
        one.submit(name, name)
    one.go()
    assert plans(one) == PLANS


def test_suspended_while_the_robot_is_at_work(play, server):
    server.order(token_s=0.05)
    one = play(execution_s=0.5)
    one.submit("a", "stack")
    one.go()
    assert one.results["a"].metrics.num_suspensions >= 1
    assert plans(one) == {"a": PLANS["stack"]}


def test_a_plan_that_fails_goes_on_with_a_server_that_gets_the_whole_prompt_again(play):
    one = play(policy="fcfs_stream")
    one.fails_at = 0
    one.submit("a", "square")
    one.go()
    result = one.results["a"]
    assert result.error_code is ErrorCode.NONE
    assert result.error_msg.startswith("replanned 1 time")
    texts = [segment.text for segment in result.segments]
    assert texts[texts.index("") + 1 :] == texts[: texts.index("")] == [PLANS["square"]]


def test_an_urgent_request_passes_those_that_wait_and_those_that_run(play, server):
    server.order(token_s=0.03)
    one = play(max_num_seqs=2, execution_s=30.0)
    for name in "abcd":
        one.submit(name, "square")
    one.go(until=lambda: one.loop.status.num_running == 2)
    one.submit("urgent", "turn", urgency=Urgency.URGENT, time_utility=Urgency.URGENT.time_utility)
    one.go(until=lambda: set("abcd") <= set(one.segments))
    assert one.segments.index("urgent") < min(one.segments.index(name) for name in "cd")


def test_a_broken_connection_harms_no_goal(play, server):
    server.order(times=3, drop_after=5)
    one = play()
    for name in TASKS:
        one.submit(name, name)
    one.go()
    assert plans(one) == PLANS


def test_a_server_that_does_not_answer_ends_each_goal_with_its_code(play, server):
    server.order(times=1000, status=500)
    one = play(retry_s=0.3)
    one.submit("a", "square")
    one.go()
    assert one.results["a"].error_code is ErrorCode.ENGINE_FAILED
    assert "answers 500" in one.results["a"].error_msg
    server.order(times=0)
    one.submit("b", "square")
    one.go()
    assert one.results["b"].error_code is ErrorCode.NONE


def test_a_server_that_dies_ends_a_goal_so_that_another_engine_may_go_on_with_it(own_server):
    server = own_server()
    server.order(token_s=0.05)
    one = Play(server, retry_s=0.3)
    one.submit("a", "turn")
    one.turn()
    server.process.kill()
    server.process.wait()
    one.go()
    assert one.results["a"].error_code is ErrorCode.SERVER_UNREACHABLE
    one.loop.close()


def test_a_cancelled_goal_frees_the_server(play, server):
    server.order(token_s=0.05)
    one = play()
    one.submit("a", "square")
    one.go(until=lambda: server.stats["active"] == 1)
    one.take(one.loop.cancel("a"))
    one.turn()
    server.wait_idle()
    assert one.results["a"].error_code is ErrorCode.CANCELLED


def test_a_chat_needs_no_more_than_a_chat_model(play, server):
    """The model writes no sense as it was trained on plans; what counts is that words come without a grammar."""
    one = play()
    encoder = PromptEncoder(tokenizer=one.backend.tokenizer, style=PromptStyle.INSTRUCT)
    plans_only = one.loop._preparer
    one.loop._preparer = ChatPreparer(plans=plans_only, library=LIBRARY, encoder=encoder, unit=ProseUnit.SENTENCE)
    one.submit("a", "square", urgency=Urgency.CHAT, time_utility=Urgency.CHAT.time_utility, max_tokens=30)
    one.go()
    assert one.results["a"].error_code in {ErrorCode.NONE, ErrorCode.PLAN_TRUNCATED}
    assert "structured_outputs" not in server.stats["requests"][0]


def outcome(play, server, answer, instruction, **changes):
    """Returns how a goal ends for which the server writes an answer, without regard to any grammar."""
    server.order(answers={instruction: answer})
    one = play()
    request = make_request("a", instruction, robot_model="tello", scene="cat, dog", **changes)
    one.take(one.loop.submit(request, time.monotonic()))
    one.go()
    return one.results["a"]


def test_what_is_unclear_to_the_model_is_not_understood(play, server):
    result = outcome(play, server, "unclear('where');", "go over there")
    assert result.error_code is ErrorCode.NOT_UNDERSTOOD
    assert "where" in result.error_msg
    assert result.plan == ""


@pytest.mark.parametrize("answer", ["g(cat);", "?s(cat){g(cat);}", "_1=sa('a way out');g(_1);", "mf(100)->g(cat);"])
def test_a_warning_gets_the_skills_of_an_emergency_only_whatever_the_server_writes(play, server, answer):
    result = outcome(play, server, answer, "a dog from behind", urgency=Urgency.URGENT)
    assert result.error_code is ErrorCode.SKILL_NOT_ALLOWED
    assert "(cat)" not in result.plan
