# SPDX-License-Identifier: Apache-2.0
"""Each invariant is broken by what it forbids, and by nothing else."""

import pytest

from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.bench.chaos.checks import RobotCheck, Span, check_goals, check_success, recoveries
from llm_planner_lab.bench.chaos.goals import SCRIPT, Goal

TELLO = RobotLibrary().get("tello")
PLAN = ("l('g1 begins');", "mf(20);", "2{tc(30);}")
CALLS = (["l", "g1 begins"], ["mf", 20.0], ["tc", 30.0], ["tc", 30.0])
ENDED_S = 100.0


def journal(*lines, pid=1, step_s=0.1):
    return [{"at_s": step_s * number, "pid": pid, **line} for number, line in enumerate(lines, 1)]


def asked(goal="a", tag="g1"):
    return {"kind": "asked", "goal": goal, "instruction": f"{SCRIPT}l('{tag} begins');"}


def begun(goal="a"):
    return {"kind": "begin", "goal": goal, "is_chat": False}


def received(index, goal="a", text=None):
    return {"kind": "received", "goal": goal, "index": index, "text": text or PLAN[index]}


def report(status, index, goal="a"):
    return {"kind": "report", "goal": goal, "index": index, "status": status}


def call(words):
    return {"kind": "call", "call": words}


def carried_out(index, *calls, goal="a"):
    return (
        received(index, goal), report("STARTED", index, goal), *map(call, calls), report("SUCCEEDED", index, goal)
    )  # fmt: skip


WHOLE = (
    asked(), begun(), *carried_out(0, CALLS[0]), *carried_out(1, CALLS[1]), *carried_out(2, *CALLS[2:]),
    {"kind": "inactive", "goal": "a"},
)  # fmt: skip


def check(*lines, admitted=PLAN, until_s=ENDED_S, faulted=(), **options):
    found = RobotCheck(
        robot="drone_1", model=TELLO, time_scale=1.0, admitted={"a": set(admitted), "b": set(admitted)}, faulted=faulted
    )
    found.follow(journal(*lines, **options), until_s)
    return found


def broken(*lines, **options):
    return {violation.invariant for violation in check(*lines, **options).violations}


def test_a_plan_that_is_carried_out_breaks_nothing():
    found = check(*WHOLE)
    assert found.violations == []
    assert (found.num_segments, found.num_calls) == (3, 4)
    assert [list(words) for words in found.calls_of["g1"]] == list(CALLS)


def test_what_a_robot_also_does_without_being_told_counts_where_its_plan_says_so():
    told = (asked(), begun(), received(0, text="ld();"), report("STARTED", 0))
    ends = (report("SUCCEEDED", 0), {"kind": "inactive", "goal": "a"})
    assert broken(*told, call(["ld"]), *ends, admitted=("ld();",)) == set()
    assert broken(*told, call(["h"]), *ends, admitted=("ld();",)) == {"false_success"}


@pytest.mark.parametrize(
    ("lines", "invariant"),
    [
        ((*WHOLE[:-1], report("STARTED", 1), call(CALLS[1])), "segments_twice"),
        ((asked(), begun(), received(0), report("STARTED", 0), call(["l", "g2 begins"])), "foreign_calls"),
        ((asked(), begun(), received(0), report("STARTED", 0), call(CALLS[1])), "calls_not_admitted"),
        ((asked(), begun(), received(0), report("STARTED", 0), call(CALLS[0]), call(CALLS[0])), "calls_not_admitted"),
        ((asked(), begun(), call(CALLS[0])), "calls_not_admitted"),
        ((asked(), begun(), report("STARTED", 0), report("FAILED", 0)), "calls_not_admitted"),
        ((asked(), begun(), received(0, text="tp();"), report("STARTED", 0)), "calls_not_admitted"),
        ((asked(), begun(), *carried_out(2, CALLS[2])), "false_success"),
    ],
)  # fmt: skip
def test_what_is_forbidden_breaks_its_invariant(lines, invariant):
    last_s = 0.1 * len(lines)
    assert broken(*lines, until_s=last_s) == {invariant}


def test_a_segment_of_the_goal_before_is_foreign_though_its_gate_admitted_it():
    lines = (*WHOLE, asked("b", "g2"), begun("b"), *carried_out(0, CALLS[0], goal="b"))
    assert broken(*lines, until_s=0.1 * len(lines)) == {"foreign_calls", "false_success"}


