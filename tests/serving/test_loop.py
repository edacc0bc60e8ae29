"""The loop with a scripted backend, step by step in virtual time."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import OverrunStrategy, PlanResult
from llm_planner.serving.events import Event, Finished, PlanComplete, SegmentReady
from llm_planner.serving.fake import FakeBackend, FakeTokenizer
from llm_planner.serving.goal import History
from llm_planner.serving.loop import PlannerLoop
from tests.serving.builders import failed, make_loop, make_request, make_segment, started, succeeded

_STUCK = f"2{{a(sto{'ol' * 25});}}"  # in a word, without end


class Run:
    """Drives a loop in virtual time with robots that execute every segment in ``seconds`` and report."""

    def __init__(self, loop: PlannerLoop, seconds: float = 1.0, reports: bool = True) -> None:
        self.loop = loop
        self.seconds = seconds
        self.reports = reports
        self.now_s = 0.0
        self.events: list[tuple[float, Event]] = []
        self._pending: list[tuple[float, str, int]] = []
        self._busy_until_s: dict[str, float] = {}

    def submit(self, *args, **kwargs) -> None:
        self.take(self.loop.submit(make_request(*args, **kwargs), self.now_s))

    def take(self, events: list[Event]) -> None:
        for event in events:
            self.events.append((self.now_s, event))
            if isinstance(event, SegmentReady) and self.reports:
                start_s = max(self.now_s, self._busy_until_s.get(event.request_id, 0.0))
                end_s = start_s + self.seconds
                self._busy_until_s[event.request_id] = end_s
                self._pending.append((end_s, event.request_id, event.segment.index))
                self._pending.sort()

    def go(self, until_s: float = 1e4) -> None:
        """Runs until nothing is left to happen."""
        for _ in range(20000):
            wakeup_s = self.loop.next_wakeup_s(self.now_s)
            report_s = self._pending[0][0] if self._pending else None
            next_s = min((t for t in (wakeup_s, report_s) if t is not None), default=None)
            if next_s is None or next_s > until_s:
                return
            self.now_s = max(self.now_s, next_s)
            if report_s is not None and report_s <= self.now_s:
                _, request_id, index = self._pending.pop(0)
                self.take(self.loop.report(succeeded(request_id, index, self.seconds), self.now_s))
            else:
                before = len(self.events)
                self.take(self.loop.step(self.now_s))
                assert len(self.events) >= before
                self.now_s += 0.012
        raise AssertionError("the loop never comes to rest")

    def texts(self, request_id: str = "r1") -> list[str]:
        return [e.segment.text for _, e in self.events if isinstance(e, SegmentReady) and e.request_id == request_id]

    def result(self, request_id: str = "r1") -> PlanResult:
        (result,) = [e.result for _, e in self.events if isinstance(e, Finished) and e.request_id == request_id]
        return result

    def time_of(self, kind: type, number: int = 0) -> float:
        return [t for t, e in self.events if isinstance(e, kind)][number]


@pytest.mark.parametrize("policy", ["fcfs", "fcfs_stream", "fcfs_segment"])
def test_a_plan_from_end_to_end(policy):
    run = Run(make_loop({"go": "mf(50);tc(90);ld();"}, policy=policy))
    run.submit()
    run.go()
    assert run.texts() == ["mf(50);", "tc(90);", "ld();"]
    result = run.result()
    assert result.error_code is ErrorCode.NONE
    assert result.plan == "mf(50);tc(90);ld();"
    assert [type(e) for _, e in run.events].count(PlanComplete) == 1
    assert isinstance(run.events[-1][1], Finished)
    assert result.metrics.execution_time_s == 3.0
    assert result.metrics.num_suspensions == (3 if policy == "fcfs_segment" else 0)  # the end comes after the last one
    assert result.metrics.num_cached_tokens > 0
    assert run.loop.status.num_goals == 0


def test_whole_plan_policies_deliver_at_the_end():
    run = Run(make_loop({"go": "mf(50);tc(90);ld();"}, policy="fcfs"))
    run.submit()
    run.go()
    times = [t for t, e in run.events if isinstance(e, SegmentReady)]
    assert len(set(times)) == 1


def test_a_whole_plan_that_is_refused_delivers_nothing():
    run = Run(make_loop({"go": "mf(50);forbidden();"}, policy="fcfs"))
    run.submit()
    run.go()
    assert run.texts() == []
    assert run.result().error_code is ErrorCode.UNKNOWN_SKILL
    assert run.result().metrics.response_time_s is None
    assert run.result().metrics.time_utility is None


def test_the_next_segment_arrives_before_the_robot_is_idle():
    run = Run(make_loop({"go": "a(1);b(2);c(3);d(4);"}))
    run.submit()
    run.go()
    result = run.result()
    assert result.metrics.num_suspensions == 4
    assert result.metrics.response_time_s == pytest.approx(
        result.metrics.waiting_time_s, abs=0.02
    )  # nothing but W(s_0)


def test_while_one_robot_moves_the_slot_serves_another():
    run = Run(make_loop({"go": "a(1);b(2);c(3);", "run": "d(1);e(2);f(3);"}, max_num_seqs=1))
    run.submit("r1", "go")
    run.submit("r2", "run")
    run.go(until_s=0.5)
    assert run.texts("r1") == ["a(1);"]
    assert run.texts("r2") == ["d(1);"]
    run.go()
    assert run.result("r1").error_code is run.result("r2").error_code is ErrorCode.NONE


@pytest.mark.parametrize(
    ("plan", "code", "delivered"),
    [
        ("mf(50);forbidden();mf(60);", ErrorCode.UNKNOWN_SKILL, ["mf(50);"]),
        ("mf(50);2{", ErrorCode.PLAN_SYNTAX, ["mf(50);"]),
        (f"mf(50);{_STUCK}mf(60);", ErrorCode.PLAN_SYNTAX, ["mf(50);"]),
        ("", ErrorCode.EMPTY_PLAN, []),
        ("mf(50);" * 200, ErrorCode.PLAN_TRUNCATED, None),
    ],
)
def test_a_bad_plan_ends_with_its_code_and_harms_no_other(plan, code, delivered):
    run = Run(make_loop({"bad": plan, "good": "mf(50);ld();"}), seconds=0.0)
    run.submit("bad", "bad", max_tokens=64)
    run.submit("good", "good")
    run.go()
    assert run.result("bad").error_code is code
    assert run.result("bad").error_msg
    assert delivered is None or run.texts("bad") == delivered
    assert [s.text for s in run.result("bad").segments] == run.texts("bad")
    assert run.result("good").error_code is ErrorCode.NONE


def test_truncation_keeps_what_was_delivered():
    run = Run(make_loop({"go": "mf(50);" * 200}, policy="fcfs_stream"), seconds=0.0)
    run.submit(max_tokens=30)
    run.go()
    assert run.result().error_code is ErrorCode.PLAN_TRUNCATED
    assert run.result().metrics.num_output_tokens == 30
    assert len(run.texts()) == (30 * 3 + 1) // 7  # a call is ready at its parenthesis


def test_a_backend_failure_of_one_harms_no_other():
    backend = FakeBackend(plans={"good": "mf(50);ld();"}, fail=frozenset({"bad"}))
    run = Run(make_loop(backend=backend))
    run.submit("good", "good")
    run.submit("bad", "bad")
    run.go()
    assert run.result("bad").error_code is ErrorCode.ENGINE_FAILED
    assert run.result("good").error_code is ErrorCode.NONE


def test_a_failed_segment_ends_the_goal():
    run = Run(make_loop({"go": "a(1);b(2);"}), reports=False)
    run.submit()
    run.go(until_s=0.5)
    run.take(run.loop.report(failed("r1", 0, "gripper empty"), 0.6))
    assert run.result().error_code is ErrorCode.SKILL_FAILED
    assert "gripper empty" in run.result().error_msg


def test_a_silent_robot_ends_the_goal():
    run = Run(make_loop({"go": "a(1);b(2);"}, silence_timeout_s=5.0), reports=False)
    run.submit()
    run.go()
    assert run.result().error_code is ErrorCode.ROBOT_SILENT
    assert run.time_of(Finished) == pytest.approx(run.time_of(SegmentReady) + 1.0 + 5.0, abs=0.1)


def test_started_is_a_sign_of_life():
    run = Run(make_loop({"go": "a(1);"}, silence_timeout_s=5.0), reports=False)
    run.submit()
    run.go(until_s=4.0)
    run.take(run.loop.report(started("r1", 0), 4.0))
    run.go()
    assert run.time_of(Finished) == pytest.approx(4.0 + 1.0 + 5.0, abs=0.1)


def test_clients_that_do_not_report_are_not_waited_for():
    run = Run(make_loop({"go": "a(1);b(2);c(3);"}, do_clients_report=False), reports=False)
    run.submit()
    run.go()
    result = run.result()
    assert result.error_code is ErrorCode.NONE
    assert result.metrics.execution_time_s == 3.0
    assert 1.5 < run.time_of(Finished) < 3.0  # the last segment was generated while the second ran


@pytest.mark.parametrize(("overrun", "code"), [("KILL", ErrorCode.BUDGET_EXCEEDED), ("SKIP_NEXT", ErrorCode.NONE)])
def test_time_budget(overrun, code):
    run = Run(make_loop({"go": "a(1);b(2);", "first": "x(1);" * 20}, policy="fcfs", max_num_seqs=1))
    run.submit("r0", "first")
    run.submit("r1", "go", time_budget_s=0.03, overrun=OverrunStrategy[overrun])
    run.go()
    assert run.result("r1").error_code is code
    assert run.result("r0").error_code is ErrorCode.NONE


def test_a_budget_that_is_met_is_forgotten():
    run = Run(make_loop({"go": "a(1);b(2);"}))
    run.submit(time_budget_s=0.5)
    run.go()
    assert run.result().error_code is ErrorCode.NONE


def test_cancel_at_any_time_releases_everything():
    loop = make_loop({"go": "a(1);b(2);c(3);"})
    for num_steps in range(12):
        run = Run(loop)
        run.submit()
        for _ in range(num_steps):
            run.take(loop.step(run.now_s))
        run.take(loop.cancel("r1", ErrorCode.CLIENT_GONE, "gone"))
        assert run.result().error_code is ErrorCode.CLIENT_GONE
        assert loop.cancel("r1") == []
        assert loop.report(succeeded("r1", 0), run.now_s) == []
        loop.step(run.now_s)  # the release
        assert loop.next_wakeup_s(run.now_s) is None or math.isfinite(loop.next_wakeup_s(run.now_s))
        status = loop.status
        assert status.num_goals == status.num_running == status.num_ready == status.num_sleeping == 0
        assert status.num_free_kv_blocks == status.num_kv_blocks - 2  # the shared prefix stays


def test_a_prompt_beyond_the_model_is_refused():
    run = Run(make_loop(backend=FakeBackend(max_model_len=64)))
    run.submit("r1", "go " * 100)
    assert run.result().error_code is ErrorCode.PROMPT_TOO_LONG


def test_submitting_twice_is_once():
    run = Run(make_loop({"go": "a(1);"}))
    run.submit()
    run.submit()
    run.go()
    assert run.texts() == ["a(1);"]


def test_memory_short_of_all_plans_loses_none():
    plans = {f"task{i}": f"a{i}(1);" * 12 for i in range(6)}
    for can_offload in (True, False):
        backend = FakeBackend(plans=plans, num_kv_blocks=14, block_size=4, can_offload=can_offload)
        run = Run(make_loop(backend=backend, max_num_seqs=4))
        run.loop._preparer.system = "s" * 24  # 2 shared blocks
        for name in plans:
            run.submit(name, name)
        run.go()
        for name, plan in plans.items():
            assert run.result(name).error_code is ErrorCode.NONE
            assert "".join(run.texts(name)) == plan


def test_a_plan_beyond_the_whole_cache_is_truncated_not_stuck():
    backend = FakeBackend(plans={"go": "a(1);" * 100}, num_kv_blocks=16, block_size=4)
    run = Run(make_loop(backend=backend, policy="fcfs_stream"), seconds=0.0)
    run.submit()
    run.go()
    assert run.result().error_code is ErrorCode.PLAN_TRUNCATED


def test_goes_on_behind_delivered_segments():
    plan = "a(1);b(2);c(3);d(4);"
    run = Run(make_loop({"go": plan}))
    delivered = tuple(make_segment(i, text) for i, text in enumerate(("a(1);", "b(2);")))
    history = History(arrival_s=-2.0, delivered_at_s=(-1.5, -0.5), reports=((-0.5, succeeded("r1", 0)),))
    run.take(run.loop.submit(make_request(delivered=delivered), 0.0, history))
    run.go()
    assert run.texts() == ["c(3);", "d(4);"]
    result = run.result()
    assert result.plan == plan
    assert result.metrics.response_time_s == pytest.approx(0.5)


def test_a_complete_plan_only_waits_for_its_robot():
    run = Run(make_loop({"go": "a(1);"}), reports=False)
    delivered = (make_segment(0, "a(1);"),)
    history = History(arrival_s=0.0, delivered_at_s=(0.5,), is_plan_complete=True)
    run.take(run.loop.submit(make_request(delivered=delivered), 1.0, history))
    run.take(run.loop.step(1.0))
    assert run.events == []
    run.take(run.loop.report(succeeded("r1", 0), 1.6))
    assert run.result().error_code is ErrorCode.NONE


_STATEMENTS = ["a(1);", "fast();", "scan(x);", "2{b(2);}", "forbidden();", "?a(1)==True{c(3);}", _STUCK]
_PLAN = st.lists(st.sampled_from(_STATEMENTS))


@settings(max_examples=60)
@given(
    plans=st.lists(_PLAN, min_size=1, max_size=5),
    policy=st.sampled_from(["fcfs", "fcfs_stream", "fcfs_segment"]),
    max_num_seqs=st.integers(1, 3),
    num_kv_blocks=st.integers(40, 60),
    seconds=st.floats(0.0, 5.0),
    cancel_at=st.integers(0, 4),
)
def test_every_request_ends_with_exactly_one_finished(plans, policy, max_num_seqs, num_kv_blocks, seconds, cancel_at):
    backend = FakeBackend(
        plans={f"task_{i}_": "".join(plan) for i, plan in enumerate(plans)}, num_kv_blocks=num_kv_blocks, block_size=4
    )
    run = Run(make_loop(backend=backend, policy=policy, max_num_seqs=max_num_seqs), seconds=seconds)
    for i in range(len(plans)):
        run.submit(f"r{i}", f"task_{i}_")
    run.go(until_s=0.05)
    run.take(run.loop.cancel(f"r{cancel_at}"))
    run.go()
    for i, plan in enumerate(plans):
        result = run.result(f"r{i}")  # exactly one
        assert result.plan == "".join(run.texts(f"r{i}"))
        assert [s.index for s in result.segments] == list(range(len(result.segments)))
        if i != cancel_at:
            expected = "forbidden();" in plan or _STUCK in plan or not plan
            assert (result.error_code is not ErrorCode.NONE) == expected
    assert not run.loop._is_kv_off
    assert run.loop.next_wakeup_s(run.now_s) is None or run.loop.step(run.now_s + 1e6) == []


def test_the_clock_of_silence_starts_anew_with_each_segment():
    run = Run(make_loop({"go": "scan(x);a(1);"}, policy="fcfs_stream", silence_timeout_s=5.0), reports=False)
    run.submit()
    run.go(until_s=1.0)
    run.take(run.loop.report(succeeded("r1", 0), 1.0))
    run.go()
    assert run.result().error_code is ErrorCode.ROBOT_SILENT
    assert run.time_of(Finished) == pytest.approx(1.0 + 1.0 + 5.0, abs=0.1)  # not the 10 s that scan may take


def test_nothing_is_generated_behind_a_delivered_return():
    run = Run(make_loop({"go": "a(1);->1;"}), reports=False)
    delivered = (make_segment(0, "a(1);"), make_segment(1, "->1;"))
    run.take(run.loop.submit(make_request(delivered=delivered), 0.0))
    run.take(run.loop.report(succeeded("r1", 1), 1.0))
    assert [type(e) for _, e in run.events] == [Finished]
    assert run.result().error_code is ErrorCode.NONE


def test_reports_from_before_a_restart_count():
    run = Run(make_loop({"go": "a(1);b(2);"}), reports=False)
    delivered = (make_segment(0, "a(1);"), make_segment(1, "b(2);"))
    history = History(
        arrival_s=-3.0,
        delivered_at_s=(-2.5, -1.5),
        reports=((-1.4, succeeded("r1", 0)), (-0.4, succeeded("r1", 1))),
        is_plan_complete=True,
    )
    run.take(run.loop.submit(make_request(delivered=delivered), 0.0, history))
    assert run.result().error_code is ErrorCode.NONE
    assert run.result().metrics.response_time_s == pytest.approx(0.5)


def test_delivered_tokens_count_as_tokens():
    delivered = tuple(make_segment(i, "a(1);") for i in range(3))  # 15 bytes: 5 tokens
    run = Run(make_loop({"go": "a(1);" * 40}), seconds=0.0)
    run.take(run.loop.submit(make_request(delivered=delivered, max_tokens=20), 0.0))
    run.go()
    assert run.result().error_code is ErrorCode.PLAN_TRUNCATED
    assert run.result().metrics.num_output_tokens == 15


def test_two_segments_of_one_step_share_its_time():
    backend = FakeBackend(plans={"go": "a(1);b(2);"}, tokenizer=FakeTokenizer(bytes_per_token=40))
    run = Run(make_loop(backend=backend))
    run.submit()
    run.go()
    first, second = run.result().segments
    assert first.generation_time_s > 0.0
    assert second.generation_time_s == 0.0
    assert (first.num_tokens, second.num_tokens) == (1, 0)


@pytest.mark.parametrize("policy", ["fcfs", "fcfs_segment"])
def test_a_segment_says_how_many_tokens_the_model_wrote_for_it(policy):
    backend = FakeBackend(plans={"go": "mf(50);tc(90);ld();"}, tokenizer=FakeTokenizer(bytes_per_token=1))
    run = Run(make_loop(backend=backend, policy=policy))
    run.submit()
    run.go()
    assert [segment.num_tokens for segment in run.result().segments] == [6, 7, 5]  # a call ends at its parenthesis
