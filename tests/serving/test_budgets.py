# SPDX-License-Identifier: Apache-2.0
"""Time budgets from arrival on, in virtual time."""

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import BudgetScope, OverrunStrategy, Urgency
from llm_planner.prediction.execution_time import ProfiledTimes
from llm_planner.scheduling.budget import Lengths
from llm_planner.serving.events import Finished, SegmentReady
from llm_planner.serving.expected_lengths import ExpectedLengths
from tests.serving.budget_run import LONG, PLAN, WHOLE, Chunk, Run
from tests.serving.budget_run import number as assumed


def test_a_budget_that_is_easily_kept_takes_no_measure():
    result = Run().submit(time_budget_s=10.0).go().result()
    assert result.error_code is ErrorCode.NONE
    assert result.metrics.measures == ()
    assert result.metrics.eviction_ratio == 0.0
    assert 0 < result.metrics.response_time_s <= result.metrics.wcet_s <= 10.0
    assert 0 < result.metrics.predicted_time_s <= result.metrics.wcet_s


def test_without_a_budget_nothing_is_decided():
    metrics = Run().submit().go().result().metrics
    assert (metrics.measures, metrics.wcet_s, metrics.predicted_time_s) == ((), None, None)


@pytest.mark.parametrize("policy", ["fcfs", "fcfs_stream"])
def test_where_all_slots_are_busy_one_is_reserved_and_no_request_loses_anything(policy):
    run = Run(policy=policy, max_num_seqs=2).submit("a", "long").submit("b", "long").go(5)
    arrived_s = run.now_s
    run.submit(time_budget_s=1.5).go()
    assert "reserved_slot" in run.result().metrics.measures
    assert run.first_segment_at_s() - arrived_s <= run.result().metrics.wcet_s <= 1.5
    assert all(run.result(name).plan == LONG for name in ("a", "b"))


def test_what_cannot_be_kept_is_refused_at_once_and_leaves_nothing_behind():
    run = Run().submit("a", "long").go(3)
    arrived_s, held = run.now_s, run.loop.status.num_free_kv_blocks
    run.submit(time_budget_s=0.02)
    run.go(1)
    assert run.result().error_code is ErrorCode.BUDGET_INFEASIBLE
    assert [t for t, e in run.events if e.request_id == "r1"] == [arrived_s]
    assert run.loop.status.num_goals == 1
    assert run.loop.status.num_free_kv_blocks <= held
    assert run.result().metrics.num_output_tokens == 0


def test_a_budget_shorter_than_a_decode_step_says_so():
    message = Run().submit(time_budget_s=0.005).go().result().error_msg
    assert "one decode step takes" in message


def test_only_what_is_admitted_is_told_so_and_before_its_first_step():
    run, told = Run(), []
    run.loop.tell_admissions(lambda goal: told.append((goal.request.request_id, run.loop._meter.totals.num_steps)))
    before = run.loop._meter.totals.num_steps
    run.submit("kept", time_budget_s=60.0).submit("short", time_budget_s=0.001).submit("unlimited").go()
    assert told == [("kept", before)]


def test_a_token_cap_is_told_of_when_it_is_decided():
    run, told = Run(can_evict=False), []
    run.loop.tell_admissions(lambda goal: told.append((goal.request.request_id, goal.is_capped)))
    run.submit("r1", "long", time_budget_s=3.0, overrun=OverrunStrategy.KILL, **WHOLE).go(3)
    slow_s = 4.0 * run.backend.profile.step_s([Chunk(1, 500)])
    for _ in range(100):
        run.loop._scheduler.times.engine.observe([(1, 500)], slow_s)
    run.go()
    assert told == [("r1", False), ("r1", True)]


@pytest.mark.parametrize("scope", BudgetScope)
@pytest.mark.parametrize("overrun", [OverrunStrategy.KILL, OverrunStrategy.PARTIAL])
def test_what_a_refusal_names_is_enough(overrun, scope):
    message = Run().submit(time_budget_s=0.03, overrun=overrun, budget_scope=scope).go().result().error_msg
    named_s = float(message.split("at least ")[1].split(" s")[0])
    run = Run().submit(time_budget_s=named_s * 1.01, overrun=overrun, budget_scope=scope).go()
    assert run.result().error_code in (ErrorCode.NONE, ErrorCode.PLAN_PARTIAL)