def test_a_halted_segment_needs_no_more_calls_and_a_new_process_begins_again():
    halted = (asked(), begun(), received(2), report("STARTED", 2), call(CALLS[2]), report("FAILED", 2))
    again = [{**line, "pid": 2} for line in halted]
    assert broken(*halted, *again, until_s=1.2) == set()


SILENT_S = TELLO.silence[0].after_s


@pytest.mark.parametrize(("late_s", "is_broken"), [(0.0, False), (0.49, False), (0.51, True), (50.0, True)])
def test_silence_steps_begin_half_a_second_after_their_time_at_the_latest(late_s, is_broken):
    begin = {"kind": "begin", "goal": "a", "is_chat": False, "at_s": 10.0, "pid": 1}
    hover = {"kind": "call", "call": ["h"], "at_s": 10.0 + SILENT_S + late_s, "pid": 1}
    found = RobotCheck(robot="drone_1", model=TELLO, time_scale=1.0, admitted={})
    found.follow([{"kind": "started", "at_s": 9.0, "pid": 1}, begin, hover], ENDED_S)
    assert bool(found.violations) == is_broken
    assert found.silence_delays_s == pytest.approx([] if is_broken else [late_s])


def test_silence_counts_from_the_last_sign_of_life_and_not_while_a_segment_runs():
    life = [{"kind": "life", "received_s": 0.5 * n} for n in range(60)]
    assert broken(begun(), *life, step_s=0.5, until_s=30.0) == set()
    assert broken(begun(), received(1), report("STARTED", 1), call(CALLS[1])) == set()
    assert broken(begun()) == {"robots_unsafe"}
    assert broken(begun(), faulted=[Span(2.0, 3.0)]) == set()
    assert broken(begun(), {"kind": "inactive", "goal": "a"}) == set()


def goal(**fields):
    told = {"instruction": "exactly: " + "".join(PLAN), "plan": "".join(PLAN)}
    defaults = {"number": 1, "robot": "drone_1", "is_urgent": False, "asked_s": 0.0, "pid": 7} | told
    return Goal(**defaults | fields)


def test_a_goal_is_lost_if_its_robot_lived_longer_than_the_bound():
    living, dead = {"drone_1": [(7, float("inf"))]}, {"drone_1": [(7, 12.0)]}
    lost = goal(accepted_s=1.0)
    assert [v.invariant for v in check_goals([lost], 100.0, 60.0, living)] == ["goals_lost"]
    assert lost.verdict == "lost"
    for ended, alive, verdict in ((100.0, dead, "robot ended"), (30.0, living, "campaign ended")):
        open_goal = goal(accepted_s=1.0)
        assert check_goals([open_goal], ended, 60.0, alive) == []
        assert open_goal.verdict == verdict
    assert check_goals([goal()], 100.0, 60.0, living) == []  # no bound was guaranteed


def test_every_outcome_needs_a_numbered_code_and_none_needs_every_call():
    assert [v.invariant for v in check_goals([goal(code=999)], 100.0, 60.0, {})] == ["ended_without_code"]
    assert check_goals([goal(code=600)], 100.0, 60.0, {}) == []
    robots = {"drone_1": check(*WHOLE)}
    assert check_success([goal(code=0)], robots) == []
    assert [v.invariant for v in check_success([goal(code=0, plan="tp();")], robots)] == ["false_success"]
    assert check_success([goal(code=0, plan="", instruction="land")], robots) == []  # a model decides


def test_a_goal_whose_segment_failed_may_make_calls_again_but_must_make_all():
    tried = (received(0), report("STARTED", 0), call(CALLS[0]), report("FAILED", 0))
    texts = (PLAN[0], "rp();", *PLAN)
    whole = (asked(), begun(), *tried)
    for index, calls in ((2, CALLS[:1]), (3, CALLS[1:2]), (4, CALLS[2:])):
        text = received(index, text=texts[index])
        whole += (text, report("STARTED", index), *map(call, calls), report("SUCCEEDED", index))
    robots = {"drone_1": check(*whole, {"kind": "inactive", "goal": "a"})}
    assert robots["drone_1"].violations == []
    assert check_success([goal(code=0)], robots) == []
    assert check_success([goal(code=0, plan=goal().plan + "tp();")], robots) != []  # one is missing
    robots["drone_1"].failed.clear()
    assert check_success([goal(code=0)], robots) != []  # without a reason


