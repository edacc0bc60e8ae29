# SPDX-License-Identifier: Apache-2.0
"""A vLLM that dies under the node: it is restarted, and every goal goes on behind its segments."""

import os
import signal
import threading
from functools import partial

import pytest

pytest.importorskip("vllm")

from llm_planner.assembly import build_admission, build_loop
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.config import EngineConfig, PlannerConfig
from llm_planner.core.errors import ErrorCode
from llm_planner.language.parser import parse
from llm_planner.serving.child import ChildServer
from llm_planner.serving.child_link import Timeouts
from llm_planner.serving.events import Finished, SegmentReady
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.replica import Factories
from tests.serving.builders import make_request, succeeded

CONFIG = PlannerConfig(backend="vllm", engine=EngineConfig(num_kv_blocks=512, num_threads=1))
INSTRUCTIONS = {
    "square": "fly forward two meters, turn right, fly forward two meters, turn right, fly forward two meters",
    "up": "take off, then fly up one meter, then turn left, then fly back one meter",
    "line": "fly forward one meter, then turn right, then fly forward one meter",
}
START_S, PLAN_S = 300.0, 120.0


class Owner:
    """Submits goals, and reports every segment as carried out at once."""

    def __init__(self):
        self.changed = threading.Condition()
        self.segments = {name: [] for name in INSTRUCTIONS}
        self.results = {}
        self.server = ChildServer(
            [Factories(partial(build_loop, CONFIG))],
            book=GoalBook(build_admission(CONFIG), self.receive),
            clock=MonotonicClock(),
            timeouts=Timeouts(start_timeout_s=START_S),
        )

    def receive(self, event):
        with self.changed:
            if isinstance(event, SegmentReady):
                self.segments[event.request_id].append(event.segment)
            elif isinstance(event, Finished):
                assert event.result.request_id not in self.results, "a goal ended twice"
                self.results[event.result.request_id] = event.result
            self.changed.notify_all()
        if isinstance(event, SegmentReady):
            self.server.report(succeeded(event.request_id, event.segment.index, 0.0))

    def wait_for(self, condition, timeout_s):
        with self.changed:
            assert self.changed.wait_for(condition, timeout=timeout_s), (self.segments, self.results)


@pytest.fixture
def owner():
    owner = Owner()
    owner.server.start()
    yield owner
    owner.server.close()


def test_a_killed_vllm_is_replaced_and_no_goal_is_lost(owner):
    assert owner.server.wait_ready(START_S)
    (first,) = owner.server.child_pids
    for name, instruction in INSTRUCTIONS.items():
        owner.server.submit(make_request(name, instruction))
    owner.wait_for(lambda: any(owner.segments.values()), PLAN_S)
    os.kill(first, signal.SIGKILL)
    assert len(owner.results) < len(INSTRUCTIONS)
    owner.wait_for(lambda: len(owner.results) == len(INSTRUCTIONS), START_S)
    assert owner.server.status.num_restarts == 1
    assert owner.server.child_pids != [first]
    for name, result in owner.results.items():
        assert result.error_code is ErrorCode.NONE, result
        assert [segment.index for segment in owner.segments[name]] == list(range(len(owner.segments[name])))
        assert "".join(segment.text for segment in owner.segments[name]) == result.plan
        assert len(parse(result.plan)) == len(owner.segments[name])
