# SPDX-License-Identifier: Apache-2.0
"""The whole planner over vLLM: plans, suspensions, faults that harm one request alone, time budgets."""

from dataclasses import replace

import pytest

pytest.importorskip("vllm")

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import BudgetScope, OverrunStrategy, Urgency
from llm_planner.core.step import SchedulerOutput
from llm_planner.engine.backend import TorchBackend
from llm_planner.robots.library import RobotLibrary
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.loop import PlannerLoop
from tests.backends.vllm.fake_core import with_steps_in_flight
from tests.engine.builders import sequence, start
from tests.serving.builders import make_request
from tests.serving.loop_run import Run
from tests.serving.test_loop_with_engine import INSTRUCTIONS, ShortPlans


class Timed:
    """A backend whose steps all take the same time, so that schedules do not depend on the machine."""

    def __init__(self, backend):
        self._backend = backend
        self.handed_over = []

    def __getattr__(self, name):
        return getattr(self._backend, name)

    def execute(self, scheduled):
        self.handed_over.append(scheduled)
        return replace(self._backend.execute(scheduled), duration_s=0.01)


def make_run(backend, policy="fcfs_segment", preparer=ShortPlans, **config):
    scheduler = Scheduler(SchedulerConfig(policy=policy, **config), make_policy(policy), backend.info)
    prepare = preparer(backend=backend, tokenizer=backend.tokenizer, library=RobotLibrary())
    return Run(PlannerLoop(backend=Timed(backend), scheduler=scheduler, preparer=prepare))


def plans(run, instructions=INSTRUCTIONS):
    """Returns code and text per instruction, all asked at once."""
    for instruction in instructions:
        run.take(run.loop.submit(make_request(instruction, instruction, max_tokens=48), run.now_s))
    run.go()
    run.loop.step(run.now_s)  # releases the last one
    results = {i: run.result(i) for i in instructions}
    return {i: (r.error_code, r.plan, r.error_msg) for i, r in results.items()}


@pytest.fixture(scope="module")
def expected(model_dir):
    """The plans of our own engine."""
    torch_backend = TorchBackend(model_dir, num_kv_blocks=512, dtype="float32")
    return plans(make_run(torch_backend, "fcfs_stream"))


@pytest.mark.parametrize("policy", ["fcfs_stream", "fcfs_segment", "tardiness"])
def test_the_same_plans_as_our_own_engine(backend, expected, policy):
    run = make_run(backend, policy)
    assert plans(run) == expected
    num_suspensions = sum(run.result(i).metrics.num_suspensions for i in INSTRUCTIONS)
    assert (num_suspensions > 0) == (policy != "fcfs_stream")
    assert not run.loop._is_kv_off


@pytest.mark.parametrize("depth", [2, 3])
def test_steps_in_flight_end_every_goal(backend, depth):
    fake = with_steps_in_flight(backend, depth)

    class Free(ShortPlans):
        """The model without a model keeps to no grammar; what it says is no plan, and must end as such."""

        def prepare(self, request):
            prepared = super().prepare(request)
            return replace(prepared, sequence=replace(prepared.sequence, grammar=None))

    codes = {code for code, _, _ in plans(make_run(fake, "tardiness", Free)).values()}
    assert codes <= {ErrorCode.PLAN_SYNTAX, ErrorCode.UNKNOWN_SKILL, ErrorCode.PLAN_TRUNCATED}
    assert not fake._scheduler.requests


def test_a_malformed_grammar_harms_no_other_request(backend, expected):
    class OneBroken(ShortPlans):
        def prepare(self, request):
            prepared = super().prepare(request)
            if request.instruction != INSTRUCTIONS[0]:
                return prepared
            return replace(prepared, sequence=replace(prepared.sequence, grammar='start: "a" ( unclosed'))

    got = plans(make_run(backend, preparer=OneBroken))
    code, _, message = got.pop(INSTRUCTIONS[0])
    assert code is ErrorCode.ENGINE_FAILED
    assert "grammar" in message.lower() or "refuses" in message
    assert got == {i: expected[i] for i in INSTRUCTIONS[1:]}


