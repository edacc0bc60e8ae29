# SPDX-License-Identifier: Apache-2.0
"""A loop in virtual time, in front of an engine that takes what its profile says, for tests of time budgets."""

import math
from dataclasses import dataclass, field, replace

from llm_planner.core.request import BudgetScope
from llm_planner.prediction.execution_time import ProfiledTimes
from llm_planner.prediction.profile import Chunk, EngineProfile, find_profile
from llm_planner.robots.timing import Parameter, Source
from llm_planner.serving.events import Event, Finished, SegmentReady
from llm_planner.serving.fake import FakeBackend
from tests.serving.builders import StubPreparer, make_loop, make_request

PER_KV_TOKEN_S = 2e-5
PLAN = "a(1);b(2);c(3);d(4);"  # 7 tokens; the first segment is complete with the second
LONG = "x(1);" * 20  # 34 tokens: less than k times as many


def number(value):
    return Parameter(value=value, source=Source.ASSUMED)


def make_profile():
    shipped = find_profile("llama3-8b-rtx4090")
    return replace(
        shipped,
        prefill=replace(shipped.prefill, a_s_per_token2=number(0.0), b_s_per_token=number(1e-4), c_s=number(0.01)),
        decode=replace(
            shipped.decode,
            base_s=number(0.01),
            per_sequence_s=number(0.001),
            per_kv_token_s=number(PER_KV_TOKEN_S),
        ),
    )


@dataclass
class ProfiledFake(FakeBackend):
    """Takes what the profile says, by the caches that it really holds."""

    profile: EngineProfile = field(default_factory=make_profile)
    busy_s: float = 0.0

    def execute(self, scheduled):
        kv_len = {request_id: state.kv_len for request_id, state in self._states.items()}
        kv_len |= {sequence.request_id: sequence.num_cached_tokens for sequence in scheduled.new}
        output = super().execute(scheduled)
        counts = scheduled.num_scheduled_tokens
        duration_s = self.profile.step_s(Chunk(n, kv_len[r] - scheduled.evict.get(r, 0)) for r, n in counts.items())
        self.busy_s += duration_s
        return replace(output, duration_s=duration_s)


class EvictablePreparer(StubPreparer):
    """Everything behind the shared prefix may be evicted; a request named "list" can do without most of its prompt."""

    def prepare(self, request):
        prepared = super().prepare(request)
        end = len(prepared.sequence.prompt_token_ids)
        droppable = (
            tuple((start, start + 10) for start in range(end - 50, 20, -10)) if request.request_id == "list" else ()
        )
        return replace(prepared, sequence=replace(prepared.sequence, evictable=((0, end),), droppable=droppable))


class Run:
    def __init__(self, policy="fcfs_stream", times=True, can_evict=True, num_kv_blocks=4096, **scheduler):
        self.now_s = 0.0
        self.events: list[tuple[float, Event]] = []
        plans = {"go": PLAN, "long": LONG}
        self.backend = ProfiledFake(plans=plans, can_evict=can_evict, num_kv_blocks=num_kv_blocks)
        self.loop = make_loop(backend=self.backend, policy=policy, do_clients_report=False, **scheduler)
        self.preparer = self.loop._preparer = EvictablePreparer(self.backend)
        if times:
            self.loop._scheduler.times.engine = ProfiledTimes(self.backend.profile)

    def submit(self, request_id="r1", instruction="go", **changes):
        arrived = self.loop.submit(make_request(request_id, instruction, **changes), self.now_s)
        self.events += [(self.now_s, event) for event in arrived]
        return self

    def step(self):
        busy_s = self.backend.busy_s
        events = self.loop.step(self.now_s)
        self.now_s += self.backend.busy_s - busy_s
        self.events += [(self.now_s, event) for event in events]

    def go(self, num_steps=10_000, until_s=math.inf):
        num_idle = 0
        for _ in range(num_steps):
            wakeup_s = self.loop.next_wakeup_s(self.now_s)
            if wakeup_s is None or max(self.now_s, wakeup_s) >= until_s:
                break
            before = self.now_s, len(self.events)
            self.now_s = max(self.now_s, wakeup_s)
            self.step()
            num_idle = num_idle + 1 if before == (self.now_s, len(self.events)) else 0
            assert num_idle < 20, "the loop spins"
        return self

    def result(self, request_id="r1"):
        return next(e.result for _, e in self.events if isinstance(e, Finished) and e.request_id == request_id)

    def first_segment_at_s(self, request_id="r1"):
        return next(t for t, e in self.events if isinstance(e, SegmentReady) and e.request_id == request_id)


WHOLE = {"budget_scope": BudgetScope.WHOLE_PLAN}