def test_a_long_scene_is_evicted_as_far_as_the_expected_length_needs():
    scene = "go " + "and see the cup " * 200  # some thousand tokens
    result = Run().submit("r1", scene, time_budget_s=1.0).go().result()
    assert (result.error_code, result.metrics.eviction_ratio) == (ErrorCode.NONE, 0.0)
    result = Run().submit("r1", scene, time_budget_s=0.35).go().result()
    assert result.error_code is ErrorCode.NONE
    assert result.metrics.measures == ("reserved_slot", "eviction", "token_cap")
    assert 0 < result.metrics.eviction_ratio < 0.95
    assert result.metrics.response_time_s <= 0.35


@pytest.mark.parametrize("can_evict", [True, False])
def test_a_scene_is_pruned_before_anything_is_evicted(can_evict):
    text = "go " + "and see the cup " * 200
    whole = Run().submit("r1", text).go().result().metrics
    result = Run(can_evict=can_evict).submit("list", text, time_budget_s=1.0).go().result("list")
    assert (result.error_code, result.plan) == (ErrorCode.NONE, PLAN)
    assert result.metrics.measures == ("reserved_slot", "scene_pruning")
    assert result.metrics.eviction_ratio == 0.0
    assert 100 < result.metrics.num_prompt_tokens < whole.num_prompt_tokens - 100
    assert result.metrics.response_time_s <= result.metrics.wcet_s <= 1.0


def test_a_scene_is_not_shortened_once_its_prefill_has_begun():
    """A second goal comes in the middle of the first one's prefill: what is computed stays."""
    text = "go " + "and see the cup " * 200
    run = Run(max_num_batched_tokens=64).submit("list", text, time_budget_s=2.0).go(3)
    num_tokens = run.loop._goals["list"].generation.num_prompt_tokens
    run.submit("other", text, time_budget_s=1.0).go()
    assert run.result("list").error_code is ErrorCode.NONE
    assert run.result("list").metrics.num_prompt_tokens == num_tokens


@pytest.mark.parametrize("policy", ["fcfs", "fcfs_stream", "fcfs_segment"])
def test_where_no_whole_plan_can_be_guaranteed_it_is_closed_in_time(policy):
    """Not before it must be: a plan that turns out to fit is whole."""
    run = Run(policy=policy, can_evict=False).submit(
        "r1", "long " + "and see the cup " * 200, time_budget_s=1.2, **WHOLE
    )
    result = run.go().result()
    assert result.error_code is ErrorCode.PLAN_PARTIAL
    assert result.metrics.measures == ("reserved_slot", "token_cap")
    assert LONG.startswith(result.plan)
    ended_s = [t for t, e in run.events if isinstance(e, SegmentReady)][-1]
    assert 1.2 - 0.15 < ended_s <= 1.2
    short = Run(policy=policy, can_evict=False).submit(
        "r1", "go " + "and see the cup " * 200, time_budget_s=1.2, **WHOLE
    )
    result = short.go().result()
    assert (result.error_code, result.metrics.measures[-1]) == (ErrorCode.NONE, "token_cap")


@pytest.mark.parametrize("overrun", [OverrunStrategy.KILL, OverrunStrategy.PARTIAL])
def test_who_takes_part_of_a_plan_is_refused_no_more_than_who_wants_all_of_it(overrun):
    """Plans of one long statement were seen, and a short plan: there is time for the short one."""
    run = Run(can_evict=False)
    run.backend.plans["wordy"] = "2{" + "a(1);" * 12 + "}"
    for index in range(9):
        run.submit(f"w{index}", "wordy").go()
    result = run.submit("short").go().submit(time_budget_s=0.2, overrun=overrun, **WHOLE).go().result()
    assert (result.error_code, result.plan) == (ErrorCode.NONE, PLAN)
    assert "token_cap" in result.metrics.measures


def test_what_is_reserved_for_one_is_not_given_to_the_next():
    """Ten robots at once, each with a budget that it could only keep alone."""
    run = Run(max_num_seqs=16)
    names = [f"r{i}" for i in range(10)]
    for name in names:
        run.submit(name, time_budget_s=0.55)
    run.go()
    codes = [run.result(name).error_code for name in names]
    assert codes[0] is ErrorCode.NONE
    assert set(codes) == {ErrorCode.NONE, ErrorCode.BUDGET_INFEASIBLE}
    for name, code in zip(names, codes, strict=True):
        if code is ErrorCode.NONE:
            assert run.first_segment_at_s(name) <= 0.55


