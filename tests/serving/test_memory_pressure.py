# SPDX-License-Identifier: Apache-2.0
"""Little KV memory, and prefixes that are pinned during goals: each goal ends with a plan or an error code."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import OverrunStrategy, PlanRequest, Urgency
from llm_planner.core.step import Sequence
from llm_planner.planning.prompt import PromptStyle
from llm_planner.robots.library import RobotLibrary
from llm_planner.scheduling.policies import make_policy, policy_names
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.events import Finished, SegmentReady
from llm_planner.serving.fake import FakeBackend, FakeTiming
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.plan_preparer import PlanPreparer
from llm_planner.serving.preparation import Prepared
from tests.serving.budget_run import Run as BudgetRun
from tests.serving.builders import make_request, make_session

BLOCK_SIZE = 4
STATEMENTS = ("a();", "scan();", "fast();")


@dataclass
class PrefixPreparer:
    """What stands before the colon of an instruction is its prefix, loaded when it is first asked for."""

    backend: FakeBackend

    def prepare(self, request: PlanRequest) -> Prepared:
        name, _, rest = request.instruction.partition(":")
        tokenizer = self.backend.tokenizer
        static_ids = tokenizer.encode(name)
        sequence = Sequence(
            request_id=request.request_id,
            prompt_token_ids=(*static_ids, *tokenizer.encode(rest + "\n")),
            prefix_id=name,
            num_cached_tokens=self.backend.load_prefix(name, static_ids),
        )
        return Prepared(sequence, make_session((), tokenizer))


def run(goals, *, policy="fcfs_segment", num_kv_blocks=16, can_offload=True, num_host_blocks=1 << 20, **limits):
    """Serves ``(arrival_s, instruction, plan)`` until nothing is left to do; returns the error codes by request."""
    backend = FakeBackend(
        plans={instruction.partition(":")[2]: plan for _, instruction, plan in goals},
        num_kv_blocks=num_kv_blocks,
        block_size=BLOCK_SIZE,
        can_offload=can_offload,
        num_host_blocks=num_host_blocks,
    )
    scheduler = Scheduler(SchedulerConfig(policy=policy, **limits), make_policy(policy), backend.info)
    loop = PlannerLoop(backend=backend, scheduler=scheduler, preparer=PrefixPreparer(backend), do_clients_report=False)
    coming = [(at_s, make_request(f"r{i}", text)) for i, (at_s, text, _) in enumerate(goals)]
    coming.sort(key=lambda item: item[0])
    codes, now_s = {}, 0.0
    for _ in range(10_000):
        wakeup_s = loop.next_wakeup_s(now_s)
        if coming and (wakeup_s is None or coming[0][0] <= max(wakeup_s, now_s)):
            now_s = max(now_s, coming[0][0])
            events = loop.submit(coming.pop(0)[1], now_s)
        elif wakeup_s is None:
            return codes
        else:
            now_s = max(wakeup_s, now_s + 0.005)
            events = loop.step(now_s)
        codes |= {event.request_id: event.result.error_code for event in events if isinstance(event, Finished)}
    raise AssertionError(f"still waiting: {scheduler.num_running} run, {scheduler.num_ready} ready")


@pytest.mark.parametrize("policy", policy_names())
def test_a_suspended_goal_that_a_late_prefix_left_no_room_ends(policy):
    """Its block is full and the only one that is left: no goal can make room for it, and its own block counts too."""
    early = (0.0, "s:going", "scan();scan();scan();")
    late = (0.03, f"{'p' * 144}:{'x' * 60}", "a();")
    codes = run([early, late], policy=policy, num_kv_blocks=13)
    expected = ErrorCode.OUT_OF_MEMORY if make_policy(policy).suspends else ErrorCode.NONE
    assert codes == {"r0": expected, "r1": ErrorCode.PROMPT_TOO_LONG}


@st.composite
def goal_lists(draw):
    goals = []
    for number in range(draw(st.integers(1, 7))):
        prefix = draw(st.sampled_from("abcd")) * draw(st.sampled_from((3, 30, 60, 90)))
        instruction = f"{prefix}:do{number}{'x' * draw(st.integers(0, 40))}"
        plan = "".join(draw(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=6)))
        goals.append((draw(st.floats(0, 2)), instruction, plan))
    return goals


@settings(max_examples=150)
@given(
    goals=goal_lists(),
    policy=st.sampled_from(policy_names()),
    num_kv_blocks=st.integers(6, 24),
    can_offload=st.booleans(),
    num_host_blocks=st.integers(0, 24),
    max_num_seqs=st.integers(1, 4),
    max_num_batched_tokens=st.integers(1, 32),
)
def test_no_request_waits_for_ever(
    goals, policy, num_kv_blocks, can_offload, num_host_blocks, max_num_seqs, max_num_batched_tokens
):
    codes = run(
        goals,
        policy=policy,
        num_kv_blocks=num_kv_blocks,
        can_offload=can_offload,
        num_host_blocks=num_host_blocks,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
    )
    assert set(codes) == {f"r{number}" for number in range(len(goals))}
    refused_or_cut = {ErrorCode.OUT_OF_MEMORY, ErrorCode.PROMPT_TOO_LONG, ErrorCode.PLAN_TRUNCATED}
    assert set(codes.values()) <= {ErrorCode.NONE, *refused_or_cut}


def beside_a_long_one(policy, *, can_offload=True, **urgent):
    """Returns a run in which a plan of 3 s holds nearly all of the memory, and how long an urgent goal waited then."""
    run = BudgetRun(policy=policy, max_num_seqs=4, can_evict=False, num_kv_blocks=70, network_latency_s=0.0)
    run.loop._scheduler._num_host_blocks = 70 if can_offload else 0
    run.backend.plans["huge"] = "fast();" * 100
    run.submit("other", "huge" + " see" * 600, max_tokens=1500, plan_only=True).go(until_s=0.5)
    arrival_s = run.now_s
    run.submit("urgent", "go" + " see" * 200, urgency=Urgency.URGENT, **urgent).go()
    return run, run.first_segment_at_s("urgent") - arrival_s


@pytest.mark.parametrize("can_offload", [True, False])
@pytest.mark.parametrize("policy", ["tardiness", "pud"])
def test_a_running_plan_gives_its_memory_to_a_more_pressing_one(policy, can_offload):
    run, waited_s = beside_a_long_one(policy, can_offload=can_offload)
    assert waited_s < 0.1
    assert run.result("other").error_code is ErrorCode.NONE


@pytest.mark.parametrize("policy", ["fcfs_stream", "edf_segment", "tardiness_safe"])
def test_a_running_plan_gives_its_memory_to_one_with_a_reserved_slot(policy):
    run, waited_s = beside_a_long_one(policy, time_budget_s=0.5, overrun=OverrunStrategy.KILL)
    assert waited_s < 0.5
    assert run.result("other").error_code is ErrorCode.NONE


def test_an_emergency_gets_a_slot_though_plans_that_are_complete_fill_the_memory():
    """Their KV is free as soon as anybody needs it, so nothing has to be moved."""
    plans = {"short": "mr(100);", "long": "mr(100);ml(100);" * 6, "help": "mr(100);"}
    timing = FakeTiming(step_s=0.02, prompt_token_s=0.0002, decode_s=0.001)
    backend = FakeBackend(plans=plans, num_kv_blocks=1215, can_insert=True, timing=timing)
    scheduler = Scheduler(SchedulerConfig(max_num_seqs=4), make_policy("tardiness"), backend.info)
    preparer = PlanPreparer(
        backend=backend, tokenizer=backend.tokenizer, library=RobotLibrary(), style=PromptStyle.COMPACT
    )
    loop = PlannerLoop(backend=backend, scheduler=scheduler, preparer=preparer, max_replans=2, waits_for_plan_s=0.25)
    now_s = 0.0

    def step():
        nonlocal now_s
        before_s = loop._meter.totals.busy_s
        events = loop.step(now_s)
        now_s += loop._meter.totals.busy_s - before_s
        return {event.request_id for event in events if isinstance(event, SegmentReady)}

    for number in range(200):
        loop.submit(make_request(f"done{number}", "short " + "x" * 200), now_s)
    while scheduler.num_running or scheduler.num_ready:
        step()
    assert scheduler.ledger.available_blocks < 20
    for number in range(10):
        loop.submit(make_request(f"w{number}", "long " + "x" * 200), now_s)
    for _ in range(6):
        step()
    asked_s = now_s
    loop.submit(make_request("u", "help " + "x" * 200, urgency=Urgency.URGENT), now_s)
    while "u" not in step():
        assert now_s - asked_s < 0.2
