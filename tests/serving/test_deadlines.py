# SPDX-License-Identifier: Apache-2.0
"""Time budgets in the loop, in virtual time: what each overrun strategy delivers, and when."""

import random
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import BudgetScope, OverrunStrategy, PlanResult
from llm_planner.serving.events import Event, Finished, PlanComplete, SegmentReady
from llm_planner.serving.fake import FakeBackend, FakeTiming
from llm_planner.serving.goal_record import GoalRecord
from tests.serving.builders import failed, make_loop, make_request, make_segment, succeeded

NETWORK_S = 0.008
STATEMENTS = [f"a({i});" for i in range(10)]
PLAN = "".join(STATEMENTS)


@dataclass
class JitteryTiming:
    """Steps of 10 ms plus up to ``jitter`` of that, prompts on top."""

    jitter: float = 0.0
    rng: random.Random = field(default_factory=lambda: random.Random(1))

    def duration_s(self, scheduled) -> float:
        return FakeTiming().duration_s(scheduled) * (1 + self.rng.uniform(0, self.jitter))


class Run:
    """A loop whose backend moves the clock; robots execute nothing, or everything at once."""

    def __init__(self, *, plans=None, policy="fcfs_stream", jitter=0.0, reports=False, **scheduler) -> None:
        self.now_s = 0.0
        self.events: list[tuple[float, Event]] = []
        backend = FakeBackend(plans=plans or {"go": PLAN}, timing=JitteryTiming(jitter), sleep=self.sleep)
        self.loop = make_loop(backend=backend, policy=policy, do_clients_report=reports, **scheduler)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def take(self, events: list[Event]) -> None:
        self.events += [(self.now_s, event) for event in events]

    def submit(self, *args, **kwargs) -> None:
        self.take(self.loop.submit(make_request(*args, **kwargs), self.now_s))

    def go(self, until_s: float = 1e3) -> "Run":
        while (wakeup_s := self.loop.next_wakeup_s(self.now_s)) is not None and wakeup_s < until_s:
            self.now_s = max(self.now_s, wakeup_s)
            self.take(self.loop.step(self.now_s))
        return self

    def of(self, kind: type, request_id: str = "r1") -> list[tuple[float, Event]]:
        return [(t, e) for t, e in self.events if isinstance(e, kind) and e.request_id == request_id]

    def result(self, request_id: str = "r1") -> PlanResult:
        ((_, end),) = self.of(Finished, request_id)
        return end.result


def partial(time_budget_s: float, scope: BudgetScope = BudgetScope.WHOLE_PLAN) -> dict:
    return {"time_budget_s": time_budget_s, "overrun": OverrunStrategy.PARTIAL, "budget_scope": scope}


@pytest.mark.parametrize("policy", ["fcfs", "fcfs_stream", "fcfs_segment"])
def test_a_plan_is_closed_at_its_last_complete_segment(policy):
    run = Run(policy=policy)
    run.submit(**partial(0.15))
    result = run.go().result()
    assert result.error_code is ErrorCode.PLAN_PARTIAL
    assert len(result.segments) >= 1
    assert PLAN.startswith(result.plan)
    assert result.metrics.plan_time_s <= 0.15 - NETWORK_S
    ((closed_at_s, complete),) = run.of(PlanComplete)
    assert complete.is_partial
    assert complete.num_segments == len(result.segments)
    decode_step_s = 0.011
    assert 0.15 - NETWORK_S - 2 * decode_step_s <= closed_at_s <= 0.15 - NETWORK_S
    assert [e.segment for _, e in run.of(SegmentReady)] == list(result.segments)
    assert run.of(SegmentReady)[-1][0] <= 0.15 - NETWORK_S


@pytest.mark.parametrize("scope", BudgetScope)
@pytest.mark.parametrize("policy", ["fcfs", "fcfs_stream", "tardiness"])
def test_a_plan_that_is_only_shown_reaches_no_robot_when_it_is_closed(policy, scope):
    run = Run(policy=policy, reports=True)
    run.submit(plan_only=True, **partial(0.15, scope))
    result = run.go().result()
    assert [type(event) for _, event in run.events] == [Finished]
    assert (result.error_code, result.segments) == (ErrorCode.PLAN_PARTIAL, ())
    (shown,) = result.candidates
    assert PLAN.startswith(shown)
    assert f"segments: {shown.count(';')};" in result.error_msg
    assert run.of(Finished)[0][0] <= 0.15 - NETWORK_S