@pytest.mark.parametrize("policy", ["fcfs_segment", "tardiness"])
def test_a_reserved_slot_leaves_the_others_to_the_robots_that_come_back(policy):
    """Prompts fill the queue, so a slot is reserved; they wait for its goal, but whoever decodes need not."""
    run = Run(policy=policy, max_num_seqs=4).submit("back", "long")
    while not run.loop._scheduler.num_suspended:
        run.step()
    for index in range(10):
        run.submit(f"w{index}", "long" + " see" * 100)
    run.submit(time_budget_s=20.0, **WHOLE)
    run.step()
    assert run.loop._scheduler.reservations.live["r1"].max_co_batched == 3
    num_events = len(run.events)
    run.now_s += 10.0  # the robot has carried out what it had
    run.go(3)
    assert "back" in [event.request_id for _, event in run.events[num_events:]]
    assert "r1" in run.loop._scheduler.reservations
    assert run.go().result().metrics.measures == ("reserved_slot",)


def test_others_yield_to_the_next_one_with_a_budget():
    """As many run along with the first as its budget allows: it would have no time to spare."""
    run = Run(policy="fcfs_stream", max_num_seqs=8)
    run.loop._budgets.lengths = Oracle()
    for index in range(6):
        run.submit(f"w{index}", "long" + " see" * 100)
    run.go(3).submit("r1", "long", time_budget_s=0.97, overrun=OverrunStrategy.KILL, **WHOLE).go(1)
    live = run.loop._scheduler.reservations.live
    assert 1 < live["r1"].max_co_batched < 6
    run.submit("r2", "go" + " see" * 300, time_budget_s=0.5, overrun=OverrunStrategy.KILL).go()
    for name in ("r1", "r2"):
        assert run.result(name).error_code is ErrorCode.NONE


@pytest.mark.parametrize(
    ("budget_s", "code"),
    [(10.0, ErrorCode.NONE), (0.3, ErrorCode.PLAN_PARTIAL), (0.05, ErrorCode.BUDGET_INFEASIBLE)],
)
def test_the_budget_of_a_plan_that_is_only_shown_covers_all_of_it(budget_s, code):
    run = Run()
    for index, plan in enumerate(("go", "long", "long")):
        run.submit(f"w{index}", plan, plan_only=True).go()
    arrived_s = run.now_s
    result = run.submit("r1", "long", plan_only=True, time_budget_s=budget_s).go().result()
    assert result.error_code is code
    assert run.now_s - arrived_s <= budget_s + 1e-9
    assert ("token_cap" in result.metrics.measures) == (code is ErrorCode.PLAN_PARTIAL)


def test_before_the_speed_is_known_no_request_is_refused_for_it():
    run = Run(times=False).submit(time_budget_s=0.2).go()
    assert run.result().error_code is ErrorCode.NONE
    assert run.result().metrics.measures == ("reserved_slot",)
    assert run.result().metrics.wcet_s is None
    for number in range(5):
        run.submit(f"n{number}").go()
    run.submit("late", time_budget_s=0.011).go()
    assert run.result("late").error_code is ErrorCode.BUDGET_INFEASIBLE


def test_lengths_are_learned():
    run = Run()
    run.submit("r0").go().submit("r1", time_budget_s=10.0, **WHOLE).go()
    learned = run.result().metrics
    assert learned.predicted_time_s == pytest.approx(learned.plan_time_s, rel=0.2)
    fresh = Run().submit(time_budget_s=10.0, **WHOLE).go().result().metrics
    assert fresh.predicted_time_s > 2 * fresh.plan_time_s