def test_an_engine_is_back_when_a_new_process_admits_a_segment():
    lines = [
        {"kind": "admitted", "at_s": 1.0, "pid": 1},
        {"kind": "admitted", "at_s": 10.1, "pid": 1},  # written before it was killed
        {"kind": "ready", "at_s": 14.0, "pid": 2, "load_s": 3.5},
        {"kind": "admitted", "at_s": 14.5, "pid": 2},
    ]
    (back,) = recoveries(lines, [10.0])
    assert (back.after_s, back.load_s) == (4.5, 3.5)
    assert len(recoveries(lines, [10.0, 12.0])) == 1  # killed again before it was back
    assert recoveries(lines, []) == recoveries(lines, [20.0]) == []


def test_a_robot_without_a_processor_has_more_time_and_one_that_is_early_is_in_time():
    begin = {"kind": "begin", "goal": "a", "is_chat": False, "at_s": 10.0, "pid": 1}
    starved = {"kind": "starved", "seconds": 2.0, "since_s": 10.0, "pid": 1}
    for late_s, seconds, is_broken in ((-0.1, 0.0, False), (2.4, 2.0, False), (2.6, 2.0, True)):
        at_s = 10.0 + SILENT_S + late_s
        lines = [{**starved, "seconds": seconds, "at_s": at_s}, {"kind": "call", "call": ["h"], "at_s": at_s, "pid": 1}]
        found = RobotCheck(robot="drone_1", model=TELLO, time_scale=1.0, admitted={})
        found.follow([{"kind": "started", "at_s": 9.0, "pid": 1}, begin, *lines], ENDED_S)
        assert bool(found.violations) == is_broken


LATE_S = SILENT_S + 0.6  # 0.1 s beyond the bound


@pytest.mark.parametrize(
    ("since_s", "starved_at_s", "seconds", "pid", "is_broken"),
    [
        (0.2, 5.7, 5.0, 1, False),  # the process had no processor, and another thread wrote before the control loop
        (5.4, 5.7, 0.3, 1, False),
        (5.4, 5.7, 0.15, 1, True),  # 0.1 s of it may have come afterwards
        (5.6, 5.9, 0.3, 1, True),  # all of it came afterwards
        (5.4, 5.7, 0.3, 2, True),  # of another process
    ],
)
def test_a_line_that_another_thread_writes_first_does_not_hide_that_there_was_no_processor(
    since_s, starved_at_s, seconds, pid, is_broken
):
    begin = {"kind": "begin", "goal": "a", "is_chat": False, "at_s": 10.0, "pid": 1}
    life = {"kind": "life", "received_s": 10.0 + LATE_S - 0.01, "at_s": 10.0 + LATE_S, "pid": 1}
    starved = {
        "kind": "starved",
        "seconds": seconds,
        "since_s": 10.0 + since_s,
        "at_s": 10.0 + starved_at_s,
        "pid": pid,
    }
    found = RobotCheck(robot="drone_1", model=TELLO, time_scale=1.0, admitted={})
    end = {"kind": "inactive", "goal": "a", "at_s": 16.0, "pid": 1}
    found.follow([{"kind": "started", "at_s": 9.0, "pid": 1}, begin, life, starved, end], ENDED_S)
    assert bool(found.violations) == is_broken


def test_a_line_counts_from_when_it_was_noted_though_it_was_written_later():
    begin = {"kind": "begin", "goal": "a", "is_chat": False, "at_s": 10.0, "pid": 1}
    hover = {"kind": "call", "call": ["h"], "at_s": 10.0 + SILENT_S, "pid": 1}
    life = {"kind": "life", "received_s": 10.0 + LATE_S, "at_s": 10.0 + LATE_S, "pid": 1}
    for lines, is_broken in (((life, hover), False), ((life,), True)):
        found = RobotCheck(robot="drone_1", model=TELLO, time_scale=1.0, admitted={})
        found.follow([{"kind": "started", "at_s": 9.0, "pid": 1}, begin, *lines], 16.0)
        assert bool(found.violations) == is_broken