def test_of_a_plan_that_is_only_shown_and_has_no_whole_statement_nothing_is_shown():
    run = Run(plans={"go": "2{a(1);" + "b(2);" * 40 + "}"})
    run.submit(plan_only=True, **partial(0.15))
    result = run.go().result()
    assert (result.error_code, result.candidates) == (ErrorCode.BUDGET_EXCEEDED, ())


@pytest.mark.parametrize("policy", ["fcfs", "fcfs_stream", "fcfs_segment"])
def test_a_plan_that_keeps_its_budget_is_no_partial_one(policy):
    run = Run(policy=policy)
    run.submit(**partial(5.0))
    result = run.go().result()
    assert (result.error_code, result.plan) == (ErrorCode.NONE, PLAN)
    assert not run.of(PlanComplete)[0][1].is_partial
    assert result.metrics.num_suspensions == 0  # a budget for the whole plan waits for no robot


def test_nothing_complete_is_no_partial_plan():
    run = Run(plans={"go": f"l('{'one two three ' * 15}');"})
    run.submit(**partial(0.15))
    result = run.go().result()
    assert (result.error_code, result.segments) == (ErrorCode.BUDGET_EXCEEDED, ())
    assert run.of(Finished)[0][0] < 0.15  # said as soon as it is known


def test_while_there_is_nothing_to_deliver_a_prompt_is_tried():
    """The bound of a step is cautious: a new planner, or one that saw dear prompts, would give up what fits."""
    run = Run()
    run.submit(instruction="go " + "and see the cup " * 100, **partial(0.15))  # the bound says 0.19 s
    result = run.go().result()
    assert result.error_code is ErrorCode.PLAN_PARTIAL
    assert result.metrics.plan_time_s <= 0.15 - NETWORK_S


@pytest.mark.parametrize("policy", ["fcfs", "fcfs_stream", "fcfs_segment"])
def test_one_slow_step_locks_out_no_plan_that_is_closed_in_time(policy):
    run = Run(policy=policy)
    times = run.loop._scheduler.times
    times.observe_step([(1, 50)], 5.0)  # longer than a budget: the machine stood still
    run.submit(**partial(2.0))
    result = run.go().result()
    assert result.segments
    assert PLAN.startswith(result.plan)
    assert times.decode_bound_s < 5.0  # it is forgotten by the steps that run


def test_a_first_segment_in_time_keeps_a_budget_of_that_scope():
    run = Run()
    run.submit(**partial(0.1, BudgetScope.FIRST_SEGMENT))
    assert run.go().result().error_code is ErrorCode.NONE


@pytest.mark.parametrize("scope", BudgetScope)
@pytest.mark.parametrize("policy", ["fcfs", "fcfs_stream", "fcfs_segment"])
def test_kill_delivers_nothing_late(policy, scope):
    """A step that ends after the deadline delivers nothing, however much it completed."""
    for milliseconds in range(30, 400, 7):
        run = Run(policy=policy)
        run.submit(time_budget_s=milliseconds / 1e3, budget_scope=scope)
        result = run.go().result()
        times_s = [t for t, _ in run.of(SegmentReady)]
        covered_s = times_s if scope is BudgetScope.WHOLE_PLAN else times_s[:1]
        assert all(t <= milliseconds / 1e3 for t in covered_s)
        assert result.error_code is not ErrorCode.NONE or result.plan == PLAN
        codes = [ErrorCode.NONE, ErrorCode.BUDGET_EXCEEDED]
        if "token_cap" in result.metrics.measures:  # no whole plan was guaranteed
            codes.append(ErrorCode.PLAN_PARTIAL)
        assert result.error_code in codes


def test_skip_next_goes_on():
    run = Run()
    run.submit(time_budget_s=0.1, overrun=OverrunStrategy.SKIP_NEXT, budget_scope=BudgetScope.WHOLE_PLAN)
    result = run.go().result()
    assert (result.error_code, result.plan) == (ErrorCode.NONE, PLAN)
    assert result.metrics.plan_time_s > 0.1