class Oracle(ExpectedLengths):
    """Knows the scripts: how many steps until the first segment, or the end, is out."""

    def remaining(self, goal, scope):
        plan = LONG if "long" in goal.request.instruction else PLAN
        num_steps = 2 if scope is BudgetScope.FIRST_SEGMENT else -(-len(plan) // 3) + 1
        left = max(1, num_steps - goal.generation.num_output_tokens)
        return Lengths(lower=left, expected=float(left), upper=left)


def check_worst_cases(run):
    """Has what is remembered of worst cases compared with what would be found."""
    budgets = run.loop._budgets
    remembered = budgets._worst_s

    def worst_s(kept, *, others_yield=False):
        time_s = remembered(kept, others_yield=others_yield)
        assert time_s == budgets._find_worst_s(kept, others_yield=others_yield)
        return time_s

    budgets._worst_s = worst_s


def test_worst_cases_are_found_once_before_a_step_in_which_nothing_changes(monkeypatch):
    run, found, num_budgets = Run(max_num_seqs=32), [], 8
    for number in range(24):
        run.submit(f"other{number}", "long")
    run.go(6)
    for number in range(num_budgets):
        run.submit(f"r{number}", "long", time_budget_s=30.0, **WHOLE)
    run.go(4)
    find = run.loop._budgets._find_worst_s
    monkeypatch.setattr(run.loop._budgets, "_find_worst_s", lambda *a, **k: found.append(a) or find(*a, **k))
    run.go(1)
    assert len(run.loop._scheduler.reservations.live) == num_budgets
    assert len(found) == 2 * num_budgets  # whether others yield, and whether not


def test_a_goal_that_resumes_in_this_very_step_is_counted_in_the_decision():
    run = Run(policy="edf_segment", max_num_seqs=1)
    run.submit("other").go(until_s=0.5)
    (other,) = run.loop._scheduler.generations
    assert run.loop._scheduler.num_suspended == 1
    run.now_s = other.resume_at_s
    run.submit(time_budget_s=0.5).step()
    assert run.loop._scheduler.num_suspended == 0
    assert "reserved_slot" in run.loop._goals["r1"].measures


@pytest.mark.parametrize("budget_s", [0.15, 0.16, 0.2, 0.23])
def test_the_prompts_of_others_look_at_their_own_caches(budget_s):
    """Twelve short ones behind a long shared prefix take longer than one of all their tokens behind none."""
    run = Run(can_evict=False, max_num_seqs=16, network_latency_s=0.0)
    profile = run.backend.profile
    square, line, fixed = assumed(5.47e-8), assumed(6.93e-5), assumed(4.84e-3)
    base, sequence, token = assumed(4e-3), assumed(5e-4), assumed(1e-6)
    run.backend.profile = replace(
        profile,
        hides_prompts=False,
        prefill=replace(profile.prefill, a_s_per_token2=square, b_s_per_token=line, c_s=fixed),
        decode=replace(profile.decode, base_s=base, per_sequence_s=sequence, per_kv_token_s=token),
    )
    run.loop._scheduler.times.engine = ProfiledTimes(run.backend.profile)
    run.loop._budgets.lengths = Oracle()
    run.preparer.system = "you are a robot " * 417
    run.submit("first").go()
    for number in range(12):
        run.submit(f"other{number}", "go" + " see" * 24)
    run.submit("r1", "go" + " see" * 24, time_budget_s=budget_s, overrun=OverrunStrategy.KILL).go()
    assert run.result().error_code in (ErrorCode.NONE, ErrorCode.BUDGET_INFEASIBLE)


def test_a_goal_that_can_wait_takes_no_slot_beside_one_that_was_promised_to_be_in_time():
    run = Run("fcfs_segment", can_evict=False, max_num_seqs=2, network_latency_s=0.0, max_num_batched_tokens=2048)
    run.loop._budgets.lengths = Oracle()
    run.submit("tight", "go" + " see" * 3000, time_budget_s=0.569, overrun=OverrunStrategy.KILL)
    run.submit("lax", "go" + " see" * 50, time_budget_s=1.8, overrun=OverrunStrategy.KILL, **WHOLE)
    run.go(until_s=0.01)
    run.submit("urgent", "go" + " see" * 50, urgency=Urgency.URGENT).go()
    assert {r: run.result(r).error_code for r in ("tight", "lax")} == dict.fromkeys(("tight", "lax"), ErrorCode.NONE)


@pytest.mark.parametrize(
    ("promised", "instruction", "max_num_seqs", "second_at_s", "second_s"),
    [(0.54, "long", 3, 0.1, 0.26), (0.66, "long", 3, 0.3, 0.36), (0.46, "go", 2, 0.05, 0.42)],
)
def test_a_goal_that_waited_for_another_ones_slot_has_the_engine_for_itself_then(
    promised, instruction, max_num_seqs, second_at_s, second_s
):
    """The second goal's plan is closed when its time is over; what it writes beyond what it was promised waits."""
    run = Run(can_evict=False, max_num_seqs=max_num_seqs, network_latency_s=0.0)
    run.loop._budgets.lengths = Oracle()
    run.submit("first", instruction, time_budget_s=promised, overrun=OverrunStrategy.KILL, **WHOLE)
    run.go(until_s=second_at_s)
    run.submit("second", "long", time_budget_s=second_s, overrun=OverrunStrategy.PARTIAL, **WHOLE).go()
    assert run.result("first").error_code is ErrorCode.NONE
    assert run.result("second").error_code in (ErrorCode.NONE, ErrorCode.PLAN_PARTIAL)


@pytest.mark.parametrize(("budget_s", "num_words", "late_s"), [(0.66, 620, 0.82), (0.69, 900, 0.9)])
def test_the_way_of_what_was_promised_is_not_given_to_the_next_goal(budget_s, num_words, late_s):
    run = Run(can_evict=False, max_num_seqs=2, network_latency_s=0.1)
    run.loop._budgets.lengths = Oracle()
    run.submit("promised", "long", time_budget_s=budget_s, overrun=OverrunStrategy.KILL, **WHOLE).go(until_s=0.05)
    late = "go" + " see" * num_words
    run.submit("late", late, time_budget_s=late_s, overrun=OverrunStrategy.KILL).go()
    assert run.result("promised").error_code is ErrorCode.NONE
    assert run.result("promised").metrics.plan_time_s <= budget_s - 0.2


def test_an_emergency_without_a_budget_starves_behind_no_reservations_and_breaks_none():
    run = Run("tardiness", can_evict=False, max_num_seqs=4, network_latency_s=0.0)
    run.loop._budgets.lengths = Oracle()
    for number in range(50):  # more than the engine can serve
        run.go(until_s=0.12 * number)
        run.now_s = max(run.now_s, 0.12 * number)
        run.submit(f"r{number}", "long", time_budget_s=2.0, overrun=OverrunStrategy.KILL, **WHOLE)
        if number == 4:
            arrival_s = run.now_s
            run.submit("urgent", "go", urgency=Urgency.URGENT)
    run.go()
    assert run.first_segment_at_s("urgent") - arrival_s < 0.5
    kept = {ErrorCode.NONE, ErrorCode.BUDGET_INFEASIBLE}
    assert {run.result(f"r{number}").error_code for number in range(50)} == kept


@pytest.mark.parametrize("policy", ["tardiness", "edf_segment"])
@pytest.mark.parametrize("budget_s", [0.8, 0.9])
def test_an_emergency_does_not_wait_for_the_time_that_others_would_yield(policy, budget_s):
    """A promise counts on as many others as it has time for; these can make room where that time is wanted."""
    run = Run(policy, can_evict=False, max_num_seqs=8, network_latency_s=0.0)
    run.loop._budgets.lengths = Oracle()
    for number in range(12):
        run.submit(f"other{number}", "long" + " see" * 100)
    run.go(3).submit("promised", "long", time_budget_s=budget_s, overrun=OverrunStrategy.KILL, **WHOLE).go(2)
    assert "promised" in run.loop._scheduler.reservations
    arrival_s = run.now_s
    run.submit("urgent", "go" + " see" * 200, urgency=Urgency.URGENT).go()
    assert run.first_segment_at_s("urgent") - arrival_s < 0.1
    assert run.result("promised").error_code is ErrorCode.NONE


def test_an_emergency_for_which_a_promise_has_no_time_waits():
    run = Run("tardiness", can_evict=False, max_num_seqs=4, network_latency_s=0.0)
    run.loop._budgets.lengths = Oracle()
    run.submit("first", "long").submit("second", "long").submit("third", "long").submit("fourth", "long").go(3)
    run.submit("tight", "long", time_budget_s=0.57, overrun=OverrunStrategy.KILL, **WHOLE).step()
    run.submit("urgent", "go" + " see" * 3000, urgency=Urgency.URGENT).go()
    assert run.result("tight").error_code is ErrorCode.NONE
    (kept_at_s,) = [t for t, e in run.events if isinstance(e, Finished) and e.request_id == "tight"]
    assert run.first_segment_at_s("urgent") > kept_at_s


def test_many_that_come_at_once_do_not_make_each_decision_longer(monkeypatch):
    run, found = Run(max_num_seqs=4), []
    for number in range(4):
        run.submit(f"held{number}", "long", time_budget_s=0.6, **WHOLE)
    run.go(3)
    find = run.loop._budgets._find_worst_s
    monkeypatch.setattr(run.loop._budgets, "_find_worst_s", lambda *a, **k: found.append(a) or find(*a, **k))
    nums = []
    for num_goals in (10, 40):
        for number in range(num_goals):
            run.submit(
                f"r{num_goals}_{number}", "long" + " see" * 2000, time_budget_s=0.1, overrun=OverrunStrategy.KILL
            )
        found.clear()
        run.loop._budgets.keep(run.now_s)
        nums.append(len(found))
    assert nums[1] == nums[0]


def test_of_those_that_come_together_the_tightest_is_decided_about_first():
    run, admitted = Run(), []
    run.loop.tell_admissions(lambda goal: admitted.append(goal.request.request_id))
    for number, budget_s in enumerate((9.0, 3.0, 1.0, 6.0)):
        run.submit(f"r{number}", time_budget_s=budget_s)
    run.step()
    assert admitted == ["r2", "r1", "r3", "r0"]


arrivals = st.lists(
    st.tuples(
        st.floats(0.0, 0.5),
        st.sampled_from(["go", "long"]),
        st.none() | st.floats(0.05, 1.5),
        st.sampled_from(BudgetScope),
        st.integers(0, 900),
    ),
    min_size=3,
    max_size=10,
)


@given(
    arrivals=arrivals,
    policy=st.sampled_from(["fcfs", "fcfs_stream", "fcfs_segment", "pud"]),
    max_num_seqs=st.integers(1, 4),
    is_exact=st.booleans(),
)
@example(  # while two long plans are written, a third goal comes
    arrivals=[
        (0.0095, "go", None, BudgetScope.FIRST_SEGMENT, 142),
        *[(0.22777348181251306, "long", 0.7255927435525511, BudgetScope.WHOLE_PLAN, 38)] * 2,
        (0.23692491436268276, "go", None, BudgetScope.FIRST_SEGMENT, 746),
        (0.23692491436268276, "long", 1.0549015822691676, BudgetScope.WHOLE_PLAN, 746),
        (0.2800660866906473, "go", None, BudgetScope.FIRST_SEGMENT, 900),
        (0.31558392678791264, "long", 1.2175037417997918, BudgetScope.FIRST_SEGMENT, 419),
        (0.31927610109731736, "go", None, BudgetScope.WHOLE_PLAN, 297),
    ],
    policy="fcfs_stream",
    max_num_seqs=4,
    is_exact=False,
)
@example(  # more goals than slots: who holds one is not alone for that
    arrivals=[
        (0.0, "go", None, BudgetScope.FIRST_SEGMENT, 0),
        (0.0, "go", None, BudgetScope.FIRST_SEGMENT, 0),
        (0.0, "go", None, BudgetScope.FIRST_SEGMENT, 0),
        (0.375, "go", None, BudgetScope.FIRST_SEGMENT, 0),
        (0.25, "go", 0.75, BudgetScope.FIRST_SEGMENT, 247),
        (0.25, "long", 0.5, BudgetScope.FIRST_SEGMENT, 0),
    ],
    policy="fcfs",
    max_num_seqs=2,
    is_exact=True,
)
@example(  # two that wait for a third one's reserved slot go on together
    arrivals=[
        (0.375, "go", 1.0, BudgetScope.FIRST_SEGMENT, 0),
        (0.375, "go", 1.0, BudgetScope.FIRST_SEGMENT, 1),
        (0.4375, "long", 1.0, BudgetScope.FIRST_SEGMENT, 469),
    ],
    policy="fcfs",
    max_num_seqs=3,
    is_exact=True,
)
@settings(max_examples=50, deadline=None)
def test_an_admitted_goal_is_in_time_and_others_are_refused_before_anything_is_spent(
    arrivals, policy, max_num_seqs, is_exact
):
    """No admitted budget is broken: the estimator is exact, lengths are known or within the pessimistic ones."""
    run = Run(policy=policy, max_num_seqs=max_num_seqs)
    check_worst_cases(run)
    if is_exact:
        run.loop._budgets.lengths = Oracle()
    arrived_s = {}
    for index, (at_s, text, budget_s, scope, num_words) in enumerate(sorted(arrivals, key=lambda a: a[0])):
        run.go(until_s=at_s)
        run.now_s = max(run.now_s, at_s)
        arrived_s[f"r{index}"] = run.now_s
        instruction = text + " see" * num_words
        budget = {"time_budget_s": budget_s, "budget_scope": scope, "overrun": OverrunStrategy.KILL}
        run.submit(f"r{index}", instruction, **(budget if budget_s else {}))
    run.go()
    for name in arrived_s:
        result = run.result(name)
        if result.error_code is ErrorCode.BUDGET_INFEASIBLE:
            assert result.metrics.num_output_tokens == 0
        elif "token_cap" not in result.metrics.measures:
            assert result.error_code is ErrorCode.NONE, result
        else:
            assert result.error_code in (ErrorCode.NONE, ErrorCode.PLAN_PARTIAL, ErrorCode.BUDGET_EXCEEDED), result
    run.loop._scheduler.check_integrity()


def test_two_that_needed_no_slot_both_get_one_when_a_third_makes_it_tight():
    run = Run(policy="fcfs", max_num_seqs=3)
    run.loop._budgets.lengths = Oracle()
    for name in ("a", "b"):
        run.submit(name, "long", time_budget_s=0.625, overrun=OverrunStrategy.KILL)
    run.go(until_s=0.25).submit("c", "go" + " see" * 201).go(until_s=0.5).submit("d", "go").go()
    for name in ("a", "b"):
        assert run.result(name).error_code is ErrorCode.NONE
        assert "reserved_slot" in run.result(name).metrics.measures
    assert run.result("c").error_code is run.result("d").error_code is ErrorCode.NONE


def test_a_budget_that_is_over_before_the_first_decision_is_refused_and_not_missed():
    run = Run().submit("a", "long").go(3)
    run.submit(time_budget_s=0.005)
    run.now_s += 0.02  # a step was running
    run.go()
    assert run.result().error_code is ErrorCode.BUDGET_INFEASIBLE


def test_an_engine_that_was_slow_is_not_taken_for_slow_for_ever():
    """Nothing but tight budgets comes afterwards, so that no step runs while they are refused."""
    run = Run(can_evict=False)
    run.loop._budgets.lengths = Oracle()
    for _ in range(100):
        for chunks in ([(1, 500)], [(300, 32)]):
            slow_s = 4.0 * run.backend.profile.step_s(Chunk(*chunk) for chunk in chunks)
            run.loop._scheduler.times.engine.observe(chunks, slow_s)
    for number in range(10):
        run.now_s += 60.0
        run.submit(f"r{number}", time_budget_s=0.08, overrun=OverrunStrategy.KILL).go()
    assert run.result("r0").error_code is ErrorCode.BUDGET_INFEASIBLE
    assert run.result("r9").error_code is ErrorCode.NONE


def test_a_goal_whose_first_segment_is_out_continues_alongside_the_next_one():
    """Found by the property above: the second of two budgets did not count the plan of the first that went on."""
    run = Run(policy="fcfs_segment", max_num_seqs=4)
    run.loop._budgets.lengths = Oracle()
    run.submit("r0", "long" + " see" * 817).submit("r1", "long" + " see" * 82)
    for name, at_s, budget_s, num_words in (("r2", 0.125, 0.1875, 734), ("r3", 0.25, 0.125, 0)):
        run.go(until_s=at_s)
        run.now_s = max(run.now_s, at_s)
        budget = {"time_budget_s": budget_s, "budget_scope": BudgetScope.FIRST_SEGMENT, "overrun": OverrunStrategy.KILL}
        run.submit(name, "go" + " see" * num_words, **budget)
    run.go()
    assert run.result("r3").error_code in (ErrorCode.NONE, ErrorCode.BUDGET_INFEASIBLE)


@pytest.mark.parametrize("overrun", OverrunStrategy)
def test_a_budget_that_cannot_be_kept_is_refused_unless_a_late_plan_is_wanted(overrun):
    run = Run()
    run.submit("normal").go(until_s=0.1)
    run.submit("long", instruction="long", time_budget_s=0.001, overrun=overrun, **WHOLE)
    run.submit("kept", instruction="long", time_budget_s=60.0, **WHOLE).go(until_s=run.now_s + 0.1)
    assert run.loop._budgets.keeps("kept")
    assert not run.loop._budgets.keeps("long")  # so a step that it is part of can be given up for an emergency
    result = run.go().result("long")
    if overrun is OverrunStrategy.SKIP_NEXT:
        assert (result.error_code, result.metrics.measures) == (ErrorCode.NONE, ())
    else:
        assert result.error_code is ErrorCode.BUDGET_INFEASIBLE
    assert run.result("normal").error_code is ErrorCode.NONE


@pytest.mark.parametrize("overrun", [OverrunStrategy.SKIP_NEXT, OverrunStrategy.KILL])
def test_a_budget_that_is_over_stands_in_nobodys_way(overrun):
    run = Run(max_num_seqs=2)
    run.backend.plans["huge"] = "x(1);" * 3000
    endless = {"instruction": "huge", "max_tokens": 8000}
    run.submit("late", time_budget_s=0.9, overrun=overrun, **endless, **WHOLE)
    for number in range(3):
        run.submit(f"other{number}", **endless)
    run.go(until_s=1.2)
    run.submit("urgent", urgency=Urgency.URGENT, time_budget_s=1.0).go(until_s=2.5)
    assert run.first_segment_at_s("urgent") <= run.now_s
    assert run.result("urgent").error_code is ErrorCode.NONE


def test_a_goal_that_goes_on_without_its_budget_and_waits_for_memory_stands_in_nobodys_way():
    run = Run(policy="tardiness", max_num_seqs=2, can_evict=False, num_kv_blocks=300)
    run.backend.plans["huge"] = "x(1);" * 3000
    first = {"time_budget_s": 1.0, "budget_scope": BudgetScope.FIRST_SEGMENT}
    run.submit("huge", "huge" + " see" * 1500, max_tokens=2000, time_budget_s=60.0, **WHOLE)
    run.submit("other0").submit("other1").go(until_s=0.5)
    run.submit("late", "go" + " see" * 2200, overrun=OverrunStrategy.SKIP_NEXT, **first)
    run.submit("other2").go(until_s=1.7)
    assert "late" not in run.loop._scheduler.reservations
    run.submit("urgent", urgency=Urgency.URGENT, overrun=OverrunStrategy.KILL, **first).go(until_s=3.0)
    assert run.first_segment_at_s("urgent") < run.now_s


@pytest.mark.parametrize(("num_kv_blocks", "code"), [(300, ErrorCode.BUDGET_INFEASIBLE), (4096, ErrorCode.NONE)])
def test_no_budget_is_promised_that_the_memory_cannot_hold(num_kv_blocks, code):
    run = Run(policy="tardiness", max_num_seqs=2, can_evict=False, num_kv_blocks=num_kv_blocks)
    run.backend.plans["huge"] = "x(1);" * 3000
    run.submit("huge", "huge" + " see" * 1500, max_tokens=2000, time_budget_s=60.0, **WHOLE)
    run.submit("other0").submit("other1").go(until_s=0.5)
    first = {"budget_scope": BudgetScope.FIRST_SEGMENT, "overrun": OverrunStrategy.KILL}
    run.submit("urgent", "go" + " see" * 2200, urgency=Urgency.URGENT, time_budget_s=1.0, **first).go(until_s=9.0)
    assert run.result("urgent").error_code is code


def beside_a_large_one(time_budget_s, num_tokens=200):
    """A run that ends with a goal whose prompt fits into the memory only behind the one with the reserved slot."""
    run = Run(policy="tardiness", max_num_seqs=2, can_evict=False, num_kv_blocks=300)
    run.backend.plans["huge"] = "x(1);" * 3000
    run.submit("huge", "huge" + " see" * 1500, max_tokens=num_tokens, time_budget_s=60.0, **WHOLE)
    run.submit("other0").submit("other1").go(until_s=0.5)
    first = {"budget_scope": BudgetScope.FIRST_SEGMENT, "overrun": OverrunStrategy.KILL}
    run.submit("late", "go" + " see" * 3000, time_budget_s=time_budget_s, **first)
    return run


def test_a_goal_without_memory_waits_for_it_if_its_budget_is_as_long_as_a_refusal_says():
    message = beside_a_large_one(1.0).go().result("late").error_msg
    named_s = float(message.split("at least ")[1].split(" s")[0])
    run = beside_a_large_one(named_s * 1.01)
    start_s = run.now_s
    run.go(until_s=start_s + 0.2)
    assert "late" not in run.loop._scheduler.reservations  # it would hold others back
    run.go()
    assert run.result("late").error_code is ErrorCode.NONE
    assert run.first_segment_at_s("late") <= start_s + named_s * 1.01


def test_memory_is_counted_in_tokens_where_a_step_brings_several(monkeypatch):
    run = beside_a_large_one(600.0, num_tokens=1000)
    budgets = run.loop._budgets
    kept = budgets._kept["huge"]
    before = budgets._own_kv_tokens(kept)
    monkeypatch.setattr(budgets.lengths, "tokens_per_step", lambda goal: 1.5)
    assert budgets._own_kv_tokens(kept) > before
    monkeypatch.setattr(budgets.lengths, "tokens_per_step", lambda goal: 100.0)
    generation = kept.goal.generation
    most_tokens = generation.peak_kv_len + generation.num_tokens_left - generation.sequence.num_cached_tokens
    assert budgets._own_kv_tokens(kept) == most_tokens