def test_an_aborted_request_harms_no_other_request(backend, expected):
    run = make_run(backend)
    for instruction in INSTRUCTIONS:
        run.take(run.loop.submit(make_request(instruction, instruction, max_tokens=48), run.now_s))
    run.go(until_s=0.1)
    run.take(run.loop.cancel(INSTRUCTIONS[1]))
    run.go()
    run.loop.step(run.now_s)
    assert run.result(INSTRUCTIONS[1]).error_code is ErrorCode.CANCELLED
    for instruction in (INSTRUCTIONS[0], *INSTRUCTIONS[2:]):
        assert run.result(instruction).plan == expected[instruction][1]


def test_an_urgent_request_takes_a_slot_and_no_request_loses_its_kv(backend, expected):
    given_up = backend._scheduler.num_given_up
    run = make_run(backend, "tardiness", max_num_seqs=2)
    for instruction in INSTRUCTIONS[:4]:
        run.take(run.loop.submit(make_request(instruction, instruction, max_tokens=48), run.now_s))
    run.go(until_s=0.1)
    urgent = make_request("urgent", INSTRUCTIONS[4], max_tokens=48, urgency=Urgency.URGENT)
    run.take(run.loop.submit(urgent, run.now_s))
    run.loop._scheduler.reserve("urgent", 1)
    num_before = len(run.loop._backend.handed_over)
    run.go()
    run.loop.step(run.now_s)
    after = run.loop._backend.handed_over[num_before:]
    assert "urgent" in {*after[0].num_scheduled_tokens, *after[1].num_scheduled_tokens}  # one may have been decided
    assert backend._scheduler.num_given_up == given_up
    for instruction in INSTRUCTIONS[:4]:
        assert run.result(instruction).plan == expected[instruction][1]


def test_a_time_budget_is_kept_by_what_vllm_can_do(backend):
    run = make_run(backend, "tardiness")
    plans(run)  # so that the engine's pace is known
    request = make_request(
        "whole_plan", INSTRUCTIONS[0], max_tokens=48, time_budget_s=60.0, budget_scope=BudgetScope.WHOLE_PLAN
    )
    run.take(run.loop.submit(request, run.now_s))
    run.go()
    result = run.result("whole_plan")
    assert result.error_code in {ErrorCode.NONE, ErrorCode.PLAN_TRUNCATED}
    assert result.metrics.wcet_s is not None
    assert result.metrics.eviction_ratio == 0.0
    assert "eviction" not in result.metrics.measures
    impossible = make_request("impossible", "x", time_budget_s=1e-6, overrun=OverrunStrategy.KILL)
    run.take(run.loop.submit(impossible, run.now_s))
    run.go()
    run.loop.step(run.now_s)
    assert run.result("impossible").error_code is ErrorCode.BUDGET_INFEASIBLE


def test_eviction_is_refused_with_a_reason(backend):
    with pytest.raises(PlannerError, match="cannot remove KV") as error:
        backend.execute(SchedulerOutput(evict={"a": 3}, num_scheduled_tokens={"a": 1}))
    assert error.value.code is ErrorCode.EVICTION_UNSUPPORTED


def test_a_dead_engine_is_reported_with_its_code(backend, monkeypatch):
    def die():
        raise RuntimeError("worker died")

    monkeypatch.setattr(backend._engine.core, "step_fn", die)
    with pytest.raises(PlannerError, match="worker died") as error:
        backend.execute(start(sequence("a")))
    assert error.value.code is ErrorCode.ENGINE_FAILED
    monkeypatch.undo()
    backend.execute(SchedulerOutput(release=("a",)))


def test_a_prefix_is_computed_once_and_shared(backend):
    prefix = tuple(range(10, 80))
    num_shared = backend.load_prefix("system", prefix)
    assert num_shared == 64
    assert backend.load_prefix("system", prefix) == num_shared
    one = sequence("a", prompt=(*prefix, 5, 6, 7), prefix_id="system", num_cached_tokens=num_shared)
    output = backend.execute(start(one))
    assert output.step.num_scheduled_tokens == {"a": len(prefix) + 3 - num_shared}
    assert output.num_computed_tokens == {"a": len(prefix) + 3}
    backend.execute(SchedulerOutput(release=("a",)))