def test_what_a_decision_takes_is_gone_from_the_last_safe_moment():
    run = Run()
    clock, schedule = SimpleNamespace(now_s=lambda: run.now_s), run.loop._scheduler.schedule

    def schedule_slowly(now_s):
        run.sleep(0.03)
        return schedule(now_s)

    run.loop._scheduler.schedule = schedule_slowly
    run.submit(**partial(0.5))
    while run.loop.next_wakeup_s(run.now_s) is not None:
        run.take(run.loop.step(run.now_s, clock))
    assert run.result().error_code is ErrorCode.PLAN_PARTIAL
    assert run.of(SegmentReady)
    assert run.of(PlanComplete)[0][0] <= 0.5 - NETWORK_S


def test_a_partial_plan_ends_when_the_robot_has_carried_it_out():
    run = Run(reports=True)
    run.submit(**partial(0.15))
    run.go(until_s=1.0)
    assert run.of(PlanComplete)
    assert not run.of(Finished)
    for _, ready in run.of(SegmentReady):
        run.take(run.loop.report(succeeded("r1", ready.segment.index), run.now_s))
    assert run.result().error_code is ErrorCode.PLAN_PARTIAL
    assert "ask again" in run.result().error_msg


def test_times_of_goals_that_have_ended_are_forgotten():
    run = Run()
    for number in range(100):
        run.submit(f"r{number}", time_budget_s=86400.0)
        run.go()
    assert len(run.of(Finished, "r99")) == 1
    assert len(run.loop._deadlines._heap) < 80


def test_a_robot_that_fails_a_partial_plan_has_failed():
    run = Run(reports=True)
    run.submit(**partial(0.15))
    run.go(until_s=1.0)
    run.take(run.loop.report(failed("r1", 0, "no"), run.now_s))
    assert run.result().error_code is ErrorCode.SKILL_FAILED


def test_a_loop_that_comes_too_late_closes_with_what_was_delivered():
    run = Run(reports=True)
    run.now_s = 9.0
    request = make_request(delivered=(make_segment(0, "a(0);"),), **partial(0.15))
    run.take(run.loop.open(GoalRecord(request=request, arrival_s=1.0, delivered_at_s=(1.1,)), 9.0))
    run.go(until_s=10.0)
    ((_, complete),) = run.of(PlanComplete)
    assert complete == PlanComplete("r1", 1, is_partial=True)
    run.take(run.loop.report(succeeded("r1", 0), run.now_s))
    assert (run.result().error_code, run.result().plan) == (ErrorCode.PLAN_PARTIAL, "a(0);")


def test_a_closed_plan_stays_closed_in_another_loop():
    run = Run(reports=True)
    request = make_request(delivered=(make_segment(0, "a(0);"),), **partial(0.15))
    closed = {"is_complete": True, "is_partial": True}
    run.take(run.loop.open(GoalRecord(request=request, arrival_s=0.0, delivered_at_s=(0.1,), **closed), 9.0))
    run.take(run.loop.report(succeeded("r1", 0), 9.0))
    assert run.result().error_code is ErrorCode.PLAN_PARTIAL


def test_a_robot_that_falls_silent_behind_a_closed_plan_is_noticed_in_another_loop_too():
    run = Run(policy="tardiness", reports=True)
    request = make_request(delivered=(make_segment(0),), **partial(0.15))
    run.take(run.loop.open(GoalRecord(request=request, arrival_s=0.0, delivered_at_s=(0.02,)), 0.05))
    assert run.go().result().error_code is ErrorCode.ROBOT_SILENT


@settings(max_examples=150, deadline=None)
@given(
    budget_s=st.floats(0.02, 0.6),
    jitter=st.floats(0, 0.5),
    policy=st.sampled_from(["fcfs", "fcfs_stream", "fcfs_segment"]),
    num_others=st.integers(0, 5),
    seed=st.integers(0, 99),
)
def test_a_partial_plan_is_a_beginning_and_never_late(budget_s, jitter, policy, num_others, seed):
    run = Run(policy=policy, jitter=jitter, max_num_seqs=4)
    run.loop._backend.timing.rng.seed(seed)
    for i in range(num_others):
        run.submit(f"o{i}")
    run.submit(**partial(budget_s))
    result = run.go().result()
    assert PLAN.startswith(result.plan)
    assert result.error_code is not ErrorCode.NONE or result.plan == PLAN
    assert (result.error_code is ErrorCode.BUDGET_EXCEEDED) == (result.plan == "")
    assert all(t <= budget_s for t, _ in run.of(SegmentReady))
    for i in range(num_others):
        assert run.result(f"o{i}").plan == PLAN  # the others are unharmed
    run.loop.step(run.now_s)
    assert run.loop.status.num_running == run.loop.status.num_ready == 0
